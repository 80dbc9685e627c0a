"""DS-NeRF's loss (Deng et al. 2022): rendered depth should meet the sparse points that structure-from-motion found."""

from __future__ import annotations

import torch
from torch import Tensor


def sparse_depth_loss(depth: Tensor, point_depth: Tensor, error: Tensor, mean_error: float | None = None) -> Tensor:
    """Mean of weight · ((depth − point_depth) / point_depth)² over N points: expected depth of their rays, their own
    depth.

    `error` (N,) is each point's reprojection error in pixels; its weight is exp(−(error / mean error)²), so that
    well-matched points count most. Relative, since a reconstruction has no unit. `mean_error` is that of the whole
    scene, if known.
    """
    if not depth.shape == point_depth.shape == error.shape:
        raise ValueError(
            f"depth, point_depth and error must have one shape, found {tuple(depth.shape)}, {tuple(point_depth.shape)} and "
            f"{tuple(error.shape)}"
        )
    if not depth.numel():
        return depth.sum()
    scale = error.mean() if mean_error is None else torch.as_tensor(mean_error, dtype=error.dtype, device=error.device)
    weight = torch.exp(-((error / scale.clamp(min=1e-6)) ** 2))
    return (weight * ((depth - point_depth) / point_depth) ** 2).mean()
