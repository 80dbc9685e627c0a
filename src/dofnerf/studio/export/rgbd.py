"""Layers of colour and depth: `--rgbd`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf.files import write_image, write_json, write_map
from dofnerf.files.pictures import to_bytes
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view
from dofnerf.studio.export import MARK, Job, Kind, check_ours, register
from dofnerf.studio.rgbd import depth_map

LIST = "layers.json"


@register
class LayerFolder(Kind):
    """sharp.png and sharp-depth.exr, layer-0.png (RGBA, not premultiplied) and layer-0-depth.exr and so on, and
    layers.json."""

    name = "rgbd"
    about = "Layers of each view: RGBA PNG and depth EXR, the farthest first, and layers.json with camera and order."
    per_view = True

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        assert view is not None
        return job.out / f"{view.name}-layers"

    def check(self, job: Job, view: Viewpoint | None) -> None:
        check_ours(self.target(job, view) / LIST)

    def write(self, job: Job, view: Viewpoint | None) -> str:
        assert view is not None
        picture, folder, entries = job.layered(view), self.target(job, view), []
        layers = picture.layers
        write_image(folder / "sharp.png", picture.sharp.image)
        write_map(folder / "sharp-depth.exr", depth_map(picture.sharp.disparity))
        for i in range(len(layers.alpha)):
            colour, alpha, disparity = (part[i].numpy() for part in (layers.colour, layers.alpha, layers.disparity))
            entry = {"colour": f"layer-{i}.png", "depth": f"layer-{i}-depth.exr"}
            write_image(folder / entry["colour"], to_bytes(np.concatenate([colour, alpha[..., None]], axis=-1)))
            write_map(folder / entry["depth"], depth_map(disparity))
            entries.append(entry)
        about = "Layers, the farthest first: RGBA not premultiplied, depth along the optical axis in scene units."
        camera = plain_view(replace(view, lens=None)) | {"file_path": "sharp.png"}
        write_json(folder / LIST, {"made_by": MARK, "about": about, "camera": camera, "layers": entries})
        return f"{job.config.layers} layers of colour and depth, the farthest first"
