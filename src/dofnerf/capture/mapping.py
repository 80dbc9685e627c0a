"""Poses for prepared photos: attempts up a ladder of tolerance, each by pycolmap in a process of its own.

All that was computed stays in the work folder: features and matches in a database, each attempt's models and summary
beside it. Called again, this goes on from there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dofnerf.capture.attempts import LADDER, Attempt
from dofnerf.capture.groups import Group
from dofnerf.files import write_json
from dofnerf.files.guard import first_line

CHILD = Path(__file__).parent / "colmap_child.py"
LOG = "pycolmap.log"
FULL = "the disk is full; free some space and run the same command again, which goes on from here"
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Mapped:
    """An attempt's best model: `folder` (COLMAP's), `registered` photos, mean `error` in pixels of the scene's photos.

    `features` and `matches` (inliers with the best partner) are there for every photo, by name; `models` counts the
    sets of photos that fit together, of which this is the largest.
    """

    attempt: str
    folder: Path
    registered: tuple[str, ...]
    error: float
    points: int
    features: dict[str, int] = field(default_factory=dict)
    matches: dict[str, int] = field(default_factory=dict)
    models: int = 1


@dataclass(frozen=True)
class Staged:
    """Copies to look for features in: `photos` is a folder of `NAME.png`, `scale` times as large as those of the
    scene."""

    photos: Path
    groups: Sequence[Group]
    scale: float


@dataclass(frozen=True)
class Job:
    """What to map: `count` photos; `pairs` are names; `work` is where all is kept; `stage(small)` makes the copies."""

    work: Path
    count: int
    pairs: Sequence[tuple[str, str]]
    stage: Callable[[bool], Staged]


def expect_pycolmap() -> None:
    """Refuse to begin without it."""
    if importlib.util.find_spec("pycolmap") is None:  # looks for it without importing it
        raise ValueError("pycolmap is not installed: pip install 'dofnerf[capture]'")


def map_photos(job: Job, attempts: int, report: Report, say: Callable[[str], None]) -> Mapped:
    """Try until all photos are registered, at most so many `attempts`; the best, by photos and then by error."""
    best: Mapped | None = None
    for number, attempt in enumerate(LADDER[:attempts]):
        if best is not None:
            say(f"{len(best.registered)} of {job.count} photos have a pose; trying {attempt.name}")
        found = _try(job, number, attempt, report)
        if best is None or (len(found.registered), -found.error) > (len(best.registered), -best.error):
            best = found
        if len(best.registered) == job.count:
            break
    assert best is not None
    return best


def _try(job: Job, number: int, attempt: Attempt, report: Report) -> Mapped:
    folder = job.work / f"attempt-{number}"
    summary = folder / "summary.json"
    staged = job.stage(attempt.small)
    task = {
        "photos": str(staged.photos),
        "database": str(job.work / f"{attempt.features}.db"),
        "models": str(folder / "models"),
        "summary": str(summary),
        "groups": [{**group.plain(), "names": [f"{name}.png" for name in group.names]} for group in staged.groups],
        "pairs": [(f"{one}.png", f"{other}.png") for one, other in job.pairs],
        "extraction": attempt.extraction,
        "matching": attempt.matching,
        "verification": attempt.verification,
        "mapping": attempt.mapping,
        "threads": torch.get_num_threads(),
    }
    if not summary.is_file():
        write_json(folder / "task.json", task)
        run_child(folder / "task.json", job.work / LOG, report)
    return _best(attempt, folder / "models", json.loads(summary.read_text(encoding="utf-8")), staged.scale)


def _best(attempt: Attempt, folder: Path, summary: dict[str, Any], scale: float) -> Mapped:
    def stems(values: dict[str, int]) -> dict[str, int]:
        return {Path(name).stem: count for name, count in values.items()}

    known = stems(summary["features"]), stems(summary["matches"])
    models = sorted(summary["models"], key=lambda model: (-len(model["registered"]), model["error"]))
    if not models:
        return Mapped(attempt.name, folder, (), float("inf"), 0, *known, 0)
    first = models[0]
    names = tuple(Path(name).stem for name in first["registered"])
    others = sum(len({*model["registered"]} - {*first["registered"]}) >= 3 for model in models[1:])
    error = first["error"] / scale
    return Mapped(attempt.name, folder / first["folder"], names, error, first["points"], *known, 1 + others)


def run_child(task: Path, log: Path, report: Report) -> None:
    """Run the child on a task; its messages go to `report`, what it prints to `log`. ValueError if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    start = log.stat().st_size if log.exists() else 0
    with open(log, "ab") as printed:
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(task)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=printed, text=True, encoding="utf-8", env=environment,
        )  # fmt: skip
        try:
            assert child.stdout is not None
            for line in child.stdout:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    message = json.loads(line)
                    report(message["step"], message["done"], message["total"])
            code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if code != 0:
        raise ValueError(f"{_complaint(log, start, code)}; the log is {log}")


def _complaint(log: Path, start: int, code: int) -> str:
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read()[-20_000:].decode("utf-8", errors="replace").splitlines()
    text = "\n".join(lines)
    if "No space left" in text or "database or disk is full" in text or "disk I/O error" in text:
        return f"{log.parent}: {FULL}"
    telling = [line for line in lines if line.strip() and not line.startswith(("I2", "W2", " ", "Traceback"))]
    return f"pycolmap failed ({code}): {first_line(ValueError(telling[-1])) if telling else 'no message'}"
