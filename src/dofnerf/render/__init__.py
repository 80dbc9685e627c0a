"""Volume weights and concentrate; camera + lens in, image out."""

from dofnerf.render.base import Model, View, ViewLens
from dofnerf.render.model import SamplingConfig, VolumeModel
from dofnerf.render.sparse_depth import sparse_depth_loss
from dofnerf.render.view import average_light, put_lens, render_exact, render_view
from dofnerf.render.volume import Concentrated, Shaded, concentrate, concentrate_layers, layer_edges, ray_weights

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
