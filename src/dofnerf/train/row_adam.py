"""Adam row by row: the values of a photo move only in steps that look at that photo.

Plain Adam has one step count for all rows and moves every row by its momentum, also those of photos that the batch did
not see. Here each row has a step count of its own. With all rows given each time it *is* Adam.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.train.photos.base import PhotoQuantity

BETAS = 0.9, 0.98
_EPSILON = 1e-12


class RowAdam:
    """Moments and step counts for the parameters of a quantity; scalars of each row share a count."""

    def __init__(self, quantity: PhotoQuantity) -> None:
        self.quantity = quantity
        self.state = {
            f"{name}.{part}": torch.zeros_like(value.detach())
            for name, value in quantity.named_parameters()
            for part in ("mean", "square", "count")
        }

    @torch.no_grad()
    def step(self, photos: Tensor | None, rate: float) -> None:
        """Move the rows of `photos` (N,) (None: all) by their gradients, which are then gone."""
        for name, value in self.quantity.named_parameters():
            if value.grad is None:
                continue
            if photos is None:
                rows = torch.arange(len(value), device=value.device)
            else:
                rows = self.quantity.rows(name, photos).unique()
            mean, square, count = (self.state[f"{name}.{part}"] for part in ("mean", "square", "count"))
            slope = value.grad[rows]
            count[rows] += 1
            mean[rows] = BETAS[0] * mean[rows] + (1 - BETAS[0]) * slope
            square[rows] = BETAS[1] * square[rows] + (1 - BETAS[1]) * slope**2
            unbiased = mean[rows] / (1 - BETAS[0] ** count[rows])
            scale = (square[rows] / (1 - BETAS[1] ** count[rows])).sqrt() + _EPSILON
            value[rows] -= rate * unbiased / scale
            value.grad = None
        self.quantity.constrain()

    def forget(self) -> None:
        """Start anew, after the values were set by other means."""
        for part in self.state.values():
            part.zero_()
