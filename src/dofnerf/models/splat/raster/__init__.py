"""The splat rasteriser: 3D Gaussians + camera + lens → light, disparity and alpha. One op, three backends: plain
PyTorch, numba on the CPU, and gsplat on CUDA where it is installed.

Project: each Gaussian becomes one on the screen, and has a blur of its own: a disc of the radius r = aperture ·
|focus_disparity − 1/depth| has the variance r²/4 along each axis, so the covariance grows by that, and the opacity
falls so that it carries the same light. Rasterise: all of them blend front to back at each pixel. Gradients reach all
that Gaussians are made of, and the lens.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Part, Projected, Style, check_gaussians
from dofnerf.models.splat.raster import reference
from dofnerf.models.splat.raster.harmonics import from_colour

Backend = Literal["auto", "reference", "cpu", "gpu"]
CLASSIC = Style()
WHOLE = Part()

__all__ = [
    "Drawn",
    "Gaussians",
    "Part",
    "Projected",
    "Style",
    "draw",
    "from_colour",
    "project",
    "rasterise",
    "tally",
    "through",
]


def draw(
    gaussians: Gaussians,
    camera: Camera,
    aperture: Tensor | float = 0.0,
    focus_disparity: Tensor | float = 0.0,
    part: Part = WHOLE,
    style: Style = CLASSIC,
    backend: Backend = "auto",
) -> Drawn:
    """The picture that a camera takes of Gaussians, in linear light: `project`, `through` and `rasterise`.

    With a `part` of the lens, it is the view through that part alone, from its middle, with the focal plane where the
    lens's centre sees it. The mean of the views through all parts is what a real lens sees, the better the smaller they
    are.
    """
    projected = project(gaussians, camera, aperture, focus_disparity, part.radius, style, backend)
    return rasterise(through(projected, part, aperture, focus_disparity), camera.width, camera.height, backend)


def project(
    gaussians: Gaussians,
    camera: Camera,
    aperture: Tensor | float = 0.0,
    focus_disparity: Tensor | float = 0.0,
    radius: float = 1.0,
    style: Style = CLASSIC,
    backend: Backend = "auto",
) -> Projected:
    """Gaussians → what they are on the screen, blurred each by its own depth and a lens of `radius` times the
    aperture."""
    check_gaussians(gaussians)
    lens = (torch.as_tensor(value, dtype=gaussians.means.dtype).reshape(()) for value in (aperture, focus_disparity))
    opening, focus = (value.to(gaussians.means.device) for value in lens)
    if not (opening.item() >= 0 and focus.item() >= 0):
        raise ValueError(
            f"aperture and focus_disparity must be 0 or more, found {opening.item():g} and {focus.item():g}"
        )
    if not 0 <= style.degree <= 3 or not style.near > 0:
        raise ValueError(f"degree must be 0 to 3 and near positive, found {style}")
    return _backend(backend, gaussians.means).project(gaussians, camera, opening, focus, radius, style)


def through(projected: Projected, part: Part, aperture: Tensor | float, focus_disparity: Tensor | float) -> Projected:
    """What is on the screen as the middle of a part of the lens sees it: each Gaussian moves with its own blur, and
    what is in focus stays. Its shape and colour remain those that the lens's centre sees."""
    if part.x == part.y == 0:
        return projected
    radius = aperture * (focus_disparity - projected.table[:, 9])
    way = projected.table.new_tensor([part.x, -part.y, *[0.0] * 8])
    return projected._replace(table=projected.table + radius[:, None] * way)


def rasterise(projected: Projected, width: int, height: int, backend: Backend = "auto") -> Drawn:
    """Blend what is on the screen, near to far."""
    if width < 1 or height < 1:
        raise ValueError(f"a picture has at least one pixel, found {width}×{height}")
    if len(projected.table) == 0:
        nothing = projected.table.sum() + projected.table.new_zeros(height, width, 5)
        return Drawn(nothing[..., :3], nothing[..., 3], nothing[..., 4])
    return _backend(backend, projected.table).rasterise(projected, width, height)


def tally(projected: Projected, values: Tensor, backend: Backend = "auto") -> Tensor:
    """Each Gaussian's Σ over pixels of its weight there times `values` (H, W, C) → (N, C). Without gradients.

    With 1 for a value it is how much of the picture the Gaussian is; with an error picture, how much of the error it
    bears.
    """
    if values.ndim != 3 or values.dtype != projected.table.dtype:
        raise ValueError(
            f"values must be (H, W, C) of {projected.table.dtype}, found {tuple(values.shape)} of {values.dtype}"
        )
    if len(projected.table) == 0:
        return values.new_zeros(0, values.shape[-1])
    return _backend(backend, projected.table).tally(projected, values)


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
