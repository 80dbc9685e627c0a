"""Films of keyframes, made by the server one after the other, whether the page that asked is still open or not."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dofnerf.files import write_video
from dofnerf.files.guard import inside, open_regular
from dofnerf.models import Blur
from dofnerf.studio.film import photograph_moment
from dofnerf.studio.keyframes import Moment, between, write_keyframes
from dofnerf.studio.source import Source
from dofnerf.studio.viewer.renderer import BUSY, LAYERS
from dofnerf.web.start_page import FILMS, add_film

FPS = 24
MOST_KEYFRAMES = 100
LONGEST = 600  # seconds
MOST_WAITING = 4


class _Cancelled(RuntimeError):
    pass


@dataclass
class Job:
    """A film that is being made: `state` is working, done, cancelled, or an error in words; `share` 0 to 1."""

    path: Path
    moments: Sequence[Moment]
    width: int
    state: str = "working"
    share: float = 0.0
    began: float = 0.0
    cancelled: bool = False

    def facts(self) -> dict[str, Any]:
        """For the page; `left` are seconds, None while nobody knows."""
        spent = time.monotonic() - self.began
        left = spent * (1 - self.share) / self.share if self.began and self.share > 0.02 else None
        folder = str(self.path.parent)
        return {"name": self.path.name, "state": self.state, "share": self.share, "left": left, "folder": folder,
                "fresh": True}  # fmt: skip


class Films:
    """The films in a source's folder, and those that are being made."""

    def __init__(self, source: Source, longest: int) -> None:
        self.source, self.longest, self.folder = source, longest, source.folder / FILMS
        self.jobs: list[Job] = []
        self.lock = threading.Lock()
        self.turn = threading.Lock()  # one film at a time

    def start(self, moments: Sequence[Moment]) -> Job:
        """Begin to make a film, when those before it are done; refuses more than a few at once."""
        with self.lock:
            if sum(job.state == "working" for job in self.jobs) >= MOST_WAITING:
                raise ValueError("enough films are being made: wait for one, or cancel one")
            first = moments[0].view.camera
            width = round(first.width * min(1.0, self.longest / max(first.width, first.height))) // 2 * 2
            job = Job(reserve(self.folder), moments, max(width, 16))
            others = [one for one in self.jobs if one.path != job.path]  # a cancelled film's name is free again
            self.jobs = [*others, job][-20:]
        threading.Thread(target=self._make, args=(job,), name="dofnerf-film", daemon=True).start()
        return job

    def cancel(self, name: str) -> None:
        """Stop making a film."""
        for job in self.jobs:
            if job.path.name == name and job.state == "working":
                job.cancelled = True

    def open(self, name: str) -> BinaryIO | None:
        """A film that is there, to be read; None for a link that leads out of the folder, or what is no file."""
        try:
            return open_regular(inside(self.folder, name, "film"))
        except (OSError, ValueError):
            return None

    def facts(self) -> list[dict[str, Any]]:
        """All films: those being made and those of before."""
        known = {job.path.name for job in self.jobs}
        paths = sorted(self.folder.glob("film-*.mp4")) if self.folder.is_dir() else []
        before = [{"name": path.name, "state": "done", "fresh": False} for path in paths if path.name not in known]
        return [job.facts() for job in reversed(self.jobs)] + before

    def _make(self, job: Job) -> None:
        """Write RUN/films/film-N.mp4, and its keyframes beside it, which go if it fails."""
        times = np.arange(0, job.moments[-1].time + 1e-9, 1 / FPS)
        shots = between(job.moments, [float(moment) for moment in times], job.width)

        def frames() -> Iterator[np.ndarray]:
            for i, shot in enumerate(shots):
                if job.cancelled:
                    raise _Cancelled
                with BUSY:
                    picture = photograph_moment(self.source, shot, Blur(LAYERS, self.source.light))
                yield picture
                job.share = (i + 1) / len(shots)

        try:
            with self.turn:
                job.began = time.monotonic()
                write_keyframes(job.path.with_suffix(".json"), job.moments)
                write_video(job.path, frames(), FPS)
                add_film(job.path)
            job.state = "done"
        except _Cancelled:
            job.state = "cancelled"
        except (OSError, ValueError, RuntimeError) as error:
            job.state = f"failed: {error}"
        finally:
            if not job.path.exists():
                job.path.with_suffix(".json").unlink(missing_ok=True)


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
