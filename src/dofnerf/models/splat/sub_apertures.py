"""A round lens in parts of equal area: a few views through parts, each blurred a little, are nearer to the truth than
one view through the whole lens, whose discs are Gaussians and whose blurred surfaces let through what lies behind them.
"""

from __future__ import annotations

import math
from itertools import pairwise

from dofnerf.models.splat.gaussians import SubAperture

_ONE_RING = 6  # parts, up to which one ring of sectors is nearer to a disc than two


def lens_parts(count: int, turn: float = 0.0) -> list[SubAperture]:
    """`count` parts in rings of sectors, turned by `turn` (1 is full circle), the more rings the more parts. Each part
    has its own centroid and mean variance, so all together have those of the lens (but for two, which are long); twice
    as many are nearer to a disc."""
    if count < 1:
        raise ValueError(f"a lens has at least one part, found {count}")
    parts, done = [], 0
    for number, sectors in enumerate(_rings(count)):
        inner, outer = math.sqrt(done / count), math.sqrt((done + sectors) / count)
        parts += _ring(inner, outer, sectors, turn + 0.5 * number / sectors)
        done += sectors
    return parts


def _rings(count: int) -> list[int]:
    """How many sectors each ring has, from the middle on: rings are about as wide as their sectors are long."""
    rings = 1 if count <= _ONE_RING else round(math.sqrt(count / 3))
    ends = [round(count * (k / rings) ** 2) for k in range(rings + 1)]
    sectors = [last - first for first, last in pairwise(ends)]
    if rings > 1 and sectors[0] == 2:  # halves of a disc are long: rather a whole one
        sectors[:2] = [1, sectors[1] + 1]
    return sectors


def _ring(inner: float, outer: float, sectors: int, turn: float) -> list[SubAperture]:
    if sectors == 1:  # in the middle
        return [SubAperture(0.0, 0.0, outer)]
    half = math.pi / sectors
    far = 2 / 3 * (outer**3 - inner**3) / (outer**2 - inner**2) * math.sin(half) / half
    # Its variance along an axis is (mean ρ² − far²) / 2, a disc's radius² / 4.
    radius = math.sqrt(inner**2 + outer**2 - 2 * far * far)
    angles = [2 * math.pi * (turn + k / sectors) for k in range(sectors)]
    return [SubAperture(far * math.cos(angle), far * math.sin(angle), radius) for angle in angles]
