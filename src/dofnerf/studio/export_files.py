"""What `dofnerf export` writes beside pages: layers of colour and depth, splats or points, cameras for nerfstudio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dofnerf.files import write_image, write_json, write_map
from dofnerf.files.guard import read_json
from dofnerf.files.pictures import to_bytes
from dofnerf.files.ply import write_ply
from dofnerf.models.splat.model import SplatModel
from dofnerf.scenes import Drawing, Points, Splats, Viewpoint, plain_stems, write_splats
from dofnerf.scenes.export import plain_lens, plain_view
from dofnerf.studio.layered import LayeredPicture
from dofnerf.studio.shot import SEEN, sharp_picture
from dofnerf.studio.subject import Subject

MOST_POINTS = 300_000
FLAT = 0.03  # relative change of disparity over a pixel beyond which a point may hang in the air between two things
LAYERS, CAMERAS = "layers.json", "transforms.json"
MARK = "dofnerf export"


def check_ours(list_: Path) -> None:
    """Refuse to write where a list (JSON) lies that we did not write."""
    if list_.exists() and read_json(list_).get("made_by") != MARK:
        raise ValueError(f"{list_}: is there, and was not made by dofnerf export; give another --out")


def write_layers(folder: Path, picture: LayeredPicture, view: Viewpoint) -> Path:
    """sharp.png and sharp-depth.exr, layer-0.png (RGBA, not premultiplied) and layer-0-depth.exr and so on, and
    layers.json."""
    layers, entries = picture.layers, []
    write_image(folder / "sharp.png", picture.sharp.image)
    write_map(folder / "sharp-depth.exr", _depth(picture.sharp.disparity))
    for i in range(len(layers.alpha)):
        colour, alpha, disparity = (part[i].numpy() for part in (layers.colour, layers.alpha, layers.disparity))
        entry = {"colour": f"layer-{i}.png", "depth": f"layer-{i}-depth.exr"}
        write_image(folder / entry["colour"], to_bytes(np.concatenate([colour, alpha[..., None]], axis=-1)))
        write_map(folder / entry["depth"], _depth(disparity))
        entries.append(entry)
    about = "Layers, the farthest first: RGBA not premultiplied, depth along the optical axis in scene units."
    camera = plain_view(view) | {"file_path": "sharp.png"}
    write_json(folder / LAYERS, {"made_by": MARK, "about": about, "camera": camera, "layers": entries})
    return folder


def _depth(disparity: np.ndarray) -> np.ndarray:
    return np.divide(1, disparity, out=np.full_like(disparity, np.inf), where=disparity > 0)


def write_scene(path: Path, subject: Subject) -> str:
    """The splats, or what the training views see as points; returns what it is in words."""
    if isinstance(subject.model, SplatModel):
        arrays = [tensor.detach().cpu().numpy() for tensor in subject.model.gaussians]
        ups = [view.camera.camera_to_world[:, 1] for view in subject.views]
        up = np.mean(ups, axis=0) if ups else np.array(subject.up)
        blend = "display" if subject.flat else "light"
        background = tuple(subject.model.background.clamp(0, 1).tolist())
        write_splats(path, Splats(*arrays), Drawing(blend, background, tuple((up / np.linalg.norm(up)).tolist())))
        darker = "" if subject.flat else ", which mix as light: tools that mix display values show them darker"
        return f"{len(arrays[0]):,} splats{darker}"
    if not subject.views:
        raise ValueError(
            f"{subject.source}: the run has no cameras.json, whose views would give its points; train it again"
        )
    points = seen_points(subject)
    write_ply(path, points)
    return f"{len(points):,} coloured points"


def seen_points(subject: Subject) -> Points:
    """A coloured point where each of some pixels of each training view looks, on the scene's surfaces."""
    cameras = [view.camera for view in subject.views if not view.held_out] or [view.camera for view in subject.views]
    stride = max(1, math.ceil(math.sqrt(sum(camera.width * camera.height for camera in cameras) / MOST_POINTS)))
    places, colours = [], []
    for camera in cameras:
        view, picture = sharp_picture(subject.model, camera)
        slope = np.hypot(*np.gradient(picture.disparity)) / np.maximum(picture.disparity, 1e-9)
        solid = (view.alpha.cpu().numpy() > SEEN) & (picture.disparity > 0) & (slope < FLAT)
        rows, columns = np.nonzero(solid[::stride, ::stride])
        rows, columns = rows * stride, columns * stride
        pixels = np.stack([columns, rows], axis=-1) + 0.5
        places.append(camera.unproject(pixels, 1 / picture.disparity[rows, columns].astype(np.float64)))
        colours.append(to_bytes(picture.image[rows, columns]))
    xyz = np.concatenate(places)
    if not len(xyz):
        raise ValueError(f"{subject.source}: its views show no surface to take points from; train it longer")
    return Points(xyz, np.concatenate(colours), np.ones(len(xyz)))


def write_photos(folder: Path, subject: Subject, tick: Callable[[], None]) -> Path:
    """transforms.json and images/: the sharp view of every photo, with the pose of its camera and, as `learned_lens`,
    the lens that the run found for it. (`lens`, which our reader knows, would say that of the picture itself, and that
    is sharp.)"""
    if not subject.views:
        raise ValueError(
            f"{subject.source}: the run has no cameras.json (it was trained by an older version); train it again"
        )
    names = plain_stems([view.name for view in subject.views])
    entries, split = [], {False: [], True: []}  # type: ignore[var-annotated]
    for name, view in zip(names, subject.views, strict=True):
        file = f"images/{name}.png"
        with torch.no_grad():
            write_image(folder / file, sharp_picture(subject.model, view.camera)[1].image)
        entry = plain_view(replace(view, lens=None)) | {"file_path": file}
        if view.name in subject.learned:
            entry["learned_lens"] = plain_lens(subject.learned[view.name])
        entries.append(entry)
        split[view.held_out].append(file)
        tick()
    held = split[True]
    names_of = {"train_filenames": split[False], "val_filenames": held, "test_filenames": held} if held else {}
    write_json(folder / CAMERAS, {"made_by": MARK, "camera_model": "OPENCV", **names_of, "frames": entries})
    return folder / CAMERAS
