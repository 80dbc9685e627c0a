"""The density grid remembers, forgets slowly, and covers every cell."""

import torch

from dofnerf.models.volume.rays.samples import KEEP, DensityGrid


def test_refresh_sees_every_cell():
    grid = DensityGrid(8)
    grid.refresh(lambda p: 2 + p[:, 0])
    centres = 2 + (torch.arange(8) + 0.5) / 4 - 1
    assert (grid.density - centres[:, None, None]).abs().max() <= 1 / 8 + 1e-6


def test_forgets_slowly_and_in_shares():
    grid, generator = DensityGrid(8), torch.Generator().manual_seed(0)
    grid.refresh(lambda p: torch.ones(len(p)))
    grid.refresh(lambda p: torch.zeros(len(p)), 0.25, generator)
    assert set(grid.density.unique().tolist()) == {torch.tensor(KEEP).item(), 1.0}
    assert (grid.density < 1).float().mean() == 0.25
