"""A tiny scene for training tests: a card before a wall, seen by cameras side by side, blurred by a known lens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from cameras_around import facing_forward
from dofnerf.models.volume import CoarseFineConfig, DensityGridConfig
from dofnerf.models.volume.fields.hash import HashConfig
from dofnerf.optics import scatter
from dofnerf.scenes import Frame, Lens, Points, Scene
from dofnerf.train import KeepConfig, TrainConfig, preset

NEAR, FAR = 2.0, 6.0
LENS = Lens(9.0, NEAR), Lens(9.0, FAR)  # 3 pixels at the other end
QUIET = KeepConfig(log_steps=5)


@dataclass(frozen=True, eq=False)
class InMemory:
    image: np.ndarray
    label: str = "in memory"

    def load(self):
        return self.image


def look(camera):
    """The sharp picture (H, W, 3) and depth (H, W) along the axis."""
    column, row = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    pixels = np.stack([column, row], axis=-1).reshape(-1, 2)
    origin = camera.position
    way = camera.unproject(pixels, np.ones(len(pixels))) - origin
    colour, depth = np.zeros((len(pixels), 3)), np.zeros(len(pixels))
    for z, card in ((-FAR, False), (-NEAR, True)):
        t = (z - origin[2]) / way[:, 2]
        x, y = (origin[:2] + t[:, None] * way[:, :2]).T
        here = (np.abs(x) < 0.35) & (np.abs(y) < 0.3) if card else np.ones(len(x), bool)
        waves = 0.5 + 0.3 * np.sin(x * (14 if card else 5)) * np.cos(y * (11 if card else 6))
        tint = np.array([1.0, 0.6, 0.3]) if card else np.array([0.4, 0.8, 1.0])
        colour[here], depth[here] = (waves[:, None] * tint)[here], t[here]
    size = camera.height, camera.width
    return colour.reshape(*size, 3).astype(np.float32), depth.reshape(size).astype(np.float32)


def blur(sharp, depth, lens):
    radius = torch.from_numpy(lens.coc_radius(depth).astype(np.float32))
    return scatter(torch.from_numpy(sharp), radius).numpy()


def scene(count=5, size=(20, 24), test=(3,), points=False):
    frames = []
    for i, camera in enumerate(facing_forward(count, size, focal=28.0)):
        sharp, depth = look(camera)
        lens = LENS[i % 2]
        frame = Frame(
            f"view-{i}", camera, InMemory(blur(sharp, depth, lens)), lens, sharp=InMemory(sharp), depth=InMemory(depth)
        )
        frames.append(replace(frame, seen=np.arange(4)) if points else frame)
    xyz = np.array([[0.1, 0.1, -NEAR], [-0.1, 0.0, -NEAR], [1.0, 0.8, -FAR], [-1.0, -0.8, -FAR]])
    known = Points(xyz, np.zeros((4, 3), np.uint8), np.full(4, 0.5)) if points else None
    train = tuple(i for i in range(count) if i not in test)
    return Scene("tiny", "test", tuple(frames), 1.6, 7.5, train, tuple(test), known)


class OnlyLens:
    """Photo quantities of which the lens is the only one."""

    searches = moves_cameras = False

    def __init__(self, lens):
        self.lens = lens

    def camera(self, camera, photo):
        return camera

    def develop(self, colour, photo, pixels=None):
        return colour


def config(steps=(4, 4, 3), field="hash", name="fast", **lens) -> TrainConfig:
    """A preset made tiny."""
    made = preset(name, field)
    own = {name: lens.pop(name) for name in ("in_focus", "layers", "noise_free", "rays") if name in lens}
    lens = {"refits": (0.5,), "search_width": 24, "max_radius": 8.0, **lens}
    small = {"hash": HashConfig(levels=4, features=2, log2_size=10, base=4, finest=32, width=16)}
    consistency = {name: lens.pop(name) for name in ("aperture_consistency",) if name in lens}
    own = {
        **dict(zip(("pinhole_steps", "lens_steps", "lens_ray_steps"), steps, strict=True)),
        **{"rays": 96, "patch_size": 16, "anchor_stride": 4, "lens_points": 4},
        "sampling": DensityGridConfig(8, 24, 16) if field == "hash" else CoarseFineConfig(8, 8),
        "field": small.get(field) or replace(made.method.field, depth=2, width=16),
        **own,
    }
    return made.changed({"method": own, "lens": lens, "aperture_consistency": consistency})
