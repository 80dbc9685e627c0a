"""The pixels of a training step: random ones of all photos, or a patch of one (Sec. 4.2).

Pixels are integers (row, column) here; their rays go through (column + ½, row + ½).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Pixels(NamedTuple):
    """N pixels: `photo`, `row` and `column` (N,), integers."""

    photo: Tensor
    row: Tensor
    column: Tensor

    @property
    def centres(self) -> Tensor:
        """(N, 2) as (column, row), float."""
        return torch.stack([self.column, self.row], dim=-1) + 0.5


@dataclass(frozen=True)
class Patch:
    """The rows from `top` and columns from `left` of one photo, `height` × `width` pixels."""

    photo: int
    top: int
    left: int
    height: int
    width: int

    def pixels(self, device: torch.device | str = "cpu") -> Pixels:
        """All pixels, row by row, (height · width)."""
        row = torch.arange(self.top, self.top + self.height, device=device).repeat_interleave(self.width)
        column = torch.arange(self.left, self.left + self.width, device=device).repeat(self.height)
        return Pixels(torch.full_like(row, self.photo), row, column)

    def crop(self, picture: Tensor) -> Tensor:
        """This part of a picture (H, W, …)."""
        return picture[self.top : self.top + self.height, self.left : self.left + self.width]


def random_pixels(
    photos: Tensor, size: tuple[int, int], count: int, generator: torch.Generator | None = None
) -> Pixels:
    """`count` pixels, uniform over all `photos` (M,), which are indices, of `size` (height, width)."""
    height, width = size

    def below(most: int) -> Tensor:
        return torch.randint(most, (count,), generator=generator, device=photos.device)

    return Pixels(photos[below(len(photos))], below(height), below(width))


def patch_places(size: tuple[int, int], patch_size: int = 48, anchor_stride: int = 16) -> tuple[list[int], list[int]]:
    """The tops and the lefts that patches of a photo of `size` (height, width) may have.

    Anchors lie every `anchor_stride` pixels, border to border; a patch is centred on its anchor and then moved inside,
    so that every patch is whole and every pixel, corners too, lies in one.
    """
    if patch_size < 1 or anchor_stride < 1:
        raise ValueError(f"patch_size and anchor_stride must be 1 or more, found {patch_size} and {anchor_stride}")
    return _places(size[0], patch_size, anchor_stride), _places(size[1], patch_size, anchor_stride)


def _places(length: int, patch: int, stride: int) -> list[int]:
    last = max(length - patch, 0)
    anchors = [*range(0, length, min(stride, patch)), length - 1]
    return sorted({min(max(anchor - patch // 2, 0), last) for anchor in anchors})


def random_patch(
    photos: Tensor,
    size: tuple[int, int],
    patch_size: int = 48,
    anchor_stride: int = 16,
    generator: torch.Generator | None = None,
) -> Patch:
    """A random patch of a random one of `photos` (M,); the whole side of photos smaller than `patch_size`."""
    tops, lefts = patch_places(size, patch_size, anchor_stride)

    def one_of(values: list[int]) -> int:
        return values[int(torch.randint(len(values), (), generator=generator, device=photos.device))]

    photo = one_of(photos.tolist())
    return Patch(photo, one_of(tops), one_of(lefts), min(patch_size, size[0]), min(patch_size, size[1]))


def complete_pixels(patch: Patch, size: tuple[int, int], reach: float, device: torch.device | str = "cpu") -> Tensor:
    """(height, width) bool: the pixels of a patch to which nothing outside it can send light.

    `reach` is the distance in pixels at and beyond which a source sends none: the largest blur radius plus its soft rim
    (one pixel). Where the patch ends because the photo does, nothing is missing.
    """

    def along(first: int, count: int, length: int) -> Tensor:
        index = torch.arange(count, device=device)
        before = (index + 1 >= reach) | (first == 0)
        after = (count - index >= reach) | (first + count == length)
        return before & after

    return along(patch.top, patch.height, size[0])[:, None] & along(patch.left, patch.width, size[1])[None, :]
