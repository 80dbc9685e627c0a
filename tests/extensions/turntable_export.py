"""A kind of export: a folder of small pictures from cameras around the first view, and their list."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files import write_image, write_json
from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import Job, Kind, register
from dofnerf.studio.paths import orbit

COUNT, WIDTH = 4, 32


@register
class Turntable(Kind):
    name = "turntable"
    about = "Small pictures from cameras around the middle of each view, and turntable.json, which lists them."
    per_view = True

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        assert view is not None
        return job.out / f"{view.name}-turntable"

    def write(self, job: Job, view: Viewpoint | None) -> str:
        assert view is not None
        folder, camera = self.target(job, view), view.camera
        small = camera.resized(WIDTH, round(WIDTH * camera.height / camera.width))
        depth = 1 / float(job.source.model.view(small).disparity.median())
        cameras = orbit(small, small.position + depth * small.forward, COUNT, 20.0, once=False)
        names = [f"{i:02d}.png" for i in range(COUNT)]
        for name, one in zip(names, cameras, strict=True):
            write_image(folder / name, job.source.model.view(one).image.detach().cpu().numpy())
        write_json(folder / "turntable.json", {"pictures": names, "degrees": 20.0})
        return f"{COUNT} pictures"
