"""The tiny network on the CPU in numba: all layers for a block of samples, which never leaves the cache.

Samples lie along the rows, (width, N), so every inner loop runs over a block's samples and fills whole registers. A job
owns chunks of whole rays; each chunk keeps the gradients of the weights to itself and they are added up in order at the
end, so the result is the same for any number of threads. Backward computes the hidden layers again: cheaper than to
fetch them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.volume.fields.tiny_network.kernels import backward_chunks, forward_chunks
from dofnerf.optics.kernels import run_jobs

if TYPE_CHECKING:
    from dofnerf.models.volume.fields.tiny_network import Layers

CHUNK = 2048  # samples of a chunk, or so


def perceive(encoded: Tensor, seen: Tensor, layers: Layers) -> tuple[Tensor, Tensor]:
    """As `tiny_network.perceive`, for float32 on the CPU."""
    return _Perceive.apply(encoded, seen, *layers)


class _Perceive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, encoded: Tensor, seen: Tensor, *layers: Tensor) -> tuple[Tensor, Tensor]:
        rows, seen = encoded.detach().t().contiguous(), seen.detach().contiguous()
        ctx.save_for_backward(rows, seen, *layers)
        per_ray, rays, chunks = _chunks(rows, seen)
        out = torch.empty(4, rows.shape[1])
        arrays = [layer.detach().contiguous().numpy() for layer in layers]
        run_jobs(forward_chunks, chunks, (rays, per_ray, rows.numpy(), seen.numpy(), *arrays, out.numpy()))
        return out[:3].t(), out[3]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, seen, *layers = ctx.saved_tensors
        per_ray, rays, chunks = _chunks(rows, seen)
        pull = torch.cat([grads[0].t(), grads[1][None]]).contiguous()
        grad_rows, grad_seen = torch.empty_like(rows), torch.zeros_like(seen)
        sums = [np.zeros((chunks, *layer.shape), dtype=np.float32) for layer in layers]
        arrays = [layer.detach().contiguous().numpy() for layer in layers]
        fixed = (rays, per_ray, rows.numpy(), seen.numpy(), *arrays, pull.numpy(), grad_rows.numpy(), grad_seen.numpy())
        run_jobs(backward_chunks, chunks, (*fixed, *sums))
        return (grad_rows.t(), grad_seen, *(torch.from_numpy(part.sum(axis=0)) for part in sums))


def _chunks(rows: Tensor, seen: Tensor) -> tuple[int, int, int]:
    """Samples of a ray, rays of a chunk, chunks."""
    per_ray = rows.shape[1] // len(seen)
    rays = max(1, CHUNK // per_ray)
    return per_ray, rays, -(-len(seen) // rays)
