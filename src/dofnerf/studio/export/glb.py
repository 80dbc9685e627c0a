"""Splats as glTF: `--glb`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.gltf import UP, write_glb
from dofnerf.files.splats.turning import in_linear_light, matrix
from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import Job, register
from dofnerf.studio.export.splat_kind import SplatKind


@register
class GlbFile(SplatKind):
    """One .glb. Colours in linear light are closest from where the photos were taken."""

    name = "glb"
    about = "Splats as glTF (.glb, KHR_gaussian_splatting), which can say that they mix as light, as those of a run do."
    suffixes = (".glb",)
    up = UP
    says_light = keeps_light = True

    def prepared(self, job: Job) -> tuple[Splats, Drawing]:
        splats, drawing = super().prepared(job)
        if drawing.blend != "light":
            return splats, drawing
        eyes = np.array([view.camera.position for view in job.source.views]).reshape(-1, 3) @ matrix(drawing.turn).T
        return in_linear_light(splats, eyes if len(eyes) else None), replace(drawing, blend="linear")

    def hint(self, job: Job, view: Viewpoint | None) -> str:
        if job.source.flat or self.bakes(job):
            return ""
        return "note     it is darker in programs that ignore its colorSpace; --mix display is for those"

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_glb(path, splats, drawing)
