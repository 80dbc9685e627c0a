"""The hash field's network: two perceptrons of one hidden layer each, one after the other, for very many samples.

    f = A₂ relu(A₁ x + a₁) + a₂             16 features of the encoded point x; the first is the logarithm of density
    y = B₂ relu(B₁ f + b₁ + v) + b₂         colour before its sigmoid; v is what the ray's direction adds, once a ray

So narrow a network is bound by memory, not by arithmetic, if each layer is written out for all samples. The CPU twin
takes all layers for a few samples at a time.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dofnerf.models.volume.fields.tiny_network import reference

Backend = Literal["auto", "reference", "cpu"]
FEATURES = 16


class Layers(NamedTuple):
    """The weights (out, in) and biases (out,) of the four layers, in order."""

    a1: Tensor
    a1_bias: Tensor
    a2: Tensor
    a2_bias: Tensor
    b1: Tensor
    b1_bias: Tensor
    b2: Tensor
    b2_bias: Tensor


def perceive(encoded: Tensor, seen: Tensor, layers: Layers, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """encoded (N, C) of rays with N / R samples each, in order, seen (R, W) → colour (N, 3) and density (N,), both
    raw."""
    if len(seen) == 0 or len(encoded) % len(seen):
        if len(encoded):
            raise ValueError(f"{len(encoded)} samples do not divide among {len(seen)} rays")
        backend = "reference"
    tensors = (encoded, seen, *layers)
    native = all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    if backend == "reference" or (backend == "auto" and not native):
        return reference.perceive(encoded, seen, layers)
    if not native:
        raise ValueError(f"the cpu backend takes float32 on the CPU, found {encoded.dtype} on {encoded.device}")
    from dofnerf.models.volume.fields.tiny_network import cpu

    return cpu.perceive(encoded, seen, layers)


def density_only(encoded: Tensor, layers: Layers) -> Tensor:
    """The raw density (N,) alone."""
    hidden = torch.relu(torch.nn.functional.linear(encoded, layers.a1, layers.a1_bias))
    return hidden @ layers.a2[0] + layers.a2_bias[0]
