"""Scatter on the CPU, O(r) per pixel, in numba.

Inside its rim a blur disc is flat, so one row of it is a span: its difference along the row is non-zero only at the two
soft rims. Forward, every source adds those differences, and one running sum per row turns them into light. Backward,
the sum of the targets' gradients over the flat span is the difference of two prefix sums, and only the rims are visited
one by one. All sums run in float64: a running sum in float32 would drag the rounding of a bright pixel along its whole
row.

Forward, a job owns a band of *target* rows and visits every source that reaches it; backward, a band of *source* rows.
Nothing is shared between jobs, so there are no atomics, and the order of each sum, hence the result, is the same for
any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.optics.kernels import run_jobs
from dofnerf.optics.scattering.cpu_kernels import backward_rows, forward_rows, suffix_rows
from dofnerf.optics.shapes import Norm, Shape, sides_of

CHANNELS = 4  # the kernels work on groups of four: colour and weight, one AVX register of float64


def accumulate(values: Tensor, radius: Tensor, shape: Shape, norm: Norm) -> Tensor:
    """As reference.accumulate, for float32 on the CPU and shapes with `sides`."""
    return _Accumulate.apply(values, radius, shape, norm)


class _Accumulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, radius: Tensor, shape: Shape, norm: Norm) -> Tensor:
        ctx.save_for_backward(values, radius)
        ctx.shape, ctx.norm = shape, norm
        height, width = radius.shape[1:]
        out = torch.empty_like(values, memory_format=torch.contiguous_format)
        light = np.empty((0 if values.shape[-1] == CHANNELS else height, width, CHANNELS), dtype=np.float32)
        for b in range(len(radius)):
            blur = _blur(radius[b], shape, norm)
            for group in _groups(values):
                whole = group.stop - group.start == values.shape[-1] == CHANNELS
                target = out[b].numpy() if whole else light
                # Every band works out the footprints of all sources that reach it: bands thinner than a disc would pay
                # twice.
                run_jobs(forward_rows, height, (_four(values[b], group), *blur, target), least=int(blur[0].max()) + 1)
                if not whole:
                    out[b, ..., group] = torch.from_numpy(light)[..., : group.stop - group.start]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        values, radius = ctx.saved_tensors
        height, width = radius.shape[1:]
        grad_values = torch.empty_like(values, memory_format=torch.contiguous_format)
        grad_radius = np.zeros(radius.shape, dtype=np.float32)
        sums = np.zeros((height + 1, width + 1, CHANNELS))
        result = np.empty((height, width, CHANNELS), dtype=np.float32)
        for b in range(len(radius)):
            blur = _blur(radius[b], ctx.shape, ctx.norm)
            for group in _groups(values):
                run_jobs(suffix_rows, height, (_four(grads[0][b], group), sums))
                run_jobs(backward_rows, height, (_four(values[b], group), *blur, sums, result, grad_radius[b]))
                grad_values[b, ..., group] = torch.from_numpy(result)[..., : group.stop - group.start]
        return grad_values, torch.from_numpy(grad_radius), None, None


def _blur(radius: Tensor, shape: Shape, norm: Norm) -> tuple[np.ndarray, np.ndarray, float, bool]:
    """What the kernels know of one picture's blur: radius (H, W), blade normals, apothem, whether the norm is the unit
    one."""
    array = np.ascontiguousarray(radius.detach().numpy())
    normals, apothem = sides_of(shape)
    return array, normals.numpy(), apothem, norm == "unit"


def _groups(values: Tensor) -> list[slice]:
    channels = values.shape[-1]
    return [slice(first, min(first + CHANNELS, channels)) for first in range(0, channels, CHANNELS)]


def _four(values: Tensor, group: slice) -> np.ndarray:
    """At most four channels as contiguous float32 (H, W, 4), padded with zeros."""
    picked = values.detach()[..., group]
    missing = CHANNELS - picked.shape[-1]
    return np.ascontiguousarray((torch.nn.functional.pad(picked, (0, missing)) if missing else picked).numpy())
