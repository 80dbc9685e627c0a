"""Which photos are compared with which: all pairs of a few; of many, those beside each other and those that look
alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from PIL import Image

EXHAUSTIVE = 80  # up to so many photos every pair is matched
BESIDE = 8  # neighbours in order, on each side; then every 16th, 32nd …
ALIKE = 12  # photos that look most alike, by their tiny copies
_TINY = 24  # pixels along a side of those


def choose_pairs(files: Sequence[Path], exhaustive: int = EXHAUSTIVE) -> list[tuple[int, int]]:
    """Pairs of indices into `files`, the smaller first, without doubles."""
    count = len(files)
    if count <= exhaustive:
        return list(combinations(range(count), 2))
    steps = [*range(1, BESIDE + 1), *(2**power for power in range(4, 30) if 2**power < count)]
    pairs = {(i, i + step) for i in range(count) for step in steps if i + step < count}
    alike = most_alike(np.stack([_tiny(file) for file in files]), ALIKE)
    pairs |= {(min(i, int(j)), max(i, int(j))) for i, row in enumerate(alike) for j in row}
    return sorted(pairs)


def most_alike(tiny: np.ndarray, count: int) -> np.ndarray:
    """For each of N vectors (N, D) of length 1 the numbers (N, count) of those most like it, itself left out."""
    likeness = tiny @ tiny.T
    np.fill_diagonal(likeness, -np.inf)
    return np.argsort(-likeness, axis=1)[:, :count]


def _tiny(file: Path) -> np.ndarray:
    with Image.open(file) as picture:
        grey = np.asarray(picture.convert("L").resize((_TINY, _TINY), Image.Resampling.BOX), dtype=np.float64).ravel()
    grey -= grey.mean()
    return grey / (np.linalg.norm(grey) + 1e-9)
