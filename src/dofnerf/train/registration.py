"""Registration of a view to the scene: the small motion of its camera, and the gain per channel, that bring what is
rendered nearest to it, with the scene held fixed. Evaluation does it for held-out views; photos that train move
together (`displacement`).

Gauss-Newton. A pixel at (x, y) in units of the focal length and at disparity d moves, when the camera turns by ω and
shifts by t, by

    u = fx · (xy ω₁ − (1 + x²) ω₂ + y ω₃ − d t₁ + x d t₃),    v = fy · ((1 + y²) ω₁ − xy ω₂ − x ω₃ − d t₂ + y d t₃)

(camera axes: right, down, forward), and the picture changes by −∇I · (u, v). Three gains come with the six motions, and
all are solved for at once: rotation and shift look alike but for parallax, so none may wait for the others. A prior
keeps what the photo says little about. Pixels count less the farther they are off (Cauchy weights), so that what the
scene does not show yet moves nothing.

**Held back.** A quarter of the pixels, in blocks, have no part in the solution: they tell whether it is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera, motion, moved
from dofnerf.models import View
from dofnerf.models.losses import is_clipped, residual
from dofnerf.optics import to_display, to_linear
from dofnerf.optics.light import Curve

_HELD_BACK, _BLOCK = 0.25, 8  # share of a photo's pixels, and the side in pixels of the blocks in which they lie
_SOFT = 2.0  # times the usual error: where a pixel counts half
_ALIKE = 27  # values whose errors are about the same: three channels of nine neighbours
_STEP = 0.02  # of the logarithm of a gain: for its slope
_HOPELESS = 0.01  # of the error on held-back pixels: a first round that takes away less is the last


class Target(NamedTuple):
    """A photo (H, W, 3), its light curve, and what counts of it (H, W), if not all."""

    photo: Tensor
    light: Curve
    mask: Tensor | None = None


class Prior(NamedTuple):
    """Where a camera should be about, and by how many `pixels` it may be off (a standard deviation): in the directions
    of the axes, and in its place, of things at `depth`."""

    camera: Camera
    depth: float
    pixels: float


class Registered(NamedTuple):
    """`camera` and natural logarithms of the gains (3,); the error on held-back pixels as `given`, and `found` now."""

    camera: Camera
    log_gain: np.ndarray
    given: float
    found: float


@torch.no_grad()
def register(
    target: Target, show: Callable[[Camera], View], camera: Camera, prior: Prior, rounds: int = 3
) -> Registered:
    """Find camera and gains of a photo, beginning with `camera`; `show` is what the scene shows to a camera. Where the
    first of the `rounds` brings nothing, there are no more."""
    held, log_gain, errors = held_back(target.photo.shape[:2]).to(target.photo.device), np.zeros(3), list[float]()
    for turn in range(rounds + 1):
        view = show(camera)
        image = developed(view.image, log_gain, target.light)
        off, weight = weighed(image, target.photo, target.mask)
        errors.append(float(off[held].abs().mean()))
        if turn == rounds or (turn == 1 and errors[1] > (1 - _HOPELESS) * errors[0]):
            break
        found = _step(image, view.disparity, off, ~held[..., None] * weight, camera, (target.light, prior))
        camera, log_gain = moved(camera, found[:3], found[3:6]), log_gain + found[6:]
    return Registered(camera, log_gain, errors[0], errors[-1])


def developed(image: Tensor, log_gain: np.ndarray, light: Curve) -> Tensor:
    """Display values (H, W, 3) with a gain per channel in linear light."""
    if not log_gain.any():
        return image
    return to_display(to_linear(image, light) * torch.from_numpy(log_gain).exp().to(image), light)


def _step(
    image: Tensor, disparity: Tensor, off: Tensor, weight: Tensor, camera: Camera, known: tuple[Curve, Prior]
) -> np.ndarray:
    """Turn, shift (world axes), and changes of the logarithms of the gains, (9,): least squares by `weight`."""
    light, prior = known
    slopes = torch.cat([motion_slopes(image, disparity, camera), gain_slopes(image, light)], dim=-1)
    slopes, weight, wanted = (part.double() for part in (slopes.flatten(0, 2), weight.flatten(), -off.flatten()))
    normal = (slopes.T @ (slopes * weight[:, None])).cpu().numpy()
    right = (slopes.T @ (weight * wanted)).cpu().numpy()
    axes = camera.camera_to_world[:, :3] * [1, -1, -1]  # right, down, forward
    turn, shift = motion(prior.camera, camera)
    angle = max(prior.pixels, 1e-6) / camera.fx
    strength = 1 / np.repeat([angle, angle * prior.depth], 3) ** 2
    right[:6] -= strength * np.concatenate([axes.T @ turn, axes.T @ shift])
    found = np.linalg.solve(normal + np.diag([*strength, 1e-6, 1e-6, 1e-6]), right)
    return np.concatenate([axes @ found[:3], axes @ found[3:6], found[6:]])


def weighed(shown: Tensor, photo: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Residuals (H, W, 3) of a picture and its photo, and their weights. Where the photo is clipped and the picture
    brighter, a residual of 0 is no agreement: nothing was seen there, as where `mask` is 0."""
    off = residual(shown, photo, mask=mask)
    return off, robust_weights(off, mask, is_clipped(shown, photo))


