"""`train --live` and `run --live`: the viewer's page while a run of splats trains.

The training itself takes the snapshots, between two steps, and only while somebody looks: packing the Gaussians takes a
moment, so the next one waits forty times as long. Without a visitor nothing is done. Host and Origin are checked as
those of `dofnerf view`, and only this machine is answered.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dofnerf.models.data import TrainingData
from dofnerf.models.workers import is_first_process
from dofnerf.studio.flags import LensFlags, ViewpointFlags
from dofnerf.studio.source import Source, source_of
from dofnerf.studio.viewer.server import Refused, Server, Viewer, jpeg
from dofnerf.studio.viewpoints import viewpoints
from dofnerf.studio.walk import packed, walk_of
from dofnerf.train import Run
from dofnerf.train.folder import watched_by
from dofnerf.train.learner import Learner
from dofnerf.web.walk_page import page

HOST, PORT = "127.0.0.1", 8080
PRESENT = 5.0  # seconds since the last question for which a visitor counts as there
REST = 40.0  # times as long as a snapshot took, before the next
PATIENCE = 10.0  # seconds that a visitor waits for the first one
WAITING = b"""<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<link rel="icon" href="data:,">
<title>Training begins</title><p>Training begins; the scene will be here after the first steps.</p></html>"""


class Photos(Mapping[str, bytes]):
    """The training photos by name, as JPEG, made when asked for."""

    def __init__(self, data: TrainingData) -> None:
        self.data = data

    def __getitem__(self, name: str) -> bytes:
        return jpeg(self.data.photos[self.data.names.index(name)].cpu().numpy())

    def __contains__(self, name: object) -> bool:
        return name in self.data.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.data.names)

    def __len__(self) -> int:
        return len(self.data.names)


class LiveViewer(Viewer):
    """What is served of a run that trains: `watch` is called after every step, the rest by those who serve."""

    def __init__(self) -> None:
        self.ready, self.lock = threading.Event(), threading.Lock()
        self.asked = self.rest = -math.inf
        self.scene: bytes | None = None
        self.names: list[str] = []
        self.photos: Mapping[str, bytes] = {}
        self.version, self.seconds = 0.0, 0.0
        self.facts: dict[str, Any] = {}
        self.progress: dict[str, Any] = {}

    def watch(self, learner: Learner, data: TrainingData, folder: Path | None) -> None:
        """Take a snapshot if somebody looks and the last one is old enough."""
        now, last = time.monotonic(), learner.progress.step == learner.config.method.total
        if now - self.asked > PRESENT or (now < self.rest and not last):
            return
        with contextlib.suppress(ValueError):  # nothing to see yet
            self._take(learner, data, source_of(Run(learner, folder)))
        self.seconds += time.monotonic() - now

    def _take(self, learner: Learner, data: TrainingData, source: Source) -> None:
        begun, total, step = time.thread_time(), learner.config.method.total, learner.progress.step
        scene = packed(source)
        self.rest = time.monotonic() + REST * (time.thread_time() - begun)
        if not self.ready.is_set():
            walk, poster = walk_of(source, viewpoints(ViewpointFlags(), source)[0], LensFlags(), source.path.name)
            self.photos, self.poster = Photos(data), poster
            self.names = [view.name for view in walk.photos]
            self.facts = walk.facts() | {"served": True, "drawn": False, "live": True}
            for i, photo in enumerate(self.facts["photos"]):
                if photo["name"] in self.photos:
                    photo["file"] = f"photos/{i}.jpg"
        self.source = source
        for photo, lens in zip(self.facts["photos"], lenses := self.lenses(), strict=True):
            photo |= lens
        with self.lock:
            self.scene, self.version = scene, float(step)
            self.progress = {
                "training": {"step": step, "steps": total} if step < total else None,
                "lenses": lenses,
                "table": source.lens_rows(learner.setting.metres),
            }
        self.ready.set()

    def page(self) -> bytes:
        self.asked = time.monotonic()
        if not self.ready.wait(PATIENCE):
            self.asked = time.monotonic()
            return WAITING
        return page(self.facts | {"version": self.version}, self.poster, None).encode()

    def status(self) -> dict[str, Any]:
        self.asked = time.monotonic()
        with self.lock:
            return {"version": self.version, "films": [], **self.progress}

    def picture(self, asked: dict[str, Any]) -> tuple[bytes, bool]:
        raise Refused("while it trains, the browser draws")

    def depth(self, asked: dict[str, Any]) -> float | None:
        raise Refused("while it trains, the browser draws")

    def film(self, asked: dict[str, Any]) -> str:
        raise Refused("no films while it trains")


@contextlib.contextmanager
def live(wanted: bool, field: str | None, port: int = PORT) -> Iterator[LiveViewer | None]:
    """Serve what is trained inside this, if `wanted`, on loopback; says where."""
    if wanted and field not in (None, "splat"):
        raise ValueError(f"--live shows splats only; of {field}, open `dofnerf view` on the run's folder beside it")
    if not wanted or not is_first_process():
        yield None
        return
    viewer = LiveViewer()
    server = Server(viewer, HOST, port)
    server.start()
    print(f"live     http://localhost:{server.port}", flush=True)
    try:
        with watched_by(viewer.watch):
            yield viewer
    finally:
        server.stop()
