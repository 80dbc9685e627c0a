"""Blur models of splats: how Gaussians become a picture through a lens. `--blur` of training offers all of them.

*gaussian*: each Gaussian is blurred by its own depth, in `raster.project`. Occlusion is right, but the blur is a
Gaussian's instead of a disc's, and since alphas do not add, stacks of opaque Gaussians grow at edges out of focus. The
mean of views through sub-apertures reduces both errors, the more the smaller they are. *scatter*: the sharp picture is
scattered by its mean disparity, as in the paper; any aperture shape, but occlusion is only approximate.

Another blur model is a subclass of `BlurModel`, decorated with `register`.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
import tyro
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.base import View
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Projected, Style, SubAperture
from dofnerf.models.splat.raster import from_column, project, rasterise, rasterise_mean, shifted
from dofnerf.optics import scatter, to_display, to_linear
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve
from dofnerf.optics.shapes import Disc, Shape, part_weights

_ACROSS = (1 / 6, 0.5, 5 / 6)  # of a sub-aperture in either direction: where its weight is taken
_ONE_RING = 6  # sub-apertures; up to so many, one ring of sectors is closer to a disc than two


@dataclass(frozen=True)
class Shot:
    """How a picture is made: `style` of the sharp Gaussians, `background` (3,) in display values, and the curve `light`
    of the linear light in which blur adds up. `sub_apertures` and `turn` are arguments of the function of that name.
    `columns`, if not all are wanted, are the first one and the one after the last."""

    style: Style
    background: Tensor
    light: Curve = 2.2
    sub_apertures: int = 1
    turn: float = 0.0
    columns: tuple[int, int] | None = None

    def project(self, gaussians: Gaussians, camera: Camera, lens: Lens | None = None, radius: float = 1.0) -> Projected:
        """Gaussians on the screen, of which `width` columns are wanted."""
        opening, style = (0.0, 0.0), self.style
        if lens is not None:
            opening, style = (lens.aperture, lens.focus_disparity), replace(style, light=self.light)
        projected = project(gaussians, camera, *opening, radius, style)
        return projected if self.columns is None else from_column(projected, self.columns[0])

    def width(self, camera: Camera) -> int:
        return camera.width if self.columns is None else self.columns[1] - self.columns[0]

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
        """The picture through `lens`: all of it, or only `shot.columns`. Gradients reach the Gaussians and the lens."""


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
    projected = shot.project(gaussians, camera)
    return shot.finished(rasterise(projected, shot.width(camera), camera.height), shot.style.light)


@register
class GaussianBlur(BlurModel):
    """Each Gaussian by its own depth; disparity and alpha are those of the blurred Gaussians."""

    name, divides = "gaussian", True

    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        parts = sub_apertures(shot.sub_apertures, shot.turn)
        if not lens.shape.is_flat:
            parts = as_lit(parts, lens.shape, points_of_parts(shot.sub_apertures, shot.turn))
        projected = {radius: shot.project(gaussians, camera, lens, radius) for radius in {p.radius for p in parts}}
        views, size = [projected[part.radius] for part in parts], (shot.width(camera), camera.height)
        opening = lens.aperture, lens.focus_disparity
        if isinstance(lens.shape, Disc):
            return shot.finished(rasterise_mean(views, parts, *opening, *size), shot.light)
        points, tangents = points_of_parts(shot.sub_apertures, shot.turn), torch.from_numpy(camera.tangents()).float()
        weights = part_weights(lens.shape, points, tangents).to(gaussians.means)
        if shot.columns is not None:
            weights = weights[..., slice(*shot.columns)]
        sums: list[Any] = [0.0, 0.0, 0.0]
        for view, part, weight in zip(views, parts, weights / weights.sum(0).clamp(min=1e-6), strict=True):
            drawn = rasterise(shifted(view, part, *opening), *size)
            for k, value in enumerate(drawn):
                sums[k] = sums[k] + value * (weight[..., None] if value.ndim == 3 else weight)
        return shot.finished(Drawn(*sums), shot.light)


@register
class ScatterBlur(BlurModel):
    """The sharp picture, scattered by its mean disparity in the shape of the lens; disparity and alpha are sharp."""

    name = "scatter"

    def picture(self, gaussians: Gaussians, camera: Camera, lens: Lens, shot: Shot) -> View:
        sharp = sharp_picture(gaussians, camera, replace(shot, columns=None))
        radius = lens.coc_radius_from_disparity(sharp.disparity)
        return sharp._replace(image=scatter(sharp.image, radius, lens.shape, shot.light))


@functools.lru_cache(maxsize=8)
def points_of_parts(count: int, turn: float = 0.0) -> Tensor:
    """(count, M, 2): points spread over each of `sub_apertures`, x right and y up."""
    found, done = [], 0
    for number, sectors in enumerate(_rings(count)):
        low, high = done / count, (done + sectors) / count
        start = turn + 0.5 * number / sectors
        for k in range(sectors):
            for area in _ACROSS:
                far = math.sqrt(low + (high - low) * area)
                angles = [2 * math.pi * (start + (k + along - 0.5) / sectors) for along in _ACROSS]
                found += [(far * math.cos(angle), far * math.sin(angle)) for angle in angles]
        done += sectors
    return torch.tensor(found).reshape(count, -1, 2)


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


def as_lit(parts: Sequence[SubAperture], shape: Shape, points: Tensor) -> list[SubAperture]:
    """`parts` with the centroid and variance of the light that a lens of this `shape` lets through, on its axis;
    `points` (K, M, 2) are spread over each. So few parts have the moments of all the lens."""
    weight = shape.weight(points, torch.zeros(2))[..., None]
    whole = weight.sum(1) > 0  # what is closed stays as it is
    plain = points.mean(1)
    lit = torch.where(whole, (weight * points).sum(1) / weight.sum(1).clamp(min=1e-9), plain)
    spread = (points - plain[:, None]).square().mean((1, 2))
    narrow = (weight * (points - lit[:, None]).square()).sum((1, 2)) / (2 * weight.sum((1, 2))).clamp(min=1e-9)
    share = torch.where(whole[:, 0], narrow / spread, 1.0).tolist()
    # One radius a ring, for Gaussians are projected anew for each.
    rings = [round(part.radius, 9) for part in parts]
    radius = {
        ring: ring * math.sqrt(mean([one for one, of in zip(share, rings, strict=True) if of == ring]))
        for ring in set(rings)
    }
    moved = (lit - plain).tolist()
    return [
        SubAperture(part.x + x, part.y + y, radius[ring])
        for part, (x, y), ring in zip(parts, moved, rings, strict=True)
    ]


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
