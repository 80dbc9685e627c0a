"""The rasteriser: 3D Gaussians, camera and lens → light, disparity and alpha. Three backends: plain PyTorch
(reference), numba (cpu), and gsplat on CUDA (gpu).

`project`: each Gaussian becomes a 2D Gaussian on the screen, blurred by its own depth. A disc of radius
r = aperture · |focus_disparity − 1/depth| has the variance r²/4 along each axis, so the covariance grows by that, and
the opacity falls so that the total light stays the same. `rasterise`: they are blended front to back at each pixel, in
linear light. Gradients reach all parameters of the Gaussians, and the lens.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Projected, Style, SubAperture, check_gaussians
from dofnerf.models.splat.raster import reference
from dofnerf.models.splat.raster.reference import from_colour

Backend = Literal["auto", "reference", "cpu", "gpu"]
CLASSIC = Style()
WHOLE = SubAperture()

__all__ = [
    "Drawn",
    "Gaussians",
    "Projected",
    "Style",
    "SubAperture",
    "attribute",
    "draw",
    "from_colour",
    "project",
    "rasterise",
    "rasterise_mean",
    "shifted",
]


def draw(
    gaussians: Gaussians,
    camera: Camera,
    aperture: Tensor | float = 0.0,
    focus_disparity: Tensor | float = 0.0,
    part: SubAperture = WHOLE,
    style: Style = CLASSIC,
    backend: Backend = "auto",
) -> Drawn:
    """The picture of Gaussians in linear light: `project`, `shifted` and `rasterise`.

    With a sub-aperture `part`, the view through that part of the lens alone; the focal plane stays where it is. The
    mean over all sub-apertures converges to what a real lens sees as they become smaller.
    """
    projected = project(gaussians, camera, aperture, focus_disparity, part.radius, style, backend)
    return rasterise(shifted(projected, part, aperture, focus_disparity), camera.width, camera.height, backend)


def project(
    gaussians: Gaussians,
    camera: Camera,
    aperture: Tensor | float = 0.0,
    focus_disparity: Tensor | float = 0.0,
    radius: float = 1.0,
    style: Style = CLASSIC,
    backend: Backend = "auto",
) -> Projected:
    """Gaussians on the screen, each blurred by its own depth and a lens of `radius` times the aperture."""
    check_gaussians(gaussians)
    lens = (torch.as_tensor(value, dtype=gaussians.means.dtype).reshape(()) for value in (aperture, focus_disparity))
    opening, focus = (value.to(gaussians.means.device) for value in lens)
    if not (opening.item() >= 0 and focus.item() >= 0):
        found = f"{opening.item():g} and {focus.item():g}"
        raise ValueError(f"aperture and focus_disparity must be 0 or more, found {found}")
    if not 0 <= style.degree <= 3 or not style.near > 0:
        raise ValueError(f"degree must be 0 to 3 and near positive, found {style}")
    return _backend(backend, gaussians.means).project(gaussians, camera, opening, focus, radius, style)


def shifted(
    projected: Projected, part: SubAperture, aperture: Tensor | float, focus_disparity: Tensor | float
) -> Projected:
    """The same seen from the centre of a sub-aperture: each Gaussian moves in proportion to its blur, what is in focus
    stays. Shape and colour remain those seen from the lens's centre."""
    if part.x == part.y == 0:
        return projected
    radius = aperture * (focus_disparity - projected.table[:, 9])
    way = projected.table.new_tensor([part.x, -part.y, *[0.0] * 8])
    return projected._replace(table=projected.table + radius[:, None] * way)


def rasterise(projected: Projected, width: int, height: int, backend: Backend = "auto") -> Drawn:
    """Blend projected Gaussians, near to far."""
    if width < 1 or height < 1:
        raise ValueError(f"a picture has at least one pixel, found {width}×{height}")
    if len(projected.table) == 0:
        nothing = projected.table.sum() + projected.table.new_zeros(height, width, 5)
        return Drawn(nothing[..., :3], nothing[..., 3], nothing[..., 4])
    return _backend(backend, projected.table).rasterise(projected, width, height)


def rasterise_mean(
    projected: Sequence[Projected],
    parts: Sequence[SubAperture],
    aperture: Tensor | float,
    focus_disparity: Tensor | float,
    width: int,
    height: int,
    backend: Backend = "auto",
) -> Drawn:
    """The mean of the views through `parts` of a lens; `projected[i]` is projected for the radius of `parts[i]`."""
    like = projected[0].table
    if len(like) and width > 0 and height > 0 and (found := _backend(backend, like)).__name__.endswith(".cpu"):
        lens = (torch.as_tensor(value, dtype=like.dtype).reshape(()) for value in (aperture, focus_disparity))
        return found.rasterise_mean(projected, parts, *lens, width, height)
    seen = (shifted(*view, aperture, focus_disparity) for view in zip(projected, parts, strict=True))
    views = [rasterise(one, width, height, backend) for one in seen]
    return Drawn(*(torch.stack(values).mean(0) for values in zip(*views, strict=True)))


def attribute(projected: Projected, values: Tensor, backend: Backend = "auto") -> Tensor:
    """Attribute pixel `values` (H, W, C) to Gaussians: Σ over pixels of blending weight · value → (N, C), no gradients.

    Of ones, it is the number of pixels that a Gaussian makes up; of an error map, its share of the error.
    """
    if values.ndim != 3 or values.dtype != projected.table.dtype:
        found = f"{tuple(values.shape)} of {values.dtype}"
        raise ValueError(f"values must be (H, W, C) of {projected.table.dtype}, found {found}")
    if len(projected.table) == 0:
        return values.new_zeros(0, values.shape[-1])
    return _backend(backend, projected.table).attribute(projected, values)


def _backend(name: Backend, like: Tensor) -> ModuleType:
    single = like.dtype == torch.float32
    if name == "auto":
        name = "cpu" if single and like.device.type == "cpu" else "reference"
        if single and like.device.type == "cuda":
            from dofnerf.models.splat.raster import gpu

            name = "gpu" if gpu.available() else "reference"
    if name == "reference":
        return reference
    if name not in ("cpu", "gpu"):
        raise ValueError(f"backend must be auto, reference, cpu or gpu, found {name!r}")
    place = "cpu" if name == "cpu" else "cuda"
    if not single or like.device.type != place:
        raise ValueError(f"the {name} backend takes float32 on {place}, found {like.dtype} on {like.device}")
    return import_module(f"dofnerf.models.splat.raster.{name}")
