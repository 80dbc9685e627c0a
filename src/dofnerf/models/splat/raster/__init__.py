"""The rasteriser: 3D Gaussians, camera and lens → light, disparity and alpha. Three backends: plain PyTorch
(reference), numba (cpu), and triton on CUDA (gpu).

`project`: each Gaussian becomes a 2D Gaussian on the screen, blurred by its own depth. A disc of radius
r = aperture · |focus_disparity − 1/depth| has the variance r²/4 along each axis, so the covariance grows by that, and
the opacity falls so that the total light stays the same. `rasterise`: they are blended front to back at each pixel, in
linear light. Gradients reach all parameters of the Gaussians, and the lens.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Group, Projected, Style, SubAperture, check_gaussians
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
    "choose_backend",
    "draw",
    "from_colour",
    "from_column",
    "project",
    "rasterise",
    "rasterise_coarse",
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


def from_column(projected: Projected, left: int) -> Projected:
    """The same with the picture's columns counted from `left` on."""
    if not left:
        return projected
    return projected._replace(table=projected.table - projected.table.new_tensor([left, *[0.0] * 9]))


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
    if len(like) and width > 0 and height > 0 and (found := _backend(backend, like)) is not reference:
        lens = (torch.as_tensor(value, dtype=like.dtype).reshape(()) for value in (aperture, focus_disparity))
        return found.rasterise_mean(projected, parts, *lens, width, height)
    seen = (shifted(*view, aperture, focus_disparity) for view in zip(projected, parts, strict=True))
    views = [rasterise(one, width, height, backend) for one in seen]
    return Drawn(*(torch.stack(values).mean(0) for values in zip(*views, strict=True)))


def rasterise_coarse(
    groups: Sequence[Group],
    lens: tuple[float, float],
    limits: Sequence[float],
    size: tuple[int, int],
    background: Tensor,
) -> Tensor:
    """(H, W, 3): about the mean of the views of all members of `groups`, light over the `background` (3,); on the CPU,
    without gradients. `lens` is aperture and focus disparity, `size` width and height. `limits` are the blur radii, one
    or more, in pixels, from which on the size is halved once, twice, …; what is blurred less is seen once a group."""
    return import_module("dofnerf.models.splat.raster.coarse_cpu").rasterise_coarse(
        groups, lens, limits, size, background
    )


def attribute(projected: Projected, values: Tensor, backend: Backend = "auto") -> Tensor:
    """Attribute pixel `values` (H, W, C) to Gaussians: Σ over pixels of blending weight · value → (N, C), no gradients.

    Of ones, it is the number of pixels that a Gaussian makes up; of an error map, its share of the error.
    """
    if values.ndim != 3 or values.dtype != projected.table.dtype:
        found = f"{tuple(values.shape)} of {values.dtype}"
        raise ValueError(f"values must be (H, W, C) of {projected.table.dtype}, found {found}")
    if not (len(projected.table) and values.numel()):
        return values.new_zeros(len(projected.table), values.shape[-1])
    return _backend(backend, projected.table).attribute(projected, values)


def choose_backend(like: Tensor) -> Backend:
    """What "auto" means: numba on the CPU, triton on CUDA; plain PyTorch for other tensors and without triton."""
    if like.dtype != torch.float32:
        return "reference"
    if like.device.type == "cuda":
        return "gpu" if find_spec("triton") is not None else "reference"
    return "cpu" if like.device.type == "cpu" else "reference"


def _backend(name: Backend, like: Tensor) -> ModuleType:
    if name == "auto":
        name = choose_backend(like)
    if name == "reference":
        return reference
    if name not in ("cpu", "gpu"):
        raise ValueError(f"backend must be auto, reference, cpu or gpu, found {name!r}")
    if name == "cpu" and (like.dtype != torch.float32 or like.device.type != "cpu"):
        raise ValueError(f"the cpu backend takes float32 on cpu, found {like.dtype} on {like.device}")
    return import_module(f"dofnerf.models.splat.raster.{name}")
