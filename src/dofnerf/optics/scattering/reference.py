"""Scatter in plain PyTorch: the specification. Any device, any float type, O(r²) per pixel, gradients by autograd."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dofnerf.optics.shapes import RIM, Norm, Shape, edge


def accumulate(values: Tensor, radius: Tensor, shape: Shape, norm: Norm) -> Tensor:
    """out_j = Σ_i w_ij · values_i over all sources i: (B, H, W, C), radius (B, H, W) ≥ 0 → (B, H, W, C).

    Light that leaves the picture is lost.
    """
    spread = values / normaliser(radius, shape, norm)[..., None]
    height, width = radius.shape[1:]
    support = _support(radius)
    rows = min(support, height - 1)
    columns = min(support, width - 1)
    out = torch.zeros_like(spread)
    for row in range(-rows, rows + 1):
        # One row of offsets at a time is recomputed in the backward pass, or the graph would hold O(r²) pictures.
        part = checkpoint(_one_row, spread, radius, shape, row, columns, use_reentrant=False)
        out = out + torch.nn.functional.pad(part, (0, 0, 0, 0, max(row, 0), max(-row, 0)))
    return out


def normaliser(radius: Tensor, shape: Shape, norm: Norm) -> Tensor:
    """norm(r), same shape as radius: r² + 0.2, or the sum of the rim-softened aperture over the whole pixel lattice."""
    if norm == "paper":
        return radius * radius + 0.2
    support = _support(radius)
    total = torch.zeros_like(radius)
    for row in range(-support, support + 1):
        for column in range(-support, support + 1):
            total = total + edge(_inside(radius, shape, row, column))
    return total


def _one_row(spread: Tensor, radius: Tensor, shape: Shape, row: int, columns: int) -> Tensor:
    """What every source sends `row` rows down, to all columns: the rows of the picture that it reaches."""
    height, width = radius.shape[1:]
    sources = slice(max(-row, 0), height - max(row, 0))
    out = torch.zeros_like(spread[:, sources])
    for column in range(-columns, columns + 1):
        source = slice(max(-column, 0), width - max(column, 0))
        target = slice(max(column, 0), width - max(-column, 0))
        weight = edge(_inside(radius[:, sources, source], shape, row, column))
        out[:, :, target] += weight[..., None] * spread[:, sources, source]
    return out


def _inside(radius: Tensor, shape: Shape, row: int, column: int) -> Tensor:
    """How deep inside the rim the target at (row, column) from the source lies, pixels."""
    offset = torch.tensor([column, row], dtype=radius.dtype, device=radius.device)
    return shape.reach(offset[0], offset[1]) * radius - torch.hypot(offset[0], offset[1])


def _support(radius: Tensor) -> int:
    """The farthest whole pixel that any source touches."""
    return int(float(radius.detach().max()) + RIM) if radius.numel() else 0
