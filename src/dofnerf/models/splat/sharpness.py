"""Where photos are sharp: what a field listens to while it knows no lens yet.

A field that is taught blurred and sharp photos alike shows a mixture, and blurs by itself what each photo blurs: then
the search for the lens finds little left to explain. Of the photos that see a place, those count most here that show
detail there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from dofnerf.models.photo_stack import PhotoStack

_POWER = 1.5  # of the energy of the differences between neighbours
_LEAST, _MOST = 5e-4, 16.0  # of its mean
_REACH = 1 / 100  # of the width: half the side of the window, which is applied twice
_WIDEST = 640  # pixels across of the kept weights, which vary slowly: those of larger photos are enlarged when used


class SharpnessWeights:
    """Weights of the pixels of photos (M, H, W, 3), the largest of them 1. Pixels that no mask (M, H, W) lets count,
    and differences to them, have no part in it. Where there are smaller `copies` (h, w, 3), bytes, and no masks, they
    are looked at instead.

    Adam divides by what gradients were: were some larger now than without weights, the sharpest places would learn
    slowly for hundreds of steps afterwards.
    """

    @torch.no_grad()
    def __init__(self, photos: PhotoStack, masks: PhotoStack | None = None, copies: Sequence[np.ndarray] = ()) -> None:
        height, width = photos.size
        wide = min(width, _WIDEST)
        self.weights = torch.empty(len(photos), max(1, round(height * wide / width)), wide, device=photos.device)
        counted = torch.zeros((2,), dtype=torch.float64, device=photos.device)
        small = masks is None and len(copies) > 0 and copies[0].shape[1] >= wide
        for i in range(len(photos)):
            photo = torch.from_numpy(copies[i]).to(photos.device).float() / 255 if small else photos[i]
            energy, share = _energy(photo, None if masks is None else masks[i], self.weights.shape[1:])
            counted += torch.stack([(energy * share).sum(), share.sum()])
            self.weights[i] = energy
        mean = self.weights.mean() if masks is None else (counted[0] / counted[1].clamp(min=1)).to(self.weights)
        self.weights.div_(mean.clamp(min=1e-12)).pow_(_POWER).clamp_(_LEAST, _MOST)
        self.weights.div_(self.weights.max())

    def at(self, photo: int, size: tuple[int, int]) -> Tensor:
        """The weights of a photo of `size` (height, width)."""
        found = self.weights[photo]
        return found if found.shape == size else interpolate(found[None, None], size, mode="bilinear")[0, 0]


def _energy(photo: Tensor, mask: Tensor | None, size: torch.Size) -> tuple[Tensor, Tensor]:
    """Mean squared differences around each pixel, of `size` (h, w), and the share of pixels around it that count."""
    grey = photo.mean(-1)
    across, down = pad(grey.diff(dim=1).square(), (0, 1)), pad(grey.diff(dim=0).square(), (0, 0, 0, 1))
    if mask is None:
        energy, share = across + down, torch.ones_like(grey)
    else:
        beside = pad(mask[:, 1:] * mask[:, :-1], (0, 1)), pad(mask[1:] * mask[:-1], (0, 0, 0, 1))
        energy, share = across * beside[0] + down * beside[1], mask
    parts = torch.stack([energy, share])[None]
    parts = parts if grey.shape == size else interpolate(parts, tuple(size), mode="area")
    reach = max(2, round(parts.shape[3] * _REACH))
    for _ in range(2):
        parts = avg_pool2d(parts, 2 * reach + 1, 1, reach, count_include_pad=False)
    energy, share = parts[0]
    return (energy, share) if mask is None else (energy / share.clamp(min=1e-6), share)
