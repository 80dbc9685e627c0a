"""Layers of colour and depth: `--rgbd`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf.files import write_image, write_json, write_map
from dofnerf.files.pictures import to_bytes, write_exr_parts
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view
from dofnerf.studio.export import MARK, Job, Kind, check_ours, register
from dofnerf.studio.rgbd import depth_map

LIST, WHOLE = "layers.json", "layers.exr"


@register
class LayerFolder(Kind):
    """sharp.png and sharp-depth.exr, layer-0.png (RGBA, not premultiplied) and layer-0-depth.exr and so on, the same as
    one layers.exr, and layers.json."""

    name = "rgbd"
    about = (
        "Layers of each view, the farthest first: RGBA PNG and depth EXR, all of them in one layers.exr for "
        "compositing, and layers.json with camera and order."
    )
    per_view = True

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        assert view is not None
        return job.out / f"{view.name}-layers"

    def check(self, job: Job, view: Viewpoint | None) -> None:
        check_ours(self.target(job, view) / LIST)

    def write(self, job: Job, view: Viewpoint | None) -> str:
        assert view is not None
        picture, folder, entries = job.layered(view), self.target(job, view), []
        layers, parts = picture.layers, compositing("sharp", picture.sharp.image, None, picture.sharp.disparity, job)
        write_image(folder / "sharp.png", picture.sharp.image)
        write_map(folder / "sharp-depth.exr", depth_map(picture.sharp.disparity))
        for i in range(len(layers.alpha)):
            colour, alpha, disparity = (part[i].numpy() for part in (layers.colour, layers.alpha, layers.disparity))
            entry = {"colour": f"layer-{i}.png", "depth": f"layer-{i}-depth.exr"}
            write_image(folder / entry["colour"], to_bytes(np.concatenate([colour, alpha[..., None]], axis=-1)))
            write_map(folder / entry["depth"], depth_map(disparity))
            entries.append(entry)
            parts |= compositing(f"layer-{i}", colour, alpha, disparity, job)
        write_exr_parts(folder / WHOLE, parts)
        about = "Layers, the farthest first: RGBA not premultiplied, depth along the optical axis in scene units."
        scale = job.config.lens.scale(job.source.optics)
        depth = {"file": WHOLE, "depth_in": "scene units" if scale is None else "metres"}
        camera = plain_view(replace(view, lens=None)) | {"file_path": "sharp.png"}
        write_json(
            folder / LIST, {"made_by": MARK, "about": about, "camera": camera, "layers": entries, "whole": depth}
        )
        words = f"{job.config.layers} layers of colour and depth, the farthest first"
        return f"{words}; {WHOLE} has depth in {depth['depth_in']}"


def compositing(
    name: str, colour: np.ndarray, alpha: np.ndarray | None, disparity: np.ndarray, job: Job
) -> dict[str, dict[str, np.ndarray]]:
    """The parts of an EXR for a layer, named as Blender and Nuke name them: linear light, premultiplied, and depth, in
    metres where the scale is known."""
    import torch

    from dofnerf.optics import to_linear

    scale = job.config.lens.scale(job.source.optics)
    light = to_linear(torch.from_numpy(np.ascontiguousarray(colour)), job.source.light).numpy()
    solid = np.ones_like(disparity) if alpha is None else alpha
    channels = {channel: light[..., i] * solid for i, channel in enumerate("RGB")} | {"A": solid}
    depth = depth_map(disparity) * (1.0 if scale is None else scale.metres)
    return {f"{name}.Combined": channels, f"{name}.Depth": {"Z": depth}}
