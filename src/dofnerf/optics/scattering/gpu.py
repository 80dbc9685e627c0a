"""Scatter on CUDA, in triton. The same kernels run without a GPU in triton's interpreter (TRITON_INTERPRET=1 before
import).

As in the reference, out = Σ edge(k·r − l) · light with light = values / norm(r), and PyTorch differentiates the
division. A program owns a square tile of pixels and gathers: forward, they are targets, and it visits the offsets from
which some source reaches them; backward, they are sources, and it visits the offsets that they reach. No two programs
write to one place, so there are no atomics and every run gives the same bits.

An offset (row, column) always points from source to target. All pixels of a tile take it together, so reach and length
are scalars. The cost is O(r²) per pixel with r the largest radius *that reaches the tile*: sharp tiles far from blur
cost little.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.optics.scattering.gpu_kernels import (
    CHUNK,
    GROUP,
    TILE,
    WARPS,
    backward_kernel,
    boxes_kernel,
    forward_kernel,
    lattice_sum_kernel,
)
from dofnerf.optics.shapes import RIM, Norm, Shape, sides_of
from dofnerf.optics.triton_kernels import check_tensor, on_device, triton


def accumulate(values: Tensor, radius: Tensor, shape: Shape, norm: Norm) -> Tensor:
    """As reference.accumulate, for float32 on CUDA and shapes with `sides`."""
    for tensor in (values, radius):
        check_tensor(tensor, forward_kernel)
    divisor = radius * radius + 0.2 if norm == "paper" else _UnitNorm.apply(radius, shape)
    channels = values.shape[-1]
    light = torch.nn.functional.pad(values / divisor[..., None], (0, -channels % GROUP))
    return _Gather.apply(light, radius, shape)[..., :channels]


class _Gather(torch.autograd.Function):
    """out_j = Σ_i edge(k_ij·r_i − l_ij) · light_i, for a multiple of GROUP channels."""

    @staticmethod
    def forward(ctx: Any, light: Tensor, radius: Tensor, shape: Shape) -> Tensor:
        light, radius = light.contiguous(), radius.contiguous()
        ctx.save_for_backward(light, radius)
        ctx.shape = shape
        out = torch.zeros_like(light)
        if light.numel() == 0:
            return out
        height, width, channels = light.shape[1:]
        with on_device(light):
            boxes = offset_boxes(radius)
            forward_kernel[(len(boxes) * (channels // GROUP),)](
                light, radius, boxes, out, *_blades(shape, light.device),
                height, width, channels, len(sides_of(shape)[0]), TILE, GROUP, num_warps=WARPS,
            )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        light, radius = ctx.saved_tensors
        batch, height, width, channels = light.shape
        groups = channels // GROUP
        tiles = triton.cdiv(height, TILE) * triton.cdiv(width, TILE)
        grad_light = torch.zeros_like(light)
        grad_radius = radius.new_zeros((groups, *radius.shape))
        if light.numel() > 0:
            with on_device(light):
                backward_kernel[(batch * groups * tiles,)](
                    light, radius, grads[0].contiguous(), grad_light, grad_radius, *_blades(ctx.shape, light.device),
                    batch, height, width, channels, len(sides_of(ctx.shape)[0]), TILE, GROUP, num_warps=WARPS,
                )  # fmt: skip
        return grad_light, grad_radius.sum(dim=0), None


class _UnitNorm(torch.autograd.Function):
    """N(r) = Σ edge(k·r − l) over the whole pixel lattice."""

    @staticmethod
    def forward(ctx: Any, radius: Tensor, shape: Shape) -> Tensor:
        radius = radius.contiguous()
        total, slope = torch.empty_like(radius), torch.empty_like(radius)
        ctx.save_for_backward(slope)
        block = TILE * TILE
        if radius.numel() > 0:
            with on_device(radius):
                lattice_sum_kernel[(triton.cdiv(radius.numel(), block),)](
                    radius, total, slope, radius.numel(), *_blades(shape, radius.device), len(sides_of(shape)[0]),
                    block, CHUNK,
                    num_warps=4,
                )  # fmt: skip
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None


def offset_boxes(radius: Tensor) -> Tensor:
    """Which offsets can bring light to each tile of targets: radius (B, H, W) → (tiles, 5), see `boxes_kernel`."""
    largest = torch.nn.functional.max_pool2d(radius[:, None], TILE, ceil_mode=True).contiguous()
    boxes = torch.empty((largest.numel(), 5), dtype=torch.int32, device=radius.device)
    across = int((float(largest.max()) + RIM) / TILE) + 1  # from how many tiles away light may come
    boxes_kernel[(len(boxes),)](largest, boxes, *largest.shape[2:], across, TILE, CHUNK, num_warps=1)
    return boxes


@lru_cache(maxsize=64)
def _blades(shape: Shape, device: torch.device) -> tuple[Tensor, float]:
    """Blade normals (n, 2) float32 on the device, and the apothem."""
    normals, apothem = sides_of(shape)
    return normals.to(device, torch.float32), apothem
