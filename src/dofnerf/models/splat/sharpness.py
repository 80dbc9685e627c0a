"""Where photos are sharp: what a field listens to while it knows no lens yet.

A field that is taught blurred and sharp photos alike shows a mixture, and blurs by itself what each photo blurs: then
the search for the lens finds little left to explain. Of the photos that see a place, those count most here that show
detail there.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

_POWER = 1.5  # of the energy of the differences between neighbours
_LEAST, _MOST = 5e-4, 16.0  # of its mean
_REACH = 1 / 100  # of the width: half the side of the window, which is applied twice


@torch.no_grad()
def local_sharpness(photos: Tensor) -> Tensor:
    """Weights (M, H, W) of photos (M, H, W, 3), of which the largest is 1.

    Adam divides by what gradients were: were some larger now than without weights, the sharpest places would learn
    slowly for hundreds of steps afterwards.
    """
    grey = photos.mean(-1)
    across, down = grey.diff(dim=2), grey.diff(dim=1)
    energy = pad(across.square(), (0, 1)) + pad(down.square(), (0, 0, 0, 1))
    reach = max(2, round(photos.shape[2] * _REACH))
    for _ in range(2):
        energy = avg_pool2d(energy[:, None], 2 * reach + 1, 1, reach, count_include_pad=False)[:, 0]
    weights = (energy / energy.mean().clamp(min=1e-12)).pow(_POWER).clamp(_LEAST, _MOST)
    return weights / weights.max()
