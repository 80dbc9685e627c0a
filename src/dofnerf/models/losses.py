"""Losses that models use in their own steps. Those that act on any model, or on what photos have, are in
`train.losses`.

They are here, and not there, because models come before training in the import order, and each weighs them by its own
settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal

import torch
from torch import Tensor

Backend = Literal["auto", "reference"]

_WHITE = 0.95  # of a photo: from there on it may have been clipped at 1, and compressed since
_THIN = 0.3  # pixels: standard deviation of a Gaussian's thinnest axis below which it counts as a surface
_POWER, _SOFT = 0.4, 0.01  # of the sparse-gradient prior: its exponent, and the gradient below which it is quadratic


def residual(shown: Tensor, photo: Tensor, whole: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """shown − photo (…, 3), but 0 where the photo is clipped and what is shown is brighter, and where `mask` (…) is 0.
    `whole` is what is shown in the end, where `shown` is a part of it."""
    found = torch.where(is_clipped(shown if whole is None else whole, photo), 0.0, shown - photo)
    return found if mask is None else found * mask[..., None]


def is_clipped(shown: Tensor, photo: Tensor) -> Tensor:
    """(…, 3): where the photo is clipped and what is shown is brighter, so that it says nothing of how bright."""
    return (photo >= _WHITE) & (shown > 1)


def gradient_loss(residual: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean squared differences between the residuals (H, W, 3) of neighbouring pixels, both within `mask` (H, W)."""
    down, across = residual.diff(dim=0), residual.diff(dim=1)
    if mask is not None:
        down, across = down * (mask[1:] * mask[:-1])[..., None], across * (mask[:, 1:] * mask[:, :-1])[..., None]
    found = (one.square().mean() for one in (down, across) if one.numel())
    return sum(found, residual.new_zeros(()))


def photo_loss(
    shown: Tensor, photo: Tensor, weight: float, mask: Tensor | None = None, backend: Backend = "auto"
) -> tuple[Tensor, Tensor, Tensor]:
    """Of a picture and its photo (H, W, 3): mean squared residual + weight · `gradient_loss`, which gradients reach;
    the mean square alone; and the residuals, both without gradients."""
    plain = mask is None and all(one.dtype == torch.float32 and one.device.type == "cpu" for one in (shown, photo))
    if backend == "auto" and plain:
        return import_module("dofnerf.models.losses_cpu").photo_loss(shown, photo, weight, _WHITE)
    off = residual(shown, photo, mask=mask)
    error = off.square().mean()
    loss = error + weight * gradient_loss(off, mask) if weight else error
    return loss, error.detach(), off.detach()


def sparse_gradient_prior(image: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean of |∇|^0.4 over a picture (H, W, 3), all colours together: a hyper-Laplacian prior, since gradients of sharp
    pictures are small almost everywhere and large at a few edges. Values above white count as white; `weights` (H, W)
    multiply what a pixel counts."""
    seen = image.clamp(max=1.0)
    across, down = seen[:-1].diff(dim=1), seen[:, :-1].diff(dim=0)
    cost = ((across.square() + down.square()).sum(-1) + _SOFT**2).pow(_POWER / 2)
    counted = cost if weights is None else cost * weights[:-1, :-1]
    return counted.sum() / max(counted.numel(), 1)  # 0 for a picture one pixel high or wide


def thickness_loss(log_scales: Tensor, pixel: Tensor) -> Tensor:
    """Mean over Gaussians of log(thickness / 0.3 pixels), where that is positive: Gaussians become surfaces.

    `log_scales` (N, 3) are logarithms of standard deviations, the thickness is the least of the three; `pixel` (N,) is
    the side of a pixel at each Gaussian, in the same unit. In photos out of focus a blob looks as a surface does.
    """
    return (log_scales.amin(-1) - (_THIN * pixel).clamp(min=1e-30).log()).clamp(min=0).mean()


def sparse_depth_loss(depth: Tensor, point_depth: Tensor, error: Tensor, mean_error: float | None = None) -> Tensor:
    """DS-NeRF's loss (Deng et al. 2022): mean of weight · ((depth − point_depth) / point_depth)² over N sparse points.

    `depth` (N,) is rendered along their rays. `error` (N,) is each point's reprojection error in pixels; its weight is
    exp(−(error / mean error)²), so that well-matched points count most. Relative, since a reconstruction has no unit.
    `mean_error` is that of the whole scene, if known.
    """
    if not depth.shape == point_depth.shape == error.shape:
        shapes = tuple(depth.shape), tuple(point_depth.shape), tuple(error.shape)
        raise ValueError(f"depth, point_depth and error must have one shape, found {shapes}")
    if not depth.numel():
        return depth.sum()
    scale = error.mean() if mean_error is None else torch.as_tensor(mean_error, dtype=error.dtype, device=error.device)
    weight = torch.exp(-((error / scale.clamp(min=1e-6)) ** 2))
    return (weight * ((depth - point_depth) / point_depth) ** 2).mean()
