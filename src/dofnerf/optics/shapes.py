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
from typing import ClassVar, Literal, TypeVar

import torch
from torch import Tensor

Norm = Literal["paper", "unit"]

RIM = 1.0  # half-width of the soft rim, pixels: the one support cut-off, for every backend
STEEPNESS = 4.0
STRETCH = 1 / math.tanh(STEEPNESS * RIM)
_GOLDEN = (math.sqrt(5) - 1) / 2
_TABLE = 4096  # directions in which the rim of a shape without a formula is tabulated


@dataclass(frozen=True)
class Shape(ABC):
    """An aperture of radius 1, turned by `rotation` radians, counter-clockwise as seen in the picture."""

    rotation: float = field(default=0.0, kw_only=True)

    name: ClassVar[str]
    is_symmetric: ClassVar[bool] = False  # under a half turn

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

    def describe(self) -> str:
        """In words, for people."""
        return f"a {self.name}" + (f" turned by {math.degrees(self.rotation):g}°" if self.rotation else "")


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
