"""Volumetric fields: the contract, and the registry. One file a field.

A field gives the colour and density of points in the cube [−1, 1]³, seen from a direction. The caller warps points into
the cube and measures distance in the unit of the density. Gradients must reach the parameters and the points: rays
through a lens move with the lens.

A module of this folder that sets `FIELD` is found by itself; other code calls `register`.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

BRIGHTEST = 4.0  # largest colour in display values; about 21 times white in linear light
_MIDDLE = math.log(2 * BRIGHTEST - 1)  # sigmoid(−_MIDDLE) = 0.5 / BRIGHTEST
_known: dict[str, FieldKind] = {}


class VolumetricField(nn.Module, ABC):
    """Points → colour and density."""

    @abstractmethod
    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """points (…, 3) of the cube, unit directions that broadcast to them → colour (…, 3) ≥ 0, density (…) ≥ 0.

        Colours are display values; 1 is the white of a photo, light sources may be brighter (`bright`).
        """

    @abstractmethod
    def density(self, points: Tensor) -> Tensor:
        """points (…, 3) → density (…), the same as from `forward`, without the cost of colour."""


@dataclass(frozen=True)
class FieldKind:
    """A field's `name` for --field, its `config` dataclass, and `make`, which builds one from a config.

    `sampling` is where samples along a ray come from: a "coarse-fine" pair of networks, as in the paper, or a
    "density-grid" that caches densities. `depth_weight` is the default weight of sparse depth in the loss.
    """

    name: str
    config: type
    make: Callable[[Any], VolumetricField]
    sampling: Literal["coarse-fine", "density-grid"]
    depth_weight: float = 0.0


def kinds() -> dict[str, FieldKind]:
    """Every field by name: modules of this folder that set FIELD, and registered ones."""
    for module in pkgutil.iter_modules(__path__):
        field = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FIELD", None)
        if isinstance(field, FieldKind):
            _known.setdefault(field.name, field)
    return dict(sorted(_known.items()))


def kind(name: str) -> FieldKind:
    """The field of that name."""
    known = kinds()
    if name not in known:
        raise ValueError(f"there is no field {name!r}; there are {', '.join(known)}")
    return known[name]


def register(field: FieldKind) -> None:
    """Add a field that lives elsewhere: it can then be trained (`--field NAME`), and its runs can be loaded."""
    _known[field.name] = field


def positive(raw: Tensor) -> Tensor:
    """A density ≥ 0 by softplus, whose gradient never vanishes, unlike relu's."""
    return torch.nn.functional.softplus(raw)


def bright(raw: Tensor) -> Tensor:
    """A colour in display values, 0 … `BRIGHTEST`, 0.5 for 0. Light sources are brighter than the white of a photo: in
    focus that is clipped, but out of focus their discs show it."""
    return BRIGHTEST * torch.sigmoid(raw - _MIDDLE)
