"""A noisy card before a noisy wall, made of Gaussians: as a .ply, and as runs that nobody had to train."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from looks import sharpness
from tiny_world import InMemory, config

from dofnerf.camera import Camera
from dofnerf.files.ply import Splats, write_splats
from dofnerf.models.data import Setting
from dofnerf.models.splat.model import SplatModel, begin_splats
from dofnerf.scenes import Frame, Scene, Viewpoint, write_cameras
from dofnerf.train import checkpoint, preset
from dofnerf.train.folder import CAMERAS
from dofnerf.train.learner import Learner

WIDTH, HEIGHT, FOCAL = 64, 48, 60.0
NEAR, FAR = 2.0, 6.0
CAMERA = Camera(np.eye(4)[:3], FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)


PHOTO = 2 * WIDTH, 2 * HEIGHT  # pixels of the photos on which runs are said to be trained


def card_and_wall(light: float = 2.2) -> SplatModel:
    """The left half near, the right half far, as CAMERA sees it; two pixels a Gaussian, noise in colour."""
    rng, parts = np.random.default_rng(0), []
    for depth, columns in ((NEAR, (-8, WIDTH // 2)), (FAR, (WIDTH // 2 - 12, WIDTH + 8))):
        column, row = np.meshgrid(np.arange(*columns, 2) + 1.0, np.arange(-8, HEIGHT + 8, 2) + 1.0)
        pixels = np.stack([column, row], axis=-1).reshape(-1, 2)
        points = CAMERA.unproject(pixels, np.full(len(pixels), depth))
        parts.append((points, np.full(len(pixels), 1.6 * depth / FOCAL)))
    points, sizes = (torch.from_numpy(np.concatenate(part)).float() for part in zip(*parts, strict=True))
    colours = torch.from_numpy(rng.uniform(0.1, 0.9, (len(points), 3))).float()
    model = begin_splats(points, colours, sizes, 0, light)
    with torch.no_grad():
        model.opacity_logits.fill_(4.0)
        model.background.copy_(torch.tensor([0.3, 0.4, 0.5]))
    return model


def write_ply(path, model: SplatModel) -> None:
    arrays = (tensor.detach().numpy() for tensor in model.gaussians)
    write_splats(path, Splats(*arrays))


def write_run(
    folder, field: str = "splat", cameras: bool = True, lens: bool = True, exif=None, photo: str = "a.png"
) -> SplatModel | None:
    """A run of five views, the fourth held out, all seen by CAMERA moved a little; returns its splats. `photo` is the
    name of the files that its photos are said to be."""
    views = [replace(CAMERA, camera_to_world=CAMERA.camera_to_world + 0.02 * i * np.eye(3, 4, 3)) for i in range(5)]
    if field == "splat":
        made = preset("fast", "splat").changed({"method": {"splats": 10, "degree": 0}})
        model = card_and_wall()
    else:
        made, model = config(field=field), None
    frames = tuple(
        Frame(f"view-{i}", camera.resized(*PHOTO), InMemory(np.zeros((*PHOTO[::-1], 3)), photo), exif=exif)
        for i, camera in enumerate(views)
    )
    setting = Setting.of(Scene("small", "test", frames, 1.6, 7.5, (0, 1, 2, 4), (3,)))
    learner = Learner.like(made, setting, {}) if model is None else Learner(made, setting, model)
    learner.progress.step = made.method.total if lens else 1
    folder.mkdir()
    checkpoint.write(folder / checkpoint.FILE, checkpoint.pack(learner))
    if cameras:
        write_cameras(
            folder / CAMERAS, [Viewpoint(f"view-{i}", camera, held_out=i == 3) for i, camera in enumerate(views)]
        )
    return model


def halves(image: np.ndarray) -> tuple[float, float]:
    """Sharpness of the near and of the far half, away from the edge between them and from the border."""
    return sharpness(image[6:-6, 6:24]), sharpness(image[6:-6, 40:58])


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return -10 * math.log10(max(float(np.square(a.astype(float) - b).mean()), 1e-12))
