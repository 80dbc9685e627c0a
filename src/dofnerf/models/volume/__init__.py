"""Volumetric models: rays through fields, concentrated; and how they learn."""

from dofnerf.models.volume.model import CoarseFineConfig, DensityGridConfig, VolumeModel
from dofnerf.models.volume.weights import Concentrated, Shaded, concentrate, concentrate_layers, ray_weights

__all__ = [
    "CoarseFineConfig", "Concentrated", "DensityGridConfig", "Shaded", "VolumeModel", "concentrate",
    "concentrate_layers",
    "ray_weights",
]  # fmt: skip
