"""Sparse points → a dense disparity map that follows the photo's edges.

Structure-from-motion leaves a disparity m_i at a few hundred pixels p_i of a photo. The map d sought is the one that
minimises

    Σ_i c_i (d(p_i) − m_i)²  +  Σ_{neighbours p, q} w_pq (d_p − d_q)²
    w_pq = floor + (1 − floor) exp(−|I_p − I_q|² / 2σ²)

so it keeps to the points, is smooth where the photo is, and is free to jump where the colour does. Disparity, not
depth: blur is linear in it. The points' confidence c_i falls with their reprojection error, and in a second and third
round with how far the map stays from them (Cauchy's weight): a wrong match does not drag the map along. The minimum
lies between the least and the greatest disparity of the points, so nothing overshoots.

The linear system is solved by conjugate gradients, started from the solution at half the size (and so on), which
carries values across empty regions in few iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.scenes.source import resize

COARSEST = 12  # pixels along the shorter side at which the pyramid ends
MANY_ITERATIONS = 200
DOUBTFUL = 0.1  # × the points' range: a residual that halves a point's confidence


@dataclass(frozen=True)
class Guide:
    """How the photo steers the map."""

    sigma: float = 0.035
    """Colour difference (display values) that counts as an edge."""
    floor: float = 0.002
    """What smoothness is left across the hardest edge: regions without points take their neighbours' disparity through
    it."""
    confidence: float = 4.0
    """Weight of a point against the smoothness to one neighbour pixel."""
    rounds: int = 3
    """Solutions at the finest size, each with less weight on points with a large residual in the last."""


GUIDE = Guide()


def interpolate(
    image: np.ndarray, pixels: np.ndarray, values: np.ndarray, error: np.ndarray, guide: Guide = GUIDE
) -> np.ndarray:
    """Photo (H, W, 3), pixels (N, 2) as (column, row), values (N,) and error (N,) in pixels there → (H, W) float32."""
    if len(values) < 3:
        raise ValueError(f"{len(values)} points are too few for a disparity map")
    trust = guide.confidence / (1 + error.astype(np.float64) ** 2)
    scale = max(float(np.ptp(np.percentile(values, [2, 98]))), 1e-12)
    sizes = [image.shape[:2]]
    while min(sizes[-1]) >= 2 * COARSEST:
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    solution = np.full(sizes[-1], np.average(values, weights=trust))
    for size in reversed(sizes):
        solution = _enlarged(solution, size)
        edges = _edge_weights(resize(image, size[1], size[0]), guide)
        cells = _cells(pixels, image.shape[:2], size)
        doubt = np.ones_like(trust)
        for _ in range(guide.rounds if size == sizes[0] else 1):
            solution = _solve(solution, edges, *_gather(cells, trust * doubt, values, size))
            residual = np.abs(solution.reshape(-1)[cells] - values)
            doubt = 1 / (1 + (residual / (DOUBTFUL * scale)) ** 2)
    return solution.astype(np.float32)


def _cells(pixels: np.ndarray, full: tuple[int, ...], size: tuple[int, ...]) -> np.ndarray:
    """The flat index of the pixel that each point falls into at this size."""
    column = np.clip((pixels[:, 0] * size[1] / full[1]).astype(np.int64), 0, size[1] - 1)
    row = np.clip((pixels[:, 1] * size[0] / full[0]).astype(np.int64), 0, size[0] - 1)
    return row * size[1] + column


def _gather(
    cells: np.ndarray, trust: np.ndarray, values: np.ndarray, size: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and confidence × value of each pixel, (H, W) each."""
    count = size[0] * size[1]
    return (
        np.bincount(cells, trust, minlength=count).reshape(size),
        np.bincount(cells, trust * values, minlength=count).reshape(size),
    )


def _edge_weights(image: np.ndarray, guide: Guide) -> tuple[np.ndarray, np.ndarray]:
    """w between each pixel and the one below (H − 1, W), and the one to the right (H, W − 1)."""

    def weight(difference: np.ndarray) -> np.ndarray:
        likeness = np.exp(-(difference.astype(np.float64) ** 2).sum(-1) / (2 * guide.sigma**2))
        return guide.floor + (1 - guide.floor) * likeness

    return weight(np.diff(image, axis=0)), weight(np.diff(image, axis=1))


def _solve(start: np.ndarray, edges: tuple[np.ndarray, np.ndarray], data: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Conjugate gradients with the diagonal as preconditioner on (data + Laplacian) d = target."""
    down, right = edges
    diagonal = data.copy()
    diagonal[:-1] += down
    diagonal[1:] += down
    diagonal[:, :-1] += right
    diagonal[:, 1:] += right

    def apply(d: np.ndarray) -> np.ndarray:
        out = data * d
        flow = down * (d[1:] - d[:-1])
        out[:-1] -= flow
        out[1:] += flow
        flow = right * (d[:, 1:] - d[:, :-1])
        out[:, :-1] -= flow
        out[:, 1:] += flow
        return out

    d = start.copy()
    residual = target - apply(d)
    step = residual / diagonal
    energy = float((residual * step).sum())
    enough = 1e-9 * max(float((target**2 / diagonal).sum()), 1e-30)
    for _ in range(MANY_ITERATIONS):
        if energy <= enough:
            break
        bent = apply(step)
        along = energy / float((step * bent).sum())
        d += along * step
        residual -= along * bent
        conditioned = residual / diagonal
        last, energy = energy, float((residual * conditioned).sum())
        step = conditioned + (energy / last) * step
    return d


def _enlarged(values: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Bilinear, from a map of half the size or of the same."""
    height, width = values.shape
    if (height, width) == tuple(size):
        return values
    rows = np.clip((np.arange(size[0]) + 0.5) / 2 - 0.5, 0, height - 1)
    columns = np.clip((np.arange(size[1]) + 0.5) / 2 - 0.5, 0, width - 1)
    top, left = rows.astype(int), columns.astype(int)
    bottom, far = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    values = values[top] + (rows - top)[:, None] * (values[bottom] - values[top])
    return values[:, left] + (columns - left) * (values[:, far] - values[:, left])
