"""What a run gained over its own photos, where there are no sharp ones to compare with: detail where a photo is
blurred, agreement with it through the lens that was found; and how sure the run can be of what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dofnerf.camera import Camera
from dofnerf.evaluate.comparison import Box, box_of_most
from dofnerf.evaluate.metrics import psnr
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Scene
from dofnerf.scenes.source import resize
from dofnerf.train import Run

BLURRED, IN_FOCUS = 2.0, 1.0  # pixels of blur radius: more is blurred, less is in focus
_WIDE = 640  # pixels across, at most, at which photos are compared, and half of that for what other photos see
_MOST, _FEW = 48, 8  # photos that are compared, and of models that are slow to draw
_FEWEST = 0.005  # share of a photo's pixels that makes a region
_HIDES = 0.03  # of a disparity: how much nearer something must be that hides a place


class Gain(NamedTuple):
    """Of training photo `number` (among all views): the share that is `blurred`; how many times as much `detail` the
    sharp render has there; the `agreement` of the render as shot with the photo, dB; and where most was won."""

    number: int
    blurred: float
    detail: float
    agreement: float
    box: Box


def measure_gains(run: Run, scene: Scene) -> list[Gain]:
    """Of training photos, evenly chosen where they are many, those that gained most first; none without a lens."""
    found, lenses = [], run.lenses
    for k in range(0, len(lenses), -(-len(lenses) // (_MOST if run.model.is_quick else _FEW)) or 1):
        i, lens = scene.train[k], lenses[k]
        whole = scene.camera(i)
        camera = whole.resized(min(whole.width, _WIDE))
        photo = scene.shrunk(i, camera.width, camera.height)
        view, shot = run.render(run.learner.quantities.camera(camera, k)), run.as_shot(k, camera)
        sharp = run.learner.quantities.develop(view.image, k).detach().clamp(0, 1).cpu().numpy()
        counts = scene.mask(i)
        counts = np.ones(photo.shape[:2], bool) if counts is None else resize(counts, camera.width, camera.height)
        radius = _radius(lens.scaled(camera.width / whole.width), view.disparity.cpu().numpy())
        where = (radius > BLURRED * camera.width / whole.width) & counts
        more = np.where(where, _energy(sharp) - _energy(photo), 0.0)
        enough = where.mean() > _FEWEST
        detail = float(_energy(sharp)[where].sum() / max(_energy(photo)[where].sum(), 1e-12)) if enough else 1.0
        box = Box(*(round(edge * whole.width / camera.width) for edge in box_of_most(more)))
        agreement = psnr(shot.image.clamp(0, 1).cpu().numpy(), photo, counts)
        found.append(Gain(i, float(where.mean()), detail, agreement, box))
    return sorted(found, key=lambda one: -one.blurred * np.log(max(one.detail, 1e-3)))


def uncertainty_pictures(run: Run, scene: Scene, views: Sequence[int]) -> list[np.ndarray]:
    """Small sharp renders (h, w, 3) of views in grey: orange where no photo shows it in focus, red where at most one
    sees it."""
    width = min(scene.size[0], _WIDE // 2)
    height = max(1, round(scene.size[1] * width / scene.size[0]))
    cameras = [scene.camera(k).resized(width, height) for k in scene.train]
    disparities = [run.render(camera).disparity.cpu().numpy() for camera in cameras]
    drawn = []
    for i in views:
        camera = scene.camera(i).resized(width, height)
        shown = run.render(camera)
        seen, focused = sightings(run, scene, (camera, shown.disparity.cpu().numpy()), cameras, disparities)
        grey = shown.image.detach().clamp(0, 1).mean(-1, keepdim=True).cpu().numpy().repeat(3, axis=-1)
        for where, colour in ((focused == 0, (0.93, 0.6, 0.2)), (seen <= 1, (0.85, 0.15, 0.2))):
            grey = np.where(where[..., None], 0.45 * grey + 0.55 * np.array(colour), grey)
        drawn.append(grey.astype(np.float32))
    return drawn


def sightings(
    run: Run,
    scene: Scene,
    here: tuple[Camera, np.ndarray],
    cameras: Sequence[Camera],
    disparities: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel of a view, of a camera and with a disparity (h, w), how many training photos see that place, and
    how many of them in focus, (h, w) both; `cameras` and `disparities` are theirs, of the same size."""
    camera, disparity = here
    height, width = disparity.shape
    rows, columns = np.mgrid[:height, :width] + 0.5
    pixels = np.stack([columns.ravel(), rows.ravel()], axis=-1)
    points = camera.unproject(pixels, 1 / np.maximum(disparity.ravel(), 1e-9))
    seen, focused = np.zeros(len(points), int), np.zeros(len(points), int)
    lenses: Sequence[Lens | None] = run.lenses or [None] * len(cameras)
    for k, (camera, disparity, lens) in enumerate(zip(cameras, disparities, lenses, strict=True)):
        at, depth = camera.project(points)
        inside = (depth > 0) & (at >= 0).all(1) & (at < (width, height)).all(1)
        column, row = at[inside].astype(int).T
        visible = disparity[row, column] < (1 + _HIDES) / depth[inside]
        if (mask := scene.mask(scene.train[k])) is not None:
            visible &= resize(mask, width, height)[row, column]
        seen[inside] += visible
        if lens is not None:
            sharp = np.abs(lens.coc_radius(depth[inside])) <= IN_FOCUS
            focused[inside] += visible & sharp
    shape = height, width
    return seen.reshape(shape), (focused if run.lenses else seen).reshape(shape)


def _radius(lens: Lens, disparity: np.ndarray) -> np.ndarray:
    return np.abs(lens.coc_radius_from_disparity(disparity))


def _energy(picture: np.ndarray) -> np.ndarray:
    """(H, W): squared differences between neighbours."""
    grey = picture.mean(-1)
    return np.diff(grey, axis=1, append=grey[:, -1:]) ** 2 + np.diff(grey, axis=0, append=grey[-1:]) ** 2
