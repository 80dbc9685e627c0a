"""Compare camera poses up to a similarity: structure from motion knows neither place, direction nor scale."""

from __future__ import annotations

import numpy as np


def align(found: np.ndarray, true: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """(scale, turn (3, 3), shift (3,)) that bring points `found` (N, 3) nearest to `true`: scale · turn · x + shift."""
    middle, target = found.mean(axis=0), true.mean(axis=0)
    a, b = found - middle, true - target
    u, spread, vt = np.linalg.svd(b.T @ a)
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    turn = u * sign @ vt
    scale = float((spread * sign).sum() / (a * a).sum())
    return scale, turn, target - scale * turn @ middle
