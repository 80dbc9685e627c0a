"""`losses.photo_loss` in numba, with its gradient: two passes over the picture, where PyTorch takes some thirty.

Pictures are rows of 3·W numbers; a pixel's neighbour is three further. Jobs own rows, and each row's sums are its own:
the same bits for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.optics.kernels import compiled, run_jobs

_LEAST = 32  # rows of a job


def photo_loss(shown: Tensor, photo: Tensor, weight: float, white: float) -> tuple[Tensor, Tensor, Tensor]:
    """As `losses.photo_loss`, for float32 on the CPU and no mask; `white` is where photos are clipped."""
    return _PhotoLoss.apply(shown, photo, weight, white)


class _PhotoLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shown: Tensor, photo: Tensor, weight: float, white: float) -> tuple[Tensor, Tensor, Tensor]:
        height, width, _ = shown.shape
        image, target = (part.detach().contiguous().numpy().reshape(height, -1) for part in (shown, photo))
        off, grad, sums = torch.empty(height, width, 3), torch.empty(height, width, 3), np.zeros((height, 3))
        rows = off.numpy().reshape(height, -1), grad.numpy().reshape(height, -1)
        # Of squares, of differences down and of those across: means, as they count in the loss.
        counts = height * width * 3, (height - 1) * width * 3, height * (width - 1) * 3
        shares = np.array([1, weight, weight]) / np.maximum(counts, 1)
        run_jobs(_residuals, height, (image, target, np.float32(white), rows[0]), least=_LEAST)
        given = image, target, np.float32(white), rows[0], (2 * shares).astype(np.float32)
        run_jobs(_slopes, height, (*given, rows[1], sums), least=_LEAST)
        error, *others = sums.sum(0) * shares
        ctx.save_for_backward(grad)
        out = torch.tensor(error + sum(others)).float(), torch.tensor(error).float(), off
        ctx.mark_non_differentiable(*out[1:])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0] * grads[0], None, None, None


@compiled
def _residuals(first, last, image, target, white, off):
    """Rows [first, last) of `off` (H, 3·W), 0 where the photo is clipped and the picture brighter."""
    for y in range(first, last):
        shown, photo, out = image[y], target[y], off[y]
        for x in range(out.shape[0]):
            clipped = (photo[x] >= white) & (shown[x] > np.float32(1))
            out[x] = np.float32(0) if clipped else shown[x] - photo[x]


@compiled
def _slopes(first, last, image, target, white, off, twice, grad, sums):  # noqa: PLR0913, PLR0917
    """Rows [first, last) of the gradient (H, 3·W), and their sums (H, 3) of squares, of squared differences to the row
    below and to the pixel on the right; `twice` (3,) is what each adds to the loss, doubled."""
    height, wide = off.shape
    for y in range(first, last):
        own, out = off[y], grad[y]
        above, below = off[max(y - 1, 0)], off[min(y + 1, height - 1)]
        whole, down, across = 0.0, 0.0, 0.0
        for x in range(wide):
            further = below[x] - own[x]  # 0 in the last row
            out[x] = twice[0] * own[x] + twice[1] * (own[x] - above[x] - further)
            whole += own[x] * own[x]
            down += further * further
        for x in range(wide - 3):
            further = own[x + 3] - own[x]
            out[x] -= twice[2] * further
            across += further * further
        for x in range(3, wide):
            out[x] += twice[2] * (own[x] - own[x - 3])
        shown, photo = image[y], target[y]
        for x in range(wide):
            clipped = (photo[x] >= white) & (shown[x] > np.float32(1))
            out[x] = np.float32(0) if clipped else out[x]
        sums[y, 0], sums[y, 1], sums[y, 2] = whole, down, across
