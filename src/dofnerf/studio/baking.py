"""Splats that mix as light, refined until they look the same where display values are mixed.

Splats trained here are blended in linear light; other tools blend display values, and show them darker: 21 dB from our
own renders of the scene in the package. Here opacities, colours and sizes are refined against our own sharp renders of
the training views and of views between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.files.ply import Splats
from dofnerf.models.splat.model import SplatModel

STEPS = 1200  # half a minute for 20 000 splats at 252 × 168, on one core
WIDTH = 400  # of the pictures at most
MOST_VIEWS = 64
RATES = {"opacity_logits": 0.05, "base": 0.02, "directional": 0.004, "log_scales": 0.01}
_SLOWER = 0.05  # learning rates at the end, as a share of those at the start
TICKS = 100


def baked(model: SplatModel, cameras: Sequence[Camera], tick: Callable[[], None] = lambda: None) -> Splats:
    """The splats of `model` for tools that blend display values over black, by its own pictures before `cameras`;
    `tick` is called TICKS times."""
    views = [camera.resized(min(camera.width, WIDTH)) for camera in _some(cameras)]
    with torch.no_grad():
        wanted = [model.view(camera) for camera in views]
    device = model.means.device
    copy = SplatModel(model.gaussians, replace(model.style, light=1.0), torch.zeros(3, device=device)).to(device)
    groups = [{"params": [getattr(copy, name)], "lr": rate} for name, rate in RATES.items()]
    optimiser = torch.optim.Adam(groups, betas=(0.9, 0.99))
    dice, order = torch.Generator().manual_seed(0), list[int]()
    steps = STEPS
    for step in range(steps):
        order = order or torch.randperm(len(views), generator=dice).tolist()
        which = order.pop()
        for group, rate in zip(optimiser.param_groups, RATES.values(), strict=True):
            group["lr"] = rate * _SLOWER ** (step / steps)
        target = wanted[which]
        residual = copy.picture(views[which]).image - target.image
        # What lies behind the splats is not theirs: where it shows, nothing is asked of them.
        loss = (residual.square().mean(-1) * target.alpha).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        for _ in range((step + 1) * TICKS // steps - step * TICKS // steps):
            tick()
    return copy.splats()[0]


def between(cameras: Sequence[Camera]) -> list[Camera]:
    """The cameras, and one half way between each and its nearest neighbour, turned as the first is."""
    places = np.array([camera.position for camera in cameras])
    found = list(cameras)
    for i, camera in enumerate(cameras):
        distance = np.linalg.norm(places - places[i], axis=1)
        distance[i] = np.inf
        if len(cameras) > 1 and np.isfinite(distance.min()):
            pose = camera.camera_to_world.copy()
            pose[:, 3] = (places[i] + places[int(distance.argmin())]) / 2
            found.append(replace(camera, camera_to_world=pose))
    return found


def _some(cameras: Sequence[Camera]) -> list[Camera]:
    chosen = cameras[:: -(-len(cameras) // (MOST_VIEWS // 2))]
    return between(chosen)
