"""The types of the rasteriser: Gaussians, how they are drawn, their projection, and the picture.

The tensors are those of 3D Gaussian splatting (Kerbl et al. 2023) and its .ply files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dofnerf.optics.light import Curve

LOW_PASS = 0.3  # px², added to each screen covariance: nothing is thinner than about a pixel
OPAQUEST = 0.99  # largest alpha of one Gaussian at a pixel
FAINTEST = 1 / 255  # alpha at which a Gaussian is cut off; it is not drawn if its opacity is less
LOST = 0.03  # share of its light that a blurred Gaussian may lose by the cut-off
LARGEST = 1e30  # px⁴, determinant of a screen covariance; more would overflow float32
STOP = 1e-4  # transmittance below which a pixel is done
MARGIN = 0.3  # of half the picture, beyond its border: the perspective's Jacobian is not evaluated farther out


class Gaussians(NamedTuple):
    """`means` (N, 3) in world coordinates, `log_scales` (N, 3) logarithms of the standard deviations, `rotations` (N,
    4) quaternions (w, x, y, z) of any length, `opacity_logits` (N,), `harmonics` (N, (degree + 1)², 3), degree 0 … 3.

    The colour seen along a direction is max(0, ½ + Σ basis · harmonics), in display values.
    """

    means: Tensor
    log_scales: Tensor
    rotations: Tensor
    opacity_logits: Tensor
    harmonics: Tensor


@dataclass(frozen=True)
class Style:
    """How Gaussians are drawn.

    `light` is the curve of their colours: they are blended in linear light, so a blurred edge mixes as light does, and
    the sharp picture is the limit of the blurred one. 1 blends display values, as do the tools behind most .ply files.
    The low-pass filter enlarges small Gaussians; `antialiased` reduces their opacity accordingly, so that they look the
    same from any distance. Off is the original method, which .ply files expect by default. Nothing nearer than `near`,
    in scene units, is drawn; a trained scene takes this share of its own least depth. Harmonics of a degree above
    `degree` are ignored.
    """

    light: Curve = 2.2
    antialiased: bool = False
    near: float = 0.01
    degree: int = 3


class SubAperture(NamedTuple):
    """A part of a lens of radius 1: its centroid (x right, y up), and the radius of a disc of the same variance.

    Radius 0 is a pinhole; (0, 0, 1), the default, is the whole lens.
    """

    x: float = 0.0
    y: float = 0.0
    radius: float = 1.0


class Projected(NamedTuple):
    """N Gaussians on the screen.

    `table` (N, 10), with gradients: column and row of the mean in pixels; xx, xy, yy of the inverse covariance;
    opacity; red, green and blue in linear light; disparity. Without: `reach` (N,), the squared Mahalanobis distance at
    which the Gaussian ends, 0 if it is not drawn; and `depth` (N,).
    """

    table: Tensor
    reach: Tensor
    depth: Tensor


class Seen(NamedTuple):
    """A sub-aperture, and the Gaussians projected for its radius."""

    part: SubAperture
    projected: Projected


class Group(NamedTuple):
    """Sub-apertures, and the one through which they share the layer in focus."""

    shared: Seen
    members: Sequence[Seen]


class Drawn(NamedTuple):
    """`light` (H, W, 3) linear, over black, and `disparity` (H, W) = Σ w/depth, both premultiplied; `alpha` (H, W)."""

    light: Tensor
    disparity: Tensor
    alpha: Tensor

    def mean_disparity(self) -> Tensor:
        """(H, W) Σ(w/depth) / Σw, 0 where nothing is seen."""
        return self.disparity / self.alpha.clamp(min=1e-6)


def check_gaussians(gaussians: Gaussians) -> None:
    """ValueError if shapes, types or devices do not match."""
    count = len(gaussians.means)
    kinds = gaussians.harmonics.shape[1] if gaussians.harmonics.ndim == 3 else 0
    wanted = ((count, 3), (count, 3), (count, 4), (count,), (count, kinds, 3))
    for name, tensor, shape in zip(Gaussians._fields, gaussians, wanted, strict=True):
        if tensor.shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, found {tuple(tensor.shape)}")
        if tensor.dtype != gaussians.means.dtype or tensor.device != gaussians.means.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, means are not: give all one type and device"
            )
    if kinds not in (1, 4, 9, 16):
        raise ValueError(f"a Gaussian has 1, 4, 9 or 16 harmonics (degree 0 to 3), found {kinds}")
    if not torch.is_floating_point(gaussians.means):
        raise ValueError(f"Gaussians are floats, found {gaussians.means.dtype}")
