"""A round lens in parts of equal area: a few views through parts, each blurred a little, are nearer to the truth than one view
through the whole lens, whose discs are Gaussians and whose blurred surfaces let through what lies behind them.
"""

from __future__ import annotations

import math

from dofnerf.render.splats.gaussians import Part


def lens_parts(count: int, turn: float = 0.0) -> list[Part]:
    """`count` parts: sectors, turned by `turn` (1 is full circle); from six on, a disc in the middle and the ring around it in
    sectors. Each part has its own centroid and mean variance, so all together have those of the lens."""
    if count < 1:
        raise ValueError(f"a lens has at least one part, found {count}")
    if count == 1:
        return [Part()]
    inner = 1 / count if count > 5 else 0.0  # area of the disc in the middle, and its squared radius
    sectors = count - 1 if inner else count
    half = math.pi / sectors
    far = 2 / 3 * (1 - inner**1.5) / (1 - inner) * math.sin(half) / half
    radius = math.sqrt(1 + inner - 2 * far * far)  # variance along an axis: (mean ρ² − far²) / 2; a disc's is radius² / 4
    angles = [2 * math.pi * (turn + k / sectors) for k in range(sectors)]
    ring = [Part(far * math.cos(angle), far * math.sin(angle), radius) for angle in angles]
    return [Part(0.0, 0.0, math.sqrt(inner)), *ring] if inner else ring
