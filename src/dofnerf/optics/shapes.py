"""The shape of the aperture, which is the shape of every blurred point.

A shape is star-shaped about its centre: `reach` k(θ) is the distance of the rim in direction θ, in units of the blur
radius (the paper's k_ij). The light of a source with blur radius r spreads to targets at distance l (pixels) by

    weight = edge(k(θ)·r − l) / norm(r)

`edge` is the paper's soft step ½ + ½ tanh 4x, saturated one pixel either side of the rim, x = ±1, and stretched by
1/tanh 4 (0.07 %) so that it meets 0 and 1 there without a jump. So a source touches nothing beyond k·r + 1 pixels and
is exactly flat within k·r − 1; O(r) scatter relies on that.

To add a shape, subclass `Shape`, give it a `name` and `reach`, and decorate it with `register`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor

Norm = Literal["paper", "unit"]

RIM = 1.0  # half-width of the soft rim, pixels: the one support cut-off, for every backend
STEEPNESS = 4.0
STRETCH = 1 / math.tanh(STEEPNESS * RIM)
_GOLDEN = (math.sqrt(5) - 1) / 2
_COARSE = 12  # columns and rows at which weights of parts are computed; between them they are interpolated
_SOFT_EDGE = 0.04  # of the radius: over this width an opening ends where it is a weight
_MOST_CATS_EYE = 100.0  # lens radii
_DIRECTIONS = 720  # in which an opening is measured
_TABLE = 4096  # directions in which the rim of a shape without a formula is tabulated


@dataclass(frozen=True)
class Shape(ABC):
    """An aperture of radius 1, turned by `rotation` radians, counter-clockwise as seen in the picture."""

    rotation: float = field(default=0.0, kw_only=True)

    name: ClassVar[str]
    is_symmetric: ClassVar[bool] = False  # under a half turn
    is_flat: ClassVar[bool] = True  # as bright all over, and the same for all of the picture

    def __post_init__(self) -> None:
        if not math.isfinite(self.rotation):
            raise ValueError(f"rotation must be finite, found {self.rotation}")

    @abstractmethod
    def reach(self, columns: Tensor, rows: Tensor) -> Tensor:
        """k(θ), at most 1, for offsets (column, row) of any shape; rows count down. At the centre, the smallest."""

    def rim(self, turn: Tensor) -> Tensor:
        """Points (…, 2) of the rim, x right and y up, after a share `turn` (…) of the aperture's area, from `rotation`.

        Scaled by the square root of a uniform number, a uniformly drawn rim point is uniform over the aperture.
        """
        angle = torch.linspace(0, 2 * math.pi, _TABLE + 1, dtype=torch.float64) + self.rotation
        reach = self.reach(torch.cos(angle), -torch.sin(angle))
        area = torch.cat([torch.zeros(1, dtype=torch.float64), (reach[1:] ** 2 + reach[:-1] ** 2).cumsum(0)])
        place = torch.searchsorted(area / area[-1], turn.double().cpu()).clamp(1, _TABLE)
        return (torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1) * reach[:, None])[place].to(turn)

    def points(self, shape: tuple[int, ...], count: int, generator: torch.Generator | None = None) -> Tensor:
        """(*shape, count, 2) points, x right and y up, spread over the aperture.

        Each set is stratified: one point in each of `count` rings of equal area, a golden section of a turn apart, all
        turned by a random angle. The mean of a function over a set is an unbiased estimate of its mean over the lens.
        """
        device = generator.device if generator is not None else None
        random = torch.rand(*shape, count, generator=generator, device=device)
        ring = (torch.arange(count, device=device) + random) / count
        start = torch.rand(*shape, 1, generator=generator, device=device)
        turn = (torch.arange(count, device=device) * _GOLDEN + start) % 1
        return ring.sqrt()[..., None] * self.rim(turn)

    def weight(self, points: Tensor, tangents: Tensor) -> Tensor:
        """How much of the light at `points` (…, 2) of the lens (x right, y up) gets through to a place of the picture
        whose direction is (x, y) = `tangents` (…, 2), tangents of the angles to the optical axis. Shapes broadcast."""
        inside = self._inside(points).expand(torch.broadcast_shapes(points.shape, tangents.shape)[:-1])
        return (inside / _SOFT_EDGE + 0.5).clamp(0, 1)

    def _inside(self, points: Tensor) -> Tensor:
        """How far within the rim points (…, 2) of the lens lie."""
        return self.reach(points[..., 0], -points[..., 1]) - _length(points)

    def sides(self) -> tuple[Tensor, float] | None:
        """(unit normals (n, 2) as (column, row), apothem) of a convex polygon, n = 0 for a disc; None for other shapes.

        The numba and triton kernels draw these; the plain-PyTorch backend draws any shape.
        """
        return None

    def flipped(self) -> Shape:
        """The same shape after a half turn: what is in front of the focal plane blurs to it."""
        return replace(self, rotation=self.rotation + math.pi)

    def table(self, count: int) -> list[float]:
        """`reach` in `count` directions, counter-clockwise from the column axis as seen in the picture."""
        angle = torch.arange(count, dtype=torch.float64) * (2 * math.pi / count)
        return self.reach(torch.cos(angle), -torch.sin(angle)).tolist()

    @property
    def filled(self) -> float:
        """How much of it is open: the diameter of a disc as large as it is, over that of the circle around it."""
        return math.sqrt(fmean(reach * reach for reach in self.table(_DIRECTIONS)))

    def describe(self) -> str:
        """In words, for people."""
        return f"a {self.name}" + (f" turned by {math.degrees(self.rotation):g}°" if self.rotation else "")


def _length(points: Tensor) -> Tensor:
    """Of vectors (…, 2). `norm` over so few numbers takes ten times as long on a CPU."""
    return (points[..., 0].square() + points[..., 1].square()).sqrt()


SHAPES: dict[str, type[Shape]] = {}
_Kind = TypeVar("_Kind", bound=type[Shape])


def register(kind: _Kind) -> _Kind:
    """Make a shape known by its `name` to every renderer and to `--shape`."""
    SHAPES[kind.name] = kind
    return kind


@register
@dataclass(frozen=True)
class Disc(Shape):
    """A round aperture."""

    name = "disc"
    is_symmetric = True

    def reach(self, columns: Tensor, rows: Tensor) -> Tensor:
        return torch.ones_like(columns)

    def sides(self) -> tuple[Tensor, float]:
        return torch.zeros(0, 2, dtype=torch.float64), 1.0

    def rim(self, turn: Tensor) -> Tensor:
        return torch.stack([torch.cos(2 * math.pi * turn), torch.sin(2 * math.pi * turn)], dim=-1)

    def describe(self) -> str:
        return "a disc"


@register
@dataclass(frozen=True)
class Blades(Shape):
    """A polygon with `count` sides and circumradius 1; a vertex lies at angle `rotation` from the column axis."""

    count: int = 6

    name = "blades"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count != int(self.count) or self.count < 3:
            raise ValueError(f"blades must be 0 (a disc) or 3 and more, found {self.count}")

    @property
    def is_symmetric(self) -> bool:  # type: ignore[override]
        return self.count % 2 == 0

    @property
    def apothem(self) -> float:
        """Distance from the centre to a side: the smallest reach."""
        return math.cos(math.pi / self.count)

    def normals(self) -> Tensor:
        """Unit normals of the sides as (count, 2) of (column, row), float64; rows count down the picture."""
        angle = self.rotation + (torch.arange(self.count, dtype=torch.float64) + 0.5) * (2 * math.pi / self.count)
        return torch.stack([torch.cos(angle), -torch.sin(angle)], dim=-1)

    def reach(self, columns: Tensor, rows: Tensor) -> Tensor:
        """The paper's k_ij is cos(π/n) / cos(m − π/n), m the angle past the last vertex. The denominator times the
        length of the offset is its largest projection on a side's normal, which needs no angle; the paper's arctan and
        |·| fold left on right and break odd or rotated polygons."""
        normals = self.normals().to(columns)
        projection = (columns[..., None] * normals[:, 0] + rows[..., None] * normals[:, 1]).amax(dim=-1)
        length = torch.hypot(columns, rows)
        return torch.where(length > 0, self.apothem * length / projection.clamp(min=1e-12), self.apothem)

    def sides(self) -> tuple[Tensor, float]:
        return self.normals(), self.apothem

    def rim(self, turn: Tensor) -> Tensor:
        side = (turn * self.count).floor()
        along = (turn * self.count - side)[..., None]
        return self._vertex(side) * (1 - along) + self._vertex(side + 1) * along

    def _vertex(self, number: Tensor) -> Tensor:
        angle = self.rotation + number * (2 * math.pi / self.count)
        return torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)

    def describe(self) -> str:
        return f"{self.count} blades turned by {math.degrees(self.rotation):g}°"


@dataclass(frozen=True)
class RealLens(Shape):
    """The character of a real lens.

    `blades` (0: none) make a polygon, `roundness` rounds it: 0 straight, 1 a disc. `cats_eye` is optical vignetting: a
    second circle as large as the lens cuts the opening, and moves against the direction of what is seen (above 0: a rim
    in front of the diaphragm) by so many lens radii where the tangent of the angle to the optical axis is 1. `profile`,
    two numbers a and b, is how bright the opening is at a share ρ of its radius, on average 1:

        1 + a (2ρ² − 1) + b (6ρ⁴ − 6ρ² + 1)        a > 0: a hard rim, a < 0: a soft one

    `pupil` is where on the optical axis the camera's centre lies, in lens radii before the diaphragm: the opening moves
    along with the direction. Half of a cat's eye if cameras were solved for, since motion along the axis and a focal
    length that changes with focus look the same as the middle of the opening moving; 0 if they are those of the lens.

    A photo stays as bright in its corners as it is in the middle: cameras correct that, and exposure is another matter.
    """

    blades: int = 0
    roundness: float = 0.0
    cats_eye: float = 0.0
    profile: tuple[float, float] = (0.0, 0.0)
    pupil: float = 0.0

    name = "learned"
    is_flat = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blades != 0 and self.blades < 3:
            raise ValueError(f"blades must be 0 (a disc) or 3 and more, found {self.blades}")
        if not (0 <= self.roundness <= 1 and abs(self.cats_eye) < _MOST_CATS_EYE):
            raise ValueError(f"roundness must be 0 to 1 and cats_eye finite: {self.roundness}, {self.cats_eye}")
        if not abs(self.pupil) < _MOST_CATS_EYE:
            raise ValueError(f"pupil must be finite, found {self.pupil}")
        if not all(abs(one) <= 1 for one in self.profile):
            raise ValueError(f"profile must be two numbers from -1 to 1, found {self.profile}")

    def tensor(self) -> Tensor:
        """(7,): as numbers, for a checkpoint."""
        return torch.tensor([self.blades, self.roundness, self.cats_eye, *self.profile, self.rotation, self.pupil])

    @classmethod
    def of(cls, numbers: Tensor) -> RealLens:
        """The inverse of `tensor`; refuses what is none."""
        if numbers.shape not in ((6,), (7,)):  # 6: of before there was a pupil
            raise ValueError(f"a lens's character is 7 numbers (6 in older runs), found {tuple(numbers.shape)}")
        blades, roundness, cats_eye, a, b, rotation, *pupil = numbers.tolist()
        return cls(int(blades), roundness, cats_eye, (a, b), *pupil, rotation=rotation)

    def reach(self, columns: Tensor, rows: Tensor) -> Tensor:
        if not self.blades:
            return torch.ones_like(columns)
        straight = Blades(self.blades, rotation=self.rotation).reach(columns, rows)
        return self.roundness + (1 - self.roundness) * straight

    def weight(self, points: Tensor, tangents: Tensor) -> Tensor:
        points = points - self.pupil * tangents
        share = points.square().sum(-1).clamp(max=1)
        bright = 1 + self.profile[0] * (2 * share - 1) + self.profile[1] * (6 * share * share - 6 * share + 1)
        inside = torch.minimum(self._inside(points), 1 - _length(points + self.cats_eye * tangents))
        return bright.clamp(min=0) * (inside / _SOFT_EDGE + 0.5).clamp(0, 1)

    def describe(self) -> str:
        parts = [f"{self.blades} blades turned by {math.degrees(self.rotation):.0f}°, roundness {self.roundness:.2f}"]
        parts = parts if self.blades else []
        parts += [f"cat's eye {self.cats_eye:.2f}"] if self.cats_eye else []
        parts += [f"pupil {self.pupil:.2f}"] if self.pupil else []
        parts += ["profile {:+.2f} {:+.2f}".format(*self.profile)] if any(self.profile) else []
        return "the photos' own lens: " + (", ".join(parts) or "a disc")


DISC = Disc()


def shape_of(name: str | None = None, blades: int = 0, rotation: float = 0.0) -> Shape:
    """The shape that flags ask for: by `name`, or a polygon of `blades` sides, or a disc. `rotation` in degrees."""
    turn = math.radians(rotation)
    if name is None:
        return Blades(blades, rotation=turn) if blades else DISC
    if name not in SHAPES:
        raise ValueError(f"there is no aperture shape {name!r}; there are {', '.join(SHAPES)}")
    if name == Blades.name:
        return Blades(blades or Blades.count, rotation=turn)
    if blades:
        raise ValueError(f"{blades} blades make a polygon, not the shape {name!r}: give one of the two")
    return SHAPES[name](rotation=turn)


def part_weights(shape: Shape, points: Tensor, tangents: Tensor) -> Tensor:
    """(K, H, W): how much of the light through each of K parts of a lens gets to each pixel. `points` (K, M, 2) are
    spread over each part, `tangents` (H, W, 2) are the pixels' directions, even in both axes."""

    def resized(values: Tensor, size: tuple[int, int]) -> Tensor:
        return torch.nn.functional.interpolate(values[None], size, mode="bilinear", align_corners=True)[0]

    height, width = tangents.shape[:2]
    few = resized(tangents.permute(2, 0, 1), (min(height, _COARSE), min(width, _COARSE))).permute(1, 2, 0)
    return resized(shape.weight(points[:, :, None, None], few).mean(1), (height, width))


def sides_of(shape: Shape) -> tuple[Tensor, float]:
    """`shape.sides()`, or an error for a shape that only the plain-PyTorch backend draws."""
    sides = shape.sides()
    if sides is None:
        raise ValueError(f"only the reference backend scatters the shape {shape.name!r}")
    return sides


def edge(inside: Tensor) -> Tensor:
    """The soft rim: 0 … 1 for `inside` = k·r − l from −1 to 1 pixel, and beyond exactly 0 and 1.

    Exactly, because rounding of 0 would weigh in where a sharp pixel (1/norm = 5) neighbours a blurred one (1/norm ~
    1/r²).
    """
    soft = 0.5 + 0.5 * STRETCH * torch.tanh(STEEPNESS * inside.clamp(-RIM, RIM))
    return torch.where(inside <= -RIM, 0.0, torch.where(inside >= RIM, 1.0, soft))
