"""The lens: depth → blur radius → light scattered over discs and polygons, all differentiable."""

from dofnerf.optics.layers import Layers, scatter_layers, split_layers
from dofnerf.optics.learned import LearnedLens
from dofnerf.optics.lens import (
    aperture_from_f_number,
    coc_radius,
    coc_radius_exact,
    coc_radius_from_disparity,
    f_number_from_aperture,
    focal_length_pixels,
)
from dofnerf.optics.light import to_display, to_linear
from dofnerf.optics.scatter import accumulate, scatter
from dofnerf.optics.shapes import Kernel

__all__ = [
    "Kernel",
    "Layers",
    "LearnedLens",
    "accumulate",
    "aperture_from_f_number",
    "coc_radius",
    "coc_radius_exact",
    "coc_radius_from_disparity",
    "f_number_from_aperture",
    "focal_length_pixels",
    "scatter",
    "scatter_layers",
    "split_layers",
    "to_display",
    "to_linear",
]
