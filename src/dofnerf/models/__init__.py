"""Volume weights and concentrate; camera + lens in, image out."""

from dofnerf.models.base import Model, View, ViewLens
from dofnerf.models.volume.model import SamplingConfig, VolumeModel
from dofnerf.models.volume.sparse_depth import sparse_depth_loss
from dofnerf.models.volume.view import average_light, put_lens, render_exact, render_view
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
    "Model",
    "SamplingConfig",
    "Shaded",
    "View",
    "ViewLens",
    "VolumeModel",
    "average_light",
    "concentrate",
    "concentrate_layers",
    "layer_edges",
    "put_lens",
    "ray_weights",
    "render_exact",
    "render_view",
    "sparse_depth_loss",
]
