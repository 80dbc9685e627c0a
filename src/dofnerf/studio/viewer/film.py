"""A visitor's keyframes as a film, into the run's folder and to the browser."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dofnerf.files import write_video
from dofnerf.studio.keyframes import Moment, between, write_keyframes
from dofnerf.studio.shoot_film import photograph_moment
from dofnerf.studio.viewer.darkroom import BUSY, LAYERS

if TYPE_CHECKING:
    from dofnerf.studio.viewer.visitor import Visitor

FPS = 24
FOLDER = "films"


def film(visitor: Visitor, moments: Sequence[Moment], done: Callable[[], None]) -> None:
    """Render and write RUN/films/film-N.mp4, and its keyframes beside it, which go if it fails; shows how far it is."""
    panel, stage = visitor.panel, visitor.stage
    folder = stage.folder / FOLDER
    times = np.arange(0, moments[-1].time + 1e-9, 1 / FPS)
    shots = between(moments, [float(time) for time in times], min(stage.longest, moments[0].view.camera.width) // 2 * 2)

    def frames() -> Iterator[np.ndarray]:
        for i, shot in enumerate(shots):
            panel.progress.value = 100 * i / len(shots)
            with BUSY:
                picture = photograph_moment(stage.subject, shot, LAYERS)  # as the viewer shows them
            yield picture
            if not visitor.alive:
                raise RuntimeError("the visitor has gone")

    panel.progress.visible = True
    path = None
    try:
        path = reserve(folder)
        write_keyframes(path.with_suffix(".json"), moments)
        write_video(path, frames(), FPS)
        visitor.client.send_file_download(path.name, path.read_bytes(), save_immediately=False)
        panel.count.content = f"Wrote {FOLDER}/{path.name} in the run's folder."
        panel.film.disabled = False
    except (OSError, ValueError, RuntimeError) as error:
        if visitor.alive:
            done()
            panel.count.content = f"⚠ {error}"
    finally:
        if path is not None and not path.exists():
            path.with_suffix(".json").unlink(missing_ok=True)
        if visitor.alive:
            panel.progress.visible = False


def reserve(folder: Path) -> Path:
    """The next film-N.mp4 that nobody has; its .json, empty as yet, keeps others from taking it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        path = folder / f"film-{number}.mp4"
        if not path.exists():
            try:
                path.with_suffix(".json").open("x").close()
            except FileExistsError:
                continue
            return path
    raise AssertionError  # it counts for ever
