"""The built-in places. A layout is one function: a random generator in, a `Layout` out; name it in `LAYOUTS`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dofnerf.lab.synth.layouts.garden import garden
from dofnerf.lab.synth.layouts.tabletop import tabletop
from dofnerf.lab.synth.layouts.workshop import workshop
from dofnerf.lab.synth.materials import Layout

LAYOUTS: dict[str, Callable[[np.random.Generator], Layout]] = {
    "tabletop": tabletop,
    "garden": garden,
    "workshop": workshop,
}


def make_layout(name: str, seed: int) -> Layout:
    """The layout called `name`; its textures and small irregularities follow `seed`."""
    if name not in LAYOUTS:
        raise ValueError(f"no layout called {name!r}; use one of: {', '.join(LAYOUTS)}")
    return LAYOUTS[name](np.random.default_rng([seed, 1]))
