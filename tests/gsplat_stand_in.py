"""gsplat.rasterization for machines without CUDA: our own rasteriser in its place."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.splat.raster import Gaussians, Style, project, rasterise


def rasterization(  # noqa: PLR0913, PLR0917
    means: Tensor, quats: Tensor, scales: Tensor, opacities: Tensor, colors: Tensor, viewmats: Tensor, Ks: Tensor,
    width: int, height: int, render_mode: str = "RGB", sh_degree: int | None = None, **_,
) -> tuple[Tensor, Tensor, dict]:  # fmt: skip
    """As gsplat.rasterization of one camera, in classic mode: colours and expected depth (1, H, W, 3 or 4), alpha."""
    to_world = torch.linalg.inv(viewmats[0].double())[:3].detach().cpu().numpy() @ np.diag([1, -1, -1, 1.0])
    fx, fy, cx, cy = (float(Ks[0, row, column]) for row, column in ((0, 0), (1, 1), (0, 2), (1, 2)))
    camera = Camera(to_world, fx, fy, cx, cy, width, height)
    gaussians = Gaussians(means, scales.log(), quats, torch.logit(opacities, eps=1e-6), colors)
    projected = project(gaussians, camera, style=Style(light=1.0, near=0.01, degree=sh_degree or 0))
    centres = projected.table[:, :2]
    projected = projected._replace(table=torch.cat([centres, projected.table[:, 2:]], dim=1))
    drawn = rasterise(projected, width, height)
    depth = 1 / drawn.mean_disparity().clamp(min=1e-3)
    parts = [drawn.light, depth[..., None]] if render_mode == "RGB+ED" else [drawn.light]
    info = {"means2d": centres[None], "width": width, "height": height, "n_cameras": 1}
    info["radii"] = (projected.reach > 0).int()[None] * 3
    return torch.cat(parts, dim=-1)[None], drawn.alpha[None, ..., None], info
