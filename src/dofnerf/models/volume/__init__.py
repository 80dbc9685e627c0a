"""Volumetric models: rays through fields, concentrated; and how they learn."""

from dofnerf.models.volume.model import SamplingConfig, VolumeModel
from dofnerf.models.volume.weights import Concentrated, Shaded, concentrate, concentrate_layers, ray_weights

__all__ = [
    "Concentrated",
    "SamplingConfig",
    "Shaded",
    "VolumeModel",
    "concentrate",
    "concentrate_layers",
    "ray_weights",
]
