"""The words of the splat rasteriser: Gaussians, how they are drawn, what they become on the screen, and the picture.

The tensors mean what 3D Gaussian splatting (Kerbl et al. 2023) means by them, so that its .ply files mean the same
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dofnerf.optics.light import Curve

LOW_PASS = 0.3  # px², added to each screen covariance: nothing is thinner than about a pixel
OPAQUEST = 0.99  # of one Gaussian
FAINTEST = 1 / 255  # where a Gaussian's alpha ends, and below which it is not drawn at all
LOST = 0.03  # share of its light that a blurred Gaussian may lose by its cut
LARGEST = 1e30  # px⁴, determinant of a screen covariance; beyond, float32 has no room, and nobody a use
STOP = 1e-4  # transmittance below which a pixel is done
MARGIN = 0.3  # beyond the picture's border, as a share of its half-size: where the perspective's slope is held


class Gaussians(NamedTuple):
    """`means` (N, 3) in world coordinates, `log_scales` (N, 3) natural logarithms of the three deviations, `rotations`
    (N, 4) quaternions (w, x, y, z) of any length, `opacity_logits` (N,), `harmonics` (N, (degree + 1)², 3), degree 0 …
    3.

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

    `light` is the curve of their colours: they blend in linear light, so a blurred edge mixes as light does, and the
    sharp picture is the limit of the blurred one. 1 blends display values, as the tools do that most .ply files come
    from.

    The low-pass filter makes small Gaussians larger. `antialiased` takes from their opacity what they gain in size, so
    that they look the same from any distance; off is the classic way, and what .ply files expect unless they say
    otherwise.

    Nothing nearer than `near` is drawn. Harmonics of a degree above `degree` are passed over.
    """

    light: Curve = 2.2
    antialiased: bool = False
    near: float = 0.01
    degree: int = 3


class Part(NamedTuple):
    """A part of a lens of radius 1: where it is (x right, y up), and the radius of a disc that spreads light as widely.

    Radius 0 is a pinhole at that place; (0, 0, 1), the default, is the whole lens.
    """

    x: float = 0.0
    y: float = 0.0
    radius: float = 1.0


class Projected(NamedTuple):
    """Gaussians on the screen, one row each, N rows.

    `table` (N, 10): the mean's column and row in pixels; the inverse covariance's xx, xy, yy; opacity; red, green and
    blue in linear light; disparity. Gradients pass through it. `reach` (N,) is the squared Mahalanobis distance at
    which the Gaussian ends, 0 where it is not drawn, and `depth` (N,) orders them; neither has a gradient.
    """

    table: Tensor
    reach: Tensor
    depth: Tensor


class Drawn(NamedTuple):
    """`light` (H, W, 3) linear, over black, and `disparity` (H, W) = Σ w/depth, both premultiplied; `alpha` (H, W)."""

    light: Tensor
    disparity: Tensor
    alpha: Tensor

    def mean_disparity(self) -> Tensor:
        """(H, W) Σ(w/depth) / Σw: of what is seen there, 0 where nothing is."""
        return self.disparity / self.alpha.clamp(min=1e-6)


def check_gaussians(gaussians: Gaussians) -> None:
    """Refuse tensors that do not fit each other."""
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
        raise ValueError(f"harmonics come 1, 4, 9 or 16 to a Gaussian (degree 0 to 3), found {kinds}")
    if not torch.is_floating_point(gaussians.means):
        raise ValueError(f"Gaussians are floats, found {gaussians.means.dtype}")
