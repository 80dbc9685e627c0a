"""Each photo's camera, moved a little: poses that somebody brings, or that were found on blurred photos, are a little
off.

A motion is a rotation vector about the camera's centre and a shift, both in world axes. It starts with what bundle
adjustment of the starting points found, if that was needed; then, once there is a lens, cameras and places of the scene
are adjusted together in a few rounds (`train.loop`). What all cameras could do together without a change in any photo
(a similarity of the whole scene) is removed from each round's motions, so that cameras stay fitted to the given ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera, motion, moved
from dofnerf.models.data import Setting
from dofnerf.train.photos.base import CameraQuantity


@dataclass(frozen=True)
class PoseConfig:
    """Refinement of the camera poses."""

    refine_poses: bool = False
    """Refine the poses of the photos' cameras, where that brings renders nearer to pixels that are held back for it."""


class PhotoPose(CameraQuantity):
    """`turn` (P, 3) in radians, `shift` (P, 3) in scene units, for each of P places: photos of a focus bracket share
    one (`place` (M,))."""

    name, Config = "pose", PoseConfig
    turn: Tensor
    shift: Tensor
    place: Tensor
    centres: Tensor
    depth: float

    @classmethod
    def is_on(cls, config: Any) -> bool:
        return config.refine_poses

    @classmethod
    def make(cls, config: PoseConfig, setting: Setting) -> PhotoPose:
        quantity, count = cls(), len(setting.photos)
        place = torch.tensor(setting.brackets or range(count))
        centres = torch.tensor(setting.positions or [[0.0] * 3] * count, dtype=torch.float64)
        first = torch.tensor([int((place == one).nonzero()[0]) for one in range(int(place.max()) + 1)])
        for name in ("turn", "shift"):
            quantity.register_buffer(name, torch.zeros(len(first), 3))
        quantity.register_buffer("place", place)
        quantity.register_buffer("centres", (centres[first] - centres[first].mean(0)).float())
        quantity.depth = 2 / sum(setting.disparities)
        return quantity

    def begin(self, given: Sequence[Camera], adjusted: Sequence[Camera]) -> None:
        self._set([motion(a, b) for a, b in zip(given, adjusted, strict=True)])

    def move(self, given: Sequence[Camera], found: Sequence[Camera]) -> None:
        """Take over the M cameras that were found for the photos, but for what a similarity of all could do."""
        before = [self.camera(camera, i) for i, camera in enumerate(given)]
        steps = [np.concatenate(motion(a, b)) for a, b in zip(before, found, strict=True)]
        left = self._without_similarity(self._by_place(np.stack(steps)))[self.place.cpu()]
        now = [moved(camera, step[:3], step[3:]) for camera, step in zip(before, left, strict=True)]
        self._set([motion(a, b) for a, b in zip(given, now, strict=True)])

    def _set(self, motions: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        values = torch.from_numpy(self._by_place(np.stack([np.concatenate(one) for one in motions]))).to(self.turn)
        self.turn.copy_(values[:, :3])
        self.shift.copy_(values[:, 3:])

    def _by_place(self, values: np.ndarray) -> np.ndarray:
        """Means (P, 6) over the photos of each place of (M, 6)."""
        place = self.place.cpu().numpy()
        return np.stack([values[place == one].mean(0) for one in range(len(self.turn))])

    def _without_similarity(self, motions: np.ndarray) -> np.ndarray:
        """Turns and shifts (P, 6) without the similarity (shift τ, rotation ω, scale s) that fits them best: shifts
        τ + ω × p + s p and rotations ω, p the cameras' places from their middle."""
        unit = np.repeat([1.0, self.depth], 3)  # shifts count as the angles at which things see them
        far = self.centres.cpu().double().numpy() / self.depth
        count, eye, none = len(motions), np.eye(3), np.zeros((len(motions), 3, 3))
        eyes, cross = np.tile(eye, (count, 1, 1)), np.cross(eye[None], far[:, None]).transpose(0, 2, 1)
        turns = np.concatenate([none, eyes, none[:, :, :1]], axis=2)
        shifts = np.concatenate([eyes, cross, far[:, :, None]], axis=2)
        design, wanted = np.concatenate([turns, shifts], axis=1).reshape(-1, 7), (motions / unit).ravel()
        fitted = design @ (np.linalg.pinv(design) @ wanted)
        return (wanted - fitted).reshape(count, 6) * unit

    def camera(self, camera: Camera, photo: int) -> Camera:
        place = int(self.place[photo])
        turn, shift = (value[place].double().cpu().numpy() for value in (self.turn, self.shift))
        return moved(camera, turn, shift) if turn.any() or shift.any() else camera

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        turned, shifted = torch.rad2deg(self.turn.norm(dim=1))[self.place], self.shift.norm(dim=1)[self.place]
        return {"turned_degrees": turned.tolist(), "shifted": shifted.tolist()}

    def values(self) -> dict[str, Tensor]:
        return {"turn": self.turn.norm(dim=1)}

    def summary(self) -> str:
        return ""

    def findings(self) -> str:
        turned, shifted = float(torch.rad2deg(self.turn.norm(dim=1)).max()), float(self.shift.norm(dim=1).max())
        if not turned and not shifted:
            return "poses fit the photos as given; kept"
        return f"poses were off by up to {turned:.2f}° and {shifted:.2g} scene units; refined"


QUANTITY = PhotoPose
