"""A plug-in: a heart-shaped aperture."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.optics.shapes import Shape, register


@register
@dataclass(frozen=True)
class Heart(Shape):
    """Point down; the rim is a cardioid with a notch, from 0.35 at the top to 1 at the bottom."""

    name = "heart"

    def reach(self, columns: Tensor, rows: Tensor) -> Tensor:
        up = torch.atan2(-rows, columns) - self.rotation - math.pi / 2  # angle from the notch, at the top
        return 0.35 + 0.65 * torch.sin(up / 2).abs().sqrt()
