"""PSNR and SSIM of two pictures with values 0..1, over all pixels or those of a mask.

SSIM is that of Wang et al. 2004 with their Gaussian window (11 pixels, sigma 1.5), a channel at a time, over the
windows that lie wholly within the picture: scikit-image's `structural_similarity(gaussian_weights=True,
use_sample_covariance=False)`.
"""

from __future__ import annotations

import math

import numpy as np

WINDOW, SIGMA = 11, 1.5  # pixels
_C1, _C2 = 0.01**2, 0.03**2


def psnr(image: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None) -> float:
    """In dB, of (H, W, 3) pictures, over the pixels of `mask` (H, W) if there is one; NaN if it is empty."""
    squares = np.square(np.clip(image, 0, 1).astype(np.float64) - truth)
    if mask is not None:
        squares = squares[mask]
    return -10 * math.log10(max(float(squares.mean()), 1e-12)) if squares.size else math.nan


def ssim(image: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Mean over the windows, or over those whose centre is in `mask` (H, W); NaN if there are none."""
    found = ssim_map(image, truth)
    if mask is not None:
        rim = WINDOW // 2
        found = found[mask[rim:-rim, rim:-rim]]
    return float(found.mean()) if found.size else math.nan


def ssim_map(image: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(H − 10, W − 10): each window's mean over the channels of (H, W, 3) pictures."""
    if min(image.shape[:2]) < WINDOW:
        raise ValueError(f"SSIM needs {WINDOW} pixels each way, found {image.shape[1]}×{image.shape[0]}")
    x, y = np.clip(image, 0, 1).astype(np.float64), truth.astype(np.float64)
    mean_x, mean_y = _windowed(x), _windowed(y)
    var_x, var_y = _windowed(x * x) - mean_x**2, _windowed(y * y) - mean_y**2
    both = _windowed(x * y) - mean_x * mean_y
    likeness = (2 * mean_x * mean_y + _C1) * (2 * both + _C2)
    return (likeness / ((mean_x**2 + mean_y**2 + _C1) * (var_x + var_y + _C2))).mean(-1)


def _windowed(values: np.ndarray) -> np.ndarray:
    """Weighted means (H − 10, W − 10, C) of the windows of (H, W, C)."""
    offsets = np.arange(WINDOW) - WINDOW // 2
    weights = np.exp(-0.5 * (offsets / SIGMA) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        length = values.shape[axis] - WINDOW + 1
        values = sum(w * values.take(range(k, k + length), axis) for k, w in enumerate(weights))
    return values
