"""The lens: depth → blur radius → light scattered over discs and polygons, all differentiable."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dofnerf.optics.layers import Layers, scatter_layers, split_layers
    from dofnerf.optics.learned import LearnedLens
    from dofnerf.optics.lens import (
        PINHOLE,
        Lens,
        aperture_from_f_number,
        coc_radius,
        coc_radius_from_disparity,
        f_number_from_aperture,
        focal_length_pixels,
        inverse,
    )
    from dofnerf.optics.light import Curve, to_display, to_linear
    from dofnerf.optics.scattering import accumulate, scatter
    from dofnerf.optics.shapes import DISC, Blades, Disc, Norm, Shape, shape_of

_HOME = {
    "layers": ("Layers", "scatter_layers", "split_layers"),
    "learned": ("LearnedLens",),
    "lens": (
        "PINHOLE", "Lens", "aperture_from_f_number", "coc_radius", "coc_radius_from_disparity",
        "f_number_from_aperture", "focal_length_pixels", "inverse",
    ),
    "light": ("Curve", "to_display", "to_linear"),
    "scattering": ("accumulate", "scatter"),
    "shapes": ("DISC", "Blades", "Disc", "Norm", "Shape", "shape_of"),
}  # fmt: skip
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: scenes and flags need `Lens`, but not torch, which takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "DISC", "PINHOLE", "Blades", "Curve", "Disc", "Layers", "LearnedLens", "Lens", "Norm", "Shape", "accumulate",
    "aperture_from_f_number", "coc_radius", "coc_radius_from_disparity", "f_number_from_aperture",
    "focal_length_pixels",
    "inverse", "scatter", "scatter_layers", "shape_of", "split_layers", "to_display", "to_linear",
]  # fmt: skip
