"""Photos with shallow depth of field in; a sharp scene, every photo's lens, and a virtual lens out."""

import os

# torch's OpenMP threads otherwise spin after each operation and take the cores from our own kernels. Only counts when dofnerf
# is imported before torch; the user's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from dofnerf.optics import Kernel, LearnedLens, coc_radius, scatter, scatter_layers

__all__ = ["Kernel", "LearnedLens", "coc_radius", "scatter", "scatter_layers"]
__version__ = "0.1.0"
