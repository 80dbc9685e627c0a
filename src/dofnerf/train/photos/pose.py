"""Each photo's camera, moved a little: poses that were found on blurred photos are a little off.

A motion is a rotation vector about the camera's centre and a shift, both in world axes. What all cameras could do
together without a change in any photo (a similarity of the whole scene) is removed after each step, so that the refined
cameras stay fitted to the given ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.models.data import Setting
from dofnerf.train.photos.base import PhotoQuantity

_START = 0.04  # share of the steps before the first pose is moved: a third of the pinhole stage
_LEAST = 0.25  # pixels, rms, by which cameras must have moved: less is what training makes up by itself
_SHIFT = 2.5  # shifts are learned in this many times the focal plane's distance in the middle of the range


@dataclass(frozen=True)
class PoseConfig:
    """Refinement of the camera poses."""

    refine_poses: bool = False
    """Refine the pose of each photo's camera (splats only: other fields give no gradient to a camera)."""
    pose_rate: float = 3e-4
    """Learning rate (Adam) of rotations in radians, and of shifts in depths of the scene; falls to a tenth."""


class PhotoPose(PhotoQuantity):
    """`turn` (P, 3) in radians, `shift` (P, 3) in units of `unit` scene units, for each of P places: photos of a focus
    bracket share one (`place` (M,))."""

    name, Config, moves_cameras = "pose", PoseConfig, True
    turn: nn.Parameter
    shift: nn.Parameter
    pose_rate: float
    focal: float
    unit: Tensor
    place: Tensor
    centres: Tensor

    @classmethod
    def is_on(cls, config: Any) -> bool:
        return config.refine_poses

    @classmethod
    def make(cls, config: PoseConfig, setting: Setting) -> PhotoPose:
        quantity, count = cls(), len(setting.photos)
        place = torch.tensor(setting.brackets or range(count))
        centres = torch.tensor(setting.positions or [[0.0] * 3] * count, dtype=torch.float64)
        first = torch.tensor([int((place == one).nonzero()[0]) for one in range(int(place.max()) + 1)])
        quantity.turn = nn.Parameter(torch.zeros(len(first), 3))
        quantity.shift = nn.Parameter(torch.zeros(len(first), 3))
        quantity.register_buffer("unit", torch.tensor(2 * _SHIFT / sum(setting.disparities)))
        quantity.register_buffer("place", place)
        quantity.register_buffer("centres", (centres[first] - centres[first].mean(0)).float())
        quantity.pose_rate, quantity.focal = config.pose_rate, sum(setting.focal) / count
        return quantity

    def rate(self, share: float) -> float:
        return self.pose_rate * 0.1**share if share >= _START else 0.0

    def rows(self, parameter: str, photos: Tensor) -> Tensor:
        return self.place[photos]

    def constrain(self) -> None:
        """Remove the similarity (shift τ, rotation ω, scale s) that fits all motions best: shifts τ + ω × p + s p and
        rotations ω, p the cameras' places from their middle."""
        far, turn, shift = self.centres / self.unit, self.turn.data, self.shift.data
        count, eye = len(turn), torch.eye(3, dtype=turn.dtype, device=turn.device)
        cross = torch.linalg.cross(eye.expand(count, 3, 3), far[:, None].expand(count, 3, 3), dim=-1).transpose(1, 2)
        shifts = torch.cat([eye.expand(count, 3, 3), cross, far[..., None]], dim=2)
        turns = torch.cat([torch.zeros_like(cross), eye.expand(count, 3, 3), torch.zeros_like(far[..., None])], dim=2)
        design, motion = torch.cat([shifts, turns], 1).reshape(-1, 7).double(), torch.cat([shift, turn], 1).double()
        fitted = design @ (torch.linalg.pinv(design) @ motion.reshape(-1))
        left = (motion.reshape(-1) - fitted).reshape(count, 6).to(turn)
        self.shift.data, self.turn.data = left[:, :3], left[:, 3:]

    def is_negligible(self) -> bool:
        turn, shift = (value.detach().square().sum(1).mean().sqrt() for value in (self.turn, _SHIFT * self.shift))
        return float(torch.hypot(turn, shift)) * self.focal < _LEAST

    def camera(self, camera: Camera, photo: int) -> Camera:
        pose, place = camera.camera_to_world.copy(), int(self.place[photo])
        turn, shift = (value[place].detach().double().cpu().numpy() for value in (self.turn, self.shift))
        pose[:, :3] = Rotation.from_rotvec(turn).as_matrix() @ pose[:, :3]
        pose[:, 3] += float(self.unit) * shift
        return replace(camera, camera_to_world=pose)

    def carry(self, points: Tensor, camera: Camera, photo: int) -> Tensor:
        row = self.place[photo]
        turn, shift = (value[row] - value[row].detach() for value in (self.turn, self.unit * self.shift))
        centre = torch.from_numpy(np.ascontiguousarray(camera.position)).to(points)
        return points - torch.linalg.cross(turn.expand_as(points), points - centre) - shift

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        turned = torch.rad2deg(self.turn.detach().norm(dim=1))[self.place]
        shifted = (self.unit * self.shift.detach().norm(dim=1))[self.place]
        return {"turned_degrees": turned.tolist(), "shifted": shifted.tolist()}

    def values(self) -> dict[str, Tensor]:
        return {"turn": self.turn.norm(dim=1)}

    def summary(self) -> str:
        return ""


QUANTITY = PhotoPose
