"""What a field was last seen to hold: density in the cells of the cube, kept beside the field and asked instead of it.

A cell remembers the largest density found in it, and forgets slowly (`keep` a round), so that thin things that a random
look missed are not lost at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

KEEP = 0.9
_CHUNK = 1 << 16  # points asked at once


class DensityGrid(nn.Module):
    """`density` (side, side, side) by (x, y, z); it saves and loads with the model, and learns nothing by gradients."""

    density: Tensor

    def __init__(self, side: int = 64) -> None:
        super().__init__()
        if side < 2:
            raise ValueError(f"a density grid needs 2 cells a side or more, found {side}")
        self.register_buffer("density", torch.zeros(side, side, side))

    @torch.no_grad()
    def refresh(
        self, density: Callable[[Tensor], Tensor], share: float = 1.0, generator: torch.Generator | None = None
    ) -> None:
        """Look at one random point in each of a `share` of the cells, every so-manieth from a random one on.

        `density` maps points (N, 3) of the cube to (N,).
        """
        side, device = self.density.shape[0], self.density.device
        every = max(1, round(1 / share))
        start = int(torch.randint(every, (), generator=generator, device=device))
        flat = self.density.view(-1)
        for part in torch.arange(start, side**3, every, device=device).split(_CHUNK):
            corner = torch.stack([part // side**2, part // side % side, part % side], dim=-1)
            points = (corner + torch.rand(len(part), 3, generator=generator, device=device)) * (2 / side) - 1
            flat[part] = torch.maximum(KEEP * flat[part], density(points))
