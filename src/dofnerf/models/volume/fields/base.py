"""What a volumetric field is: the contract, and nothing of any one field.

A field answers, for points of the cube [−1, 1]³ seen from a direction: which colour, and how dense? Whoever asks has
warped the points into the cube, and measures distance in the same unit as the density. A field is a torch module, so
its parameters save, load and learn as any module's do. Gradients reach its parameters *and* the points (rays through a
lens move with the lens).

A file of this folder that sets `FIELD` is a field; nothing else is needed to be found.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

BRIGHTEST = 4.0  # of colours, in display values; about 21 times white in linear light
_MIDDLE = math.log(2 * BRIGHTEST - 1)  # sigmoid(−_MIDDLE) = 0.5 / BRIGHTEST


class VolumetricField(nn.Module, ABC):
    """Points → colour and density."""

    @abstractmethod
    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """points (…, 3) of the cube, unit directions that broadcast to them → colour (…, 3) ≥ 0, density (…) ≥ 0.

        Colours are display values, 1 is the white of a photo, and lamps may be brighter (`bright`).
        """

    @abstractmethod
    def density(self, points: Tensor) -> Tensor:
        """points (…, 3) → density (…), the same as `forward` gives, without the cost of colour."""


@dataclass(frozen=True)
class FieldKind:
    """How the program knows a field: its `name` for --field, its `config` dataclass, and how to make one from it.

    `sampling` says where its samples come from: a "coarse-fine" pair of networks, as in the paper, or a "density-grid"
    that remembers where something is. `depth_weight` is the share that sparse depth has in its loss, if nobody says
    otherwise.
    """

    name: str
    config: type
    make: Callable[[Any], VolumetricField]
    sampling: Literal["coarse-fine", "density-grid"]
    depth_weight: float = 0.0


def positive(raw: Tensor) -> Tensor:
    """softplus: a density that is never negative, and never dead as relu's can be."""
    return torch.nn.functional.softplus(raw)


def bright(raw: Tensor) -> Tensor:
    """A colour in display values from 0 to `BRIGHTEST`, 0.5 for 0. Lamps are brighter than the white of a photo: in
    focus that is cut off, but out of focus their discs show it."""
    return BRIGHTEST * torch.sigmoid(raw - _MIDDLE)
