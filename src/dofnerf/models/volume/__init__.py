"""Volumetric models: rays through fields, concentrated; and how they learn."""

from dofnerf.models.volume.model import SamplingConfig, VolumeModel
from dofnerf.models.volume.view import average_light, put_lens, render_view
from dofnerf.models.volume.weights import (
    Concentrated,
    Shaded,
    concentrate,
    concentrate_layers,
    layer_edges,
    ray_weights,
)

__all__ = [
    "Concentrated",
    "SamplingConfig",
    "Shaded",
    "VolumeModel",
    "average_light",
    "concentrate",
    "concentrate_layers",
    "layer_edges",
    "put_lens",
    "ray_weights",
    "render_view",
]
