"""The tiny network in plain PyTorch: the specification, and the CUDA path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import linear

if TYPE_CHECKING:
    from dofnerf.models.volume.fields.tiny_network import Layers


def perceive(encoded: Tensor, seen: Tensor, layers: Layers) -> tuple[Tensor, Tensor]:
    """As `tiny_network.perceive`."""
    features = linear(torch.relu(linear(encoded, layers.a1, layers.a1_bias)), layers.a2, layers.a2_bias)
    per_ray = len(encoded) // max(len(seen), 1)
    mixed = torch.relu(linear(features, layers.b1, layers.b1_bias) + seen.repeat_interleave(per_ray, dim=0))
    return linear(mixed, layers.b2, layers.b2_bias), features[:, 0]
