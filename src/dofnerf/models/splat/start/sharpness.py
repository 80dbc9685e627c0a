"""How sharp a photo is at each place: the mean square of its second difference."""

from __future__ import annotations

import numpy as np

_HALF = 3  # a window of 7 pixels
_NOISE = 1e-5  # what a flat grey wall has; below it nobody is sharper than anybody else


def local_sharpness(grey: np.ndarray) -> np.ndarray:
    """Grey (V, H, W) → sharpness (V, H, W) float32, positive."""
    edge = np.pad(grey, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = edge[:, :-2, 1:-1] + edge[:, 2:, 1:-1] + edge[:, 1:-1, :-2] + edge[:, 1:-1, 2:]
    return (box_mean((around / 4 - grey) ** 2, _HALF) + _NOISE).astype(np.float32)


def box_mean(values: np.ndarray, half: int) -> np.ndarray:
    """Mean over windows of 2·half + 1 pixels of (V, H, W), the border continued."""
    for axis in (1, 2):
        widths = [(0, 0)] * 3
        widths[axis] = (half + 1, half)
        sums = np.cumsum(np.pad(values, widths, mode="edge"), axis=axis, dtype=np.float64)
        size = values.shape[axis]
        high = np.take(sums, np.arange(2 * half + 1, 2 * half + 1 + size), axis=axis)
        values = (high - np.take(sums, np.arange(size), axis=axis)) / (2 * half + 1)
    return values
