"""The lens: depth → blur radius → light scattered over discs and polygons, all differentiable."""

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
from dofnerf.optics.scatter import accumulate, scatter
from dofnerf.optics.shapes import DISC, Blades, Disc, Norm, Shape, shape_of

__all__ = [
    "DISC",
    "PINHOLE",
    "Blades",
    "Curve",
    "Disc",
    "Layers",
    "LearnedLens",
    "Lens",
    "Norm",
    "Shape",
    "accumulate",
    "aperture_from_f_number",
    "coc_radius",
    "coc_radius_from_disparity",
    "f_number_from_aperture",
    "focal_length_pixels",
    "inverse",
    "scatter",
    "scatter_layers",
    "shape_of",
    "split_layers",
    "to_display",
    "to_linear",
]
