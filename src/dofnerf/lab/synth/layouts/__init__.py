"""The built-in places: one file each, whose function `layout(rng)` makes a `Layout` from a random generator."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np

from dofnerf.lab.synth.layout import Layout

LAYOUTS: dict[str, Callable[[np.random.Generator], Layout]] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").layout
    for module in pkgutil.iter_modules(__path__)
}


def make_layout(name: str, seed: int) -> Layout:
    """The layout called `name`; its textures and small irregularities follow `seed`."""
    if name not in LAYOUTS:
        raise ValueError(f"no layout called {name!r}; use one of: {', '.join(LAYOUTS)}")
    return LAYOUTS[name](np.random.default_rng([seed, 1]))
