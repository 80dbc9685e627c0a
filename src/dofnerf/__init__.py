"""Photos with shallow depth of field in; a sharp scene, every photo's lens, and a virtual lens out."""

import importlib
import os
from typing import TYPE_CHECKING, Any

# torch's OpenMP threads otherwise spin after each operation and take the cores from our own kernels. Only counts when
# dofnerf is imported before torch; the user's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if TYPE_CHECKING:
    from dofnerf import scenes, train
    from dofnerf.optics import LearnedLens, Lens, coc_radius, scatter, scatter_layers
    from dofnerf.train import Run

__all__ = ["LearnedLens", "Lens", "Run", "coc_radius", "scatter", "scatter_layers", "scenes", "train"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The public names, imported when first asked for: torch takes seconds, and `dofnerf --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'dofnerf' has no attribute {name!r}")
    if name in ("scenes", "train"):
        return importlib.import_module(f"dofnerf.{name}")
    return getattr(importlib.import_module("dofnerf.train" if name == "Run" else "dofnerf.optics"), name)