def robust_weights(off: Tensor, mask: Tensor | None = None, clipped: Tensor | None = None) -> Tensor:
    """Weights (H, W, 3) of residuals in least squares, in units of their usual square: Cauchy's, and none at the rim,
    where there is no slope, nor where nothing was seen: where `mask` (H, W) is 0, or a value is `clipped`."""
    seen = torch.ones_like(off) if mask is None else mask[..., None].expand_as(off).to(off)
    seen = seen if clipped is None else seen * ~clipped
    counted = off[seen > 0]
    usual = 1.5 * float(counted.abs().median() if counted.numel() else 0.0) + 1e-4
    weight = 1 / (1 + (off / (_SOFT * usual)).square()) / (_ALIKE * usual**2)
    weight[[0, -1]], weight[:, [0, -1]] = 0.0, 0.0
    return weight * seen


def motion_slopes(image: Tensor, disparity: Tensor, camera: Camera) -> Tensor:
    """(H, W, 3, 6): how a picture changes with a turn and a shift of the camera, in its axes (right, down, forward)."""
    height, width = disparity.shape
    across, down = torch.zeros_like(image), torch.zeros_like(image)
    across[:, 1:-1], down[1:-1] = (image[:, 2:] - image[:, :-2]) / 2, (image[2:] - image[:-2]) / 2
    columns, rows = (torch.arange(count, device=image.device) + 0.5 for count in (width, height))
    x, y = ((columns - camera.cx) / camera.fx)[None, :], ((rows - camera.cy) / camera.fy)[:, None]
    x, y, none = x.expand(height, width), y.expand(height, width), torch.zeros_like(disparity)
    u = camera.fx * torch.stack([x * y, -1 - x * x, y, -disparity, none, x * disparity], dim=-1)
    v = camera.fy * torch.stack([1 + y * y, -x * y, -x, none, -disparity, y * disparity], dim=-1)
    return -(across[..., None] * u[:, :, None] + down[..., None] * v[:, :, None])


def gain_slopes(image: Tensor, light: Curve) -> Tensor:
    """(H, W, 3, 3): how a picture changes with the logarithm of each channel's gain."""
    brighter = to_display(to_linear(image, light) * math.exp(_STEP), light)
    return torch.diag_embed((brighter - image) / _STEP)


def held_back(size: Sequence[int]) -> Tensor:
    """(H, W): the pixels of a picture of `size` (height, width) that a fit is judged by, the same each time."""
    height, width = size
    drawn = np.random.default_rng(0).random((-(-height // _BLOCK), -(-width // _BLOCK))) < _HELD_BACK
    blocks = drawn.repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)[:height, :width]
    return torch.from_numpy(blocks)
