"""Blur models of splats: how Gaussians become a picture through a lens. `--blur` of training offers all of them.

*gaussian*: each Gaussian is blurred by its own depth, in `raster.project`. Occlusion is right, but the blur is a
Gaussian's instead of a disc's, and since alphas do not add, stacks of opaque Gaussians grow at edges out of focus. The
mean of views through sub-apertures reduces both errors, the more the smaller they are. *scatter*: the sharp picture is
scattered by its mean disparity, as in the paper; any aperture shape, but occlusion is only approximate.

Another blur model is a subclass of `BlurModel`, decorated with `register`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeVar

import tyro
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.base import View
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Style, SubAperture
from dofnerf.models.splat.raster import draw, project, rasterise_mean
from dofnerf.optics import scatter, to_display, to_linear
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve

_ONE_RING = 6  # sub-apertures; up to so many, one ring of sectors is closer to a disc than two


@dataclass(frozen=True)
class Shot:
    """How a picture is made: `style` of the sharp Gaussians, `background` (3,) in display values, and the curve `light`
    of the linear light in which blur adds up. `sub_apertures` and `turn` are arguments of the function of that name."""

    style: Style
    background: Tensor
    light: Curve = 2.2
    sub_apertures: int = 1
    turn: float = 0.0

    def over_background(self, drawn: Drawn, light: Curve) -> Tensor:
        """(H, W, 3) in linear light of the curve `light`."""
        return drawn.light + (1 - drawn.alpha)[..., None] * to_linear(self.background, light)

    def finished(self, drawn: Drawn, light: Curve) -> View:
        """The same in display values, with disparity and alpha."""
        return View(to_display(self.over_background(drawn, light), light), drawn.mean_disparity(), drawn.alpha)


class BlurModel(ABC):
    """`name` is its --blur. `divides` says that it uses `Shot.sub_apertures`."""

    name: ClassVar[str]
    divides: ClassVar[bool] = False

    @abstractmethod
    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        """The picture through `lens`. Gradients reach the Gaussians and the lens."""


BLURS: dict[str, BlurModel] = {}
_Kind = TypeVar("_Kind", bound=type[BlurModel])


def register(kind: _Kind) -> _Kind:
    """Make a blur model known by its name."""
    BLURS[kind.name] = kind()
    return kind


def blur_model(name: str) -> BlurModel:
    """The blur model of that name."""
    if name not in BLURS:
        raise ValueError(f"blur must be one of {', '.join(BLURS)}, found {name!r}")
    return BLURS[name]


# A flag's type: its choices are the names registered when the command line is read.
BlurName = Annotated[str, tyro.conf.arg(constructor_factory=lambda: Literal[tuple(BLURS)])]


def sharp_picture(gaussians: Gaussians, camera: Camera, shot: Shot) -> View:
    """The picture without a lens, blended in the light of its style."""
    return shot.finished(draw(gaussians, camera, style=shot.style), shot.style.light)


@register
class GaussianBlur(BlurModel):
    """Each Gaussian by its own depth; disparity and alpha are those of the blurred Gaussians."""

    name, divides = "gaussian", True

    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        style, opening = replace(shot.style, light=shot.light), (lens.aperture, lens.focus_disparity)
        parts = sub_apertures(shot.sub_apertures, shot.turn)
        projected = {
            radius: project(gaussians, camera, *opening, radius, style) for radius in {p.radius for p in parts}
        }
        views = [projected[part.radius] for part in parts]
        return shot.finished(rasterise_mean(views, parts, *opening, camera.width, camera.height), shot.light)


@register
class ScatterBlur(BlurModel):
    """The sharp picture, scattered by its mean disparity in the shape of the lens; disparity and alpha are sharp."""

    name = "scatter"

    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        sharp = sharp_picture(gaussians, camera, shot)
        radius = lens.coc_radius_from_disparity(sharp.disparity)
        return sharp._replace(image=scatter(sharp.image, radius, lens.shape, shot.light))


def sub_apertures(count: int, turn: float = 0.0) -> list[SubAperture]:
    """`count` parts of equal area of a round lens, in rings of sectors, rotated by `turn` (1 is a full circle).

    Each has the centroid and the mean variance of its part, so together they have those of the lens (except for two,
    which are elongated).
    """
    if count < 1:
        raise ValueError(f"a lens has at least one part, found {count}")
    parts, done = [], 0
    for number, sectors in enumerate(_rings(count)):
        inner, outer = math.sqrt(done / count), math.sqrt((done + sectors) / count)
        parts += _ring(inner, outer, sectors, turn + 0.5 * number / sectors)
        done += sectors
    return parts


def _rings(count: int) -> list[int]:
    """Sectors of each ring, from the centre outwards: rings are about as wide as their sectors are long."""
    rings = 1 if count <= _ONE_RING else round(math.sqrt(count / 3))
    ends = [round(count * (k / rings) ** 2) for k in range(rings + 1)]
    sectors = [last - first for first, last in pairwise(ends)]
    if rings > 1 and sectors[0] == 2:  # half discs are elongated: one whole disc instead
        sectors[:2] = [1, sectors[1] + 1]
    return sectors


def _ring(inner: float, outer: float, sectors: int, turn: float) -> list[SubAperture]:
    if sectors == 1:  # the disc at the centre
        return [SubAperture(0.0, 0.0, outer)]
    half = math.pi / sectors
    far = 2 / 3 * (outer**3 - inner**3) / (outer**2 - inner**2) * math.sin(half) / half  # of the centroid
    # A sector's variance along an axis is (mean ρ² − far²) / 2, a disc's is radius² / 4.
    radius = math.sqrt(inner**2 + outer**2 - 2 * far * far)
    angles = [2 * math.pi * (turn + k / sectors) for k in range(sectors)]
    return [SubAperture(far * math.cos(angle), far * math.sin(angle), radius) for angle in angles]
