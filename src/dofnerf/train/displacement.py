"""Where places of the scene are in its photos: how far each photo is displaced against what the scene shows through the
photo's lens.

Sharp features of a photo lie where it is in focus, at about one depth, where a shift of the camera looks like a
rotation. Once there are a scene and lenses, what is out of focus tells, too. In a Gaussian window about a place, a
photo P is the picture R that the scene shows, displaced by u (Lucas and Kanade):

    P − R ≈ −∇R · u + c

with c for each channel, which takes what the scene's colours get wrong. Least squares gives u, and how well each
direction of it is known. Bundle adjustment (`models.splat.start.bundle`) then moves cameras and places together: to fit
each camera to the scene as it is would confirm the errors that the scene has taken over.

**Held back.** A quarter of the pixels, in blocks, have windows of their own, by which the cameras found from all others
are judged.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models import View
from dofnerf.models.splat.start.bundle import Tracks
from dofnerf.train.registration import Target, held_back, weighed

_WINDOW = 3.0  # pixels: standard deviation of the windows
_FAR = 1e-12  # weight in a window that is as good as none
_RIM = 4  # pixels at the border in which there are no places
_SOLID, _THICK = 0.9, 0.03  # alpha of a place, and how far off in disparity (share of the range) it may be seen
_FARTHEST = 3.0  # pixels of displacement; beyond, a window has lost it
_SEVERAL, _MANY = 3, 32  # photos that show a place, at the least, and of which it is taken, at the most
_ALIKE = 3.0  # pixels whose errors are about the same
_QUIET = 0.004  # mean weighted square: residuals of a window are not trusted to be smaller
_FLAT = 1e-3, 1e-4  # of a window's curvature, and in all: for windows that know one direction, or none


def places(view: View, camera: Camera, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """(count, 3): places of the scene that a camera sees, at random pixels of its `view`; the camera's own place, which
    it does not see, instead of those where there is nothing."""
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(0, size, count) for size in view.disparity.shape)
    disparity, alpha = (part.double().cpu().numpy()[rows, columns] for part in (view.disparity, view.alpha))
    there = (disparity > 1e-6) & (alpha > _SOLID)
    depth = np.where(there, 1 / np.maximum(disparity, 1e-6), 0.0)
    return camera.unproject(np.stack([columns, rows], axis=1) + 0.5, depth)


def sightings(target: Target, view: View, camera: Camera, points: np.ndarray, span: float) -> np.ndarray:
    """(2, P, 5), of `points` (P, 3) in a photo, by the pixels that are used and by those held back: where they are
    found (column, row), and the `scale` of errors there (its entries xx, xy, yy; 0 for what is not seen), in standard
    deviations. `view` is the photo as the scene shows it; `span` is the range of disparities of the scene."""
    height, width = target.photo.shape[:2]
    pixels, depth = camera.project(points)
    columns, rows = np.floor(pixels).clip(-1, max(width, height)).astype(int).T
    seen = (depth > 0) & (columns >= _RIM) & (rows >= _RIM) & (columns < width - _RIM) & (rows < height - _RIM)
    at = rows.clip(0, height - 1), columns.clip(0, width - 1)
    here = view.disparity.double().cpu().numpy()[at]
    seen &= np.abs(here - 1 / np.where(seen, depth, 1.0)) < _THICK * span
    off, weight = weighed(view.image, target.photo, target.mask)
    if target.mask is not None:
        seen &= target.mask.cpu().numpy()[at] > 0
    held = held_back((height, width)).to(off.device)[..., None]
    share = min(1.0, height * width / (4 * np.pi * _WINDOW**2 * max(int(seen.sum()), 1))) / _ALIKE
    found = np.zeros((2, len(points), 5))
    for one, counts in zip(found, (~held, held), strict=True):
        sums = np.nan_to_num(_window_sums(view.image, -off, weight * counts)[at].double().cpu().numpy())
        one[:, :2], one[:, 2:] = _displacements(sums, share)
        tells = (sums[:, 0] + sums[:, 2] > _FLAT[1]) & (np.linalg.norm(one[:, :2], axis=1) < _FARTHEST)
        one[:, 2:] *= (seen & tells)[:, None]
        one[:, :2] += pixels
    return found


def tracks_of(points: np.ndarray, found: np.ndarray) -> Tracks:
    """What one of the sets of `sightings` in all photos (M, P, 5) is to bundle adjustment: places that several see."""
    seen = found[..., 2:].any(-1)
    rank, count = seen.cumsum(0), np.maximum(seen.sum(0), 1)  # of many, evenly spread ones
    seen &= rank * _MANY // count > (rank - 1) * _MANY // count
    photo, point = np.nonzero(seen & (seen.sum(0) >= _SEVERAL))
    scale = found[photo, point][:, [2, 3, 3, 4]].reshape(-1, 2, 2)
    places, point = np.unique(point, return_inverse=True)
    return Tracks(points[places], photo, point, found[photo, places[point], :2], scale)


def _window_sums(image: Tensor, more: Tensor, weight: Tensor) -> Tensor:
    """(H, W, 7): curvature (xx, xy, yy), right side (x, y), squares and weights about each pixel; `more` (H, W, 3) is
    the photo less the image."""
    x, y = torch.zeros_like(image), torch.zeros_like(image)
    x[:, 1:-1], y[1:-1] = (image[:, 2:] - image[:, :-2]) / 2, (image[2:] - image[:-2]) / 2
    terms = torch.ones_like(x), x, y, more, x * x, x * y, y * y, x * more, y * more, more * more
    planes = torch.stack([weight * one for one in terms]).permute(0, 3, 1, 2)
    down, across = (_window(size).to(image) for size in image.shape[:2])
    sums = down @ planes @ across
    total, x, y, r, xx, xy, yy, xr, yr, rr = sums
    least = total.clamp(min=1e-12)  # c of each channel is eliminated
    pairs = (xx, x, x), (xy, x, y), (yy, y, y), (xr, x, r), (yr, y, r), (rr, r, r)
    return torch.stack([*((both - a * b / least).sum(0) for both, a, b in pairs), total.sum(0)], dim=-1)


def _window(size: int) -> Tensor:
    """(size, size): the weights of a row of pixels in the windows about each. Far away they are 0: numbers near the
    least of float32 would make products with them eight times as slow on some processors."""
    places = torch.arange(size, dtype=torch.float32)
    weight = torch.exp(-0.5 * ((places[:, None] - places) / _WINDOW) ** 2)
    return torch.where(weight > _FAR, weight, 0.0)


def _displacements(sums: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """(P, 2) displacements and (P, 3) `scale`s of the sums of windows (P, 7); `share` of what they tell is new."""
    curvature = sums[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
    curvature = curvature + (_FLAT[0] * np.trace(curvature, axis1=1, axis2=2) + _FLAT[1])[:, None, None] * np.eye(2)
    found = -np.linalg.solve(curvature, sums[:, 3:5, None])[..., 0]
    left = sums[:, 5] + (sums[:, 3:5] * found).sum(1)
    usual = np.maximum(left / np.maximum(sums[:, 6], 1e-9), _QUIET)
    values, axes = np.linalg.eigh(curvature * (share / usual)[:, None, None])
    root = (axes * np.sqrt(values.clip(min=0))[:, None, :]) @ axes.transpose(0, 2, 1)
    return found, root.reshape(-1, 4)[:, [0, 1, 3]]
