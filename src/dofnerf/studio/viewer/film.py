"""A visitor's keyframes as a film, into the run's folder and to the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dofnerf.pictures import write_video
from dofnerf.studio.keyframes import Moment, between, write_keyframes
from dofnerf.studio.shoot_film import photograph_moment
from dofnerf.studio.viewer.darkroom import LAYERS

if TYPE_CHECKING:
    from dofnerf.studio.viewer.visitor import Visitor

FPS = 24
FOLDER = "films"


def film(visitor: Visitor, moments: Sequence[Moment], done: Callable[[], None]) -> None:
    """Render and write RUN/films/film-N.mp4, and its keyframes beside it; shows how far it is."""
    panel, stage = visitor.panel, visitor.stage
    folder = stage.folder / FOLDER
    number = next(n for n in range(1, 100_000) if not (folder / f"film-{n}.mp4").exists())
    times = np.arange(0, moments[-1].time + 1e-9, 1 / FPS)
    shots = between(moments, [float(time) for time in times], min(stage.longest, moments[0].view.camera.width) // 2 * 2)

    def frames() -> Iterator[np.ndarray]:
        for i, shot in enumerate(shots):
            panel.progress.value = 100 * i / len(shots)
            yield photograph_moment(stage.subject, shot, LAYERS)  # as the viewer shows them
            if not visitor.alive:
                raise RuntimeError("the visitor has gone")

    panel.progress.visible = True
    try:
        path = folder / f"film-{number}.mp4"
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
        if visitor.alive:
            panel.progress.visible = False
