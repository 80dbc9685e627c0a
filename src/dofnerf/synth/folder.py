"""The folder that a maker fills: it says what it holds, so that work can be resumed and never mixed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dofnerf.pictures import write_json
from dofnerf.scenes import Scene

RECORD = "synth.json"
T = TypeVar("T")


def claim(out: Path, source: Path | None, made_by: str, settings: dict[str, Any]) -> None:
    """Write down what `out` is to hold, or check that it was begun with just these settings; a `source` stays untouched."""
    if source is not None and out.resolve().is_relative_to((source.parent if source.is_file() else source).resolve()):
        raise ValueError(f"--out {out}: lies in the source {source}, where nothing is written; choose another folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file, not a folder")
    record = json.loads(json.dumps({"made_by": made_by, "settings": settings}))
    path = out / RECORD
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{path}: not readable; delete the folder or choose another one") from None
        if found != record:
            theirs = found.get("settings") if isinstance(found, dict) else None
            theirs = theirs if isinstance(theirs, dict) else {}
            differing = [key for key in record["settings"] if theirs.get(key) != record["settings"][key]] or ["maker"]
            raise ValueError(f"--out {out}: holds a scene made with another {', '.join(differing)}; choose another folder")
    elif out.is_dir() and any(out.iterdir()):
        raise ValueError(f"--out {out}: not empty and not begun by {made_by}; choose another folder")
    else:
        write_json(path, record)


def fingerprint(scene: Scene) -> str:
    """Changes when cameras, views, points or the photos' files do."""
    digest = hashlib.sha256(repr((scene.size, scene.near, scene.far, scene.train, scene.test)).encode())
    for frame in scene.frames:
        file = Path(frame.photo.label)
        numbers = (frame.name, file.name, file.stat().st_size if file.is_file() else 0, frame.camera.fx, frame.camera.fy)
        digest.update(repr(numbers).encode() + frame.camera.camera_to_world.tobytes())
    if scene.points is not None:
        digest.update(np.ascontiguousarray(scene.points.xyz).tobytes())
    return digest.hexdigest()[:16]


def tracker(label: str, show: bool = True) -> Callable[[Iterable[T]], Iterator[T]]:
    """A progress bar around a loop over views, on a terminal."""

    def track(steps: Iterable[T]) -> Iterator[T]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not (show and console.is_terminal)) as progress:
            yield from progress.track(list(steps), description=label)

    return track
