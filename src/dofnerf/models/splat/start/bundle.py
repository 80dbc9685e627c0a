"""Bundle adjustment: cameras and sparse points moved a little, together, so that the points fall on their features.

Poses that somebody brings may be off by a pixel, and a plane sweep and all that follows would inherit it. Gauss-Newton
on the reprojection errors with Cauchy weights; points are eliminated (Schur complement). Each camera is held to the
given one by `_OFF` pixels: what features say little about, such as a shift with a rotation against it, stays as given.
A focal length may change as well: that of a lens changes with its focus ("breathing"), and files often give one for
all photos. The mean of all stays as given: photos hardly tell it from the depth of the scene.

Features are those of the photos at the start, and places of the scene once there is one (`train.displacement`).

**Held back.** Some tracks have no part in it: one in five, unless others are given to judge by. Cameras move only if
these tracks, each triangulated anew, then fit clearly better, and focal lengths change only if that makes them fit
better still: on cameras that are right already the adjustment would only add noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from dofnerf.camera import Camera, motion, moved, zoomed

_OFF = 0.35  # pixels of the photo by which a given camera may be off, a standard deviation
_SOFT = 0.35  # pixels of the photo: a feature so far off counts half
_NEAR = 0.1  # quantile of the features' depths at which a shift counts in pixels
_STRAYS = 0.01  # of the cameras' spread: the most by which a place may be off, a standard deviation along each axis
_ROUNDS, _TRIANGULATION = 8, 5
_DONE = 0.01  # of what a camera may be off: after smaller steps there are no more rounds
_EVERY, _FEWEST = 5, 20  # tracks for one that is held back; held-back tracks without which cameras stay
_WORTH = 0.005  # of the error of held-back tracks, which other cameras must take away
_ZOOMS = 0.01  # share by which focal lengths may be off, a standard deviation
_CHANCE = 3.0  # standard errors by which held-back tracks must fit better than that
_SURE = 2.0  # standard deviations: a feature whose own are known, so far off, counts half


class Free(NamedTuple):
    """What of the cameras may change."""

    poses: bool
    focal: bool


NOTHING, POSES = Free(False, False), Free(True, False)


class Tracks(NamedTuple):
    """`points` (P, 3); N features: the number of their `photo` (N,) and `point` (N,), and `pixels` (N, 2). Where
    features are not all alike, `scale` (N, 2, 2) makes standard deviations of their errors."""

    points: np.ndarray
    photo: np.ndarray
    point: np.ndarray
    pixels: np.ndarray
    scale: np.ndarray | None = None

    def of(self, which: np.ndarray) -> Tracks:
        """With some of the features (N,) bool."""
        scale = None if self.scale is None else self.scale[which]
        return Tracks(self.points, self.photo[which], self.point[which], self.pixels[which], scale)


def adjusted(
    cameras: Sequence[Camera], tracks: Tracks, enlarged: float, free: Free = POSES, judges: Tracks | None = None
) -> tuple[list[Camera], np.ndarray, str]:
    """The cameras and points after adjustment, and a sentence about it; as they were, and no words, if it does not pay.

    `cameras` and features are those of photos that were `enlarged` by a factor, in which errors are measured.
    """
    given, held = list(cameras), tracks.point % _EVERY == 0
    some, judges = (tracks, judges) if judges is not None else (tracks.of(~held), tracks.of(held))
    if min(len(np.unique(one.point)) for one in (some, judges)) < _FEWEST or len(given) < 3:
        return given, tracks.points, ""

    def tried(free: Free) -> tuple[list[Camera], np.ndarray, np.ndarray]:
        found = _adjust(given, some, enlarged, free) if any(free) else (given, tracks.points)
        return *found, _held_back_errors(found[0], judges, enlarged)

    as_given, posed = tried(NOTHING), tried(Free(free.poses, False))
    taken, best = (POSES, posed) if _pays(posed[2], as_given[2], judges.point) else (NOTHING, as_given)
    if free.focal:
        zoomed_too = tried(more := Free(taken.poses, True))
        if _pays(zoomed_too[2], best[2], judges.point):
            taken, best = more, zoomed_too
    if not any(taken):
        return given, tracks.points, ""
    found, points = best[:2] if some is tracks else _adjust(given, tracks, enlarged, taken)
    what = {(True, False): "cameras moved", (True, True): "cameras and focal lengths moved"}
    was, now = (_SOFT * float(np.median(error)) for *_, error in (as_given, best))
    off = f"off by {was:.2f} px before, {now:.2f} px now"
    return found, points, f"{what.get(taken, 'focal lengths changed')} to fit {len(points)} points: {off}"


def reprojection_errors(cameras: Sequence[Camera], tracks: Tracks) -> np.ndarray:
    """(P,): each point's mean distance in pixels from its features; infinite for one without."""
    off = np.linalg.norm(_linear(cameras, tracks).off, axis=1)
    count = np.bincount(tracks.point, minlength=len(tracks.points))
    total = np.bincount(tracks.point, off, minlength=len(tracks.points))
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)


class _Linear(NamedTuple):
    """Of N features: `off` (N, 2), and the slopes of what is projected by the camera's motion (N, 2, 7), in its axes
    (right, down, forward), last by the logarithm of its focal length, and by the point's (N, 2, 3), in world axes."""

    off: np.ndarray
    by_camera: np.ndarray
    by_point: np.ndarray


def _linear(cameras: Sequence[Camera], tracks: Tracks) -> _Linear:
    axes = np.stack([camera.camera_to_world[:, :3] * [1, -1, -1] for camera in cameras])[tracks.photo]
    places = np.stack([camera.position for camera in cameras])[tracks.photo]
    fx, fy, cx, cy = np.array([(c.fx, c.fy, c.cx, c.cy) for c in cameras])[tracks.photo].T
    local = np.einsum("ni,nij->nj", tracks.points[tracks.point] - places, axes)
    deep = np.where(np.abs(local[:, 2]) < 1e-9, 1e-9, local[:, 2])
    x, y, d, none = local[:, 0] / deep, local[:, 1] / deep, 1 / deep, np.zeros_like(deep)
    off = tracks.pixels - np.stack([fx * x + cx, fy * y + cy], axis=1)
    across = fx[:, None] * np.stack([x * y, -1 - x * x, y, -d, none, x * d, x], axis=1)
    down = fy[:, None] * np.stack([1 + y * y, -x * y, -x, none, -d, y * d, y], axis=1)
    by_local = np.stack([fx * np.stack([d, none, -x * d]), fy * np.stack([none, d, -y * d])], axis=0)
    return _Linear(off, np.stack([across, down], axis=1), np.einsum("ijn,nkj->nik", by_local, axes))


def _weighed(cameras: Sequence[Camera], tracks: Tracks, enlarged: float) -> tuple[_Linear, np.ndarray]:
    """The same in units of an error that counts half, and the weights of the features (N,)."""
    found = _linear(cameras, tracks)
    if tracks.scale is None:
        found = _Linear(*(part / (enlarged * _SOFT) for part in found))
    else:
        scale = tracks.scale / _SURE
        found = _Linear(np.einsum("nij,nj->ni", scale, found.off), scale @ found.by_camera, scale @ found.by_point)
    return found, 1 / (1 + (found.off**2).sum(1))


def _adjust(given: list[Camera], tracks: Tracks, enlarged: float, free: Free) -> tuple[list[Camera], np.ndarray]:
    cameras, (n, m) = given, (len(given), len(tracks.points))
    photo, point = tracks.photo, tracks.point
    angle = enlarged * _OFF / float(np.mean([camera.fx for camera in given]))
    places = np.stack([camera.position for camera in given])
    spread = float(np.sqrt(((places - places.mean(0)) ** 2).sum(1).mean()))
    place = max(min(angle * float(np.quantile(_depths(given, tracks), _NEAR)), _STRAYS * spread), 1e-9 * spread)
    loose = np.where(np.repeat(free, (6, 1)), 1.0, 1e-12)
    may = np.array([*[angle] * 3, *[place] * 3, _ZOOMS])
    hold = 1 / (loose * may**2)
    for _ in range(_ROUNDS):
        (off, by_camera, by_point), weight = _weighed(cameras, tracks, enlarged)
        of_cameras, right_cameras = _normal(weight, by_camera, off, photo, n)
        of_points, right_points = _normal(weight, by_point, off, point, m)
        axes = [camera.camera_to_world[:, :3] * [1, -1, -1] for camera in cameras]
        for k, camera in enumerate(cameras):
            turn, shift = motion(given[k], camera)
            zoom = np.log(camera.fx / given[k].fx)
            right_cameras[k] -= hold * np.concatenate([axes[k].T @ turn, axes[k].T @ shift, [zoom]])
            of_cameras[k] += np.diag(hold)
        inverse = np.linalg.inv(_damped(of_points))
        shared = (weight[:, None, None] * by_camera).transpose(0, 2, 1) @ by_point
        both, halfway = (_blocks(one, photo, point, (n, m)) for one in (shared, shared @ inverse[point]))
        if 2 * both.nnz > both.shape[0] * both.shape[1]:  # most photos see most points
            both, halfway = both.toarray(), halfway.toarray()
        reduced = halfway @ both.T
        whole = _blocks(of_cameras, np.arange(n), np.arange(n), (n, n)).toarray()
        whole -= reduced if isinstance(reduced, np.ndarray) else reduced.toarray()
        steps = np.linalg.solve(whole, right_cameras.ravel() - halfway @ right_points.ravel()).reshape(n, 7)
        steps[:, 6] -= steps[:, 6].mean()
        left = right_points - (both.T @ steps.ravel()).reshape(m, 3)
        tracks = tracks._replace(points=tracks.points + np.einsum("mab,mb->ma", inverse, left))
        if free.poses:
            cameras = [moved(c, a @ step[:3], a @ step[3:6]) for c, a, step in zip(cameras, axes, steps, strict=True)]
        if free.focal:
            cameras = [zoomed(camera, float(np.exp(step[6]))) for camera, step in zip(cameras, steps, strict=True)]
        if (np.abs(steps) < _DONE * may).all():
            break
    return cameras, tracks.points


def _pays(errors: np.ndarray, others: np.ndarray, point: np.ndarray) -> bool:
    """Whether errors of features (N,) are less than others by more than `_WORTH` of them, and that not by chance:
    robust means, each point an observation."""
    count = np.bincount(point)
    was, now = (np.bincount(point, np.log1p(one**2))[count > 0] / count[count > 0] for one in (others, errors))
    gain = was - now
    return float(gain.mean() - _WORTH * was.mean()) > _CHANCE * float(gain.std()) / np.sqrt(len(gain))


def _held_back_errors(cameras: list[Camera], tracks: Tracks, enlarged: float) -> np.ndarray:
    """The errors of features (N,), in units of one that counts half, after their points were triangulated anew."""
    for _ in range(_TRIANGULATION):
        (off, _, by_point), weight = _weighed(cameras, tracks, enlarged)
        normal, right = _normal(weight, by_point, off, tracks.point, len(tracks.points))
        steps = np.einsum("mab,mb->ma", np.linalg.inv(_damped(normal)), right)
        tracks = tracks._replace(points=tracks.points + steps)
    return np.linalg.norm(_weighed(cameras, tracks, enlarged)[0].off, axis=1)


def _normal(
    weight: np.ndarray, slopes: np.ndarray, off: np.ndarray, which: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Normal matrices (count, a, a) and right sides (count, a) of least squares: N features with `slopes` (N, 2, a)
    and `off` (N, 2), each of the unknowns `which` (N,)."""
    weighed = (weight[:, None, None] * slopes).transpose(0, 2, 1)
    found = weighed @ np.concatenate([slopes, off[:, :, None]], axis=2)
    belongs = sparse.csr_matrix((np.ones(len(which)), which, np.arange(len(which) + 1)), shape=(len(which), count))
    sums = (belongs.T @ found.reshape(len(which), -1)).reshape(count, *found.shape[1:])  # np.add.at is far slower
    return sums[:, :, :-1], sums[:, :, -1]


def _depths(cameras: Sequence[Camera], tracks: Tracks) -> np.ndarray:
    places = np.stack([camera.position for camera in cameras])[tracks.photo]
    forward = np.stack([camera.forward for camera in cameras])[tracks.photo]
    return ((tracks.points[tracks.point] - places) * forward).sum(1)


def _damped(normal: np.ndarray) -> np.ndarray:
    """(M, 3, 3) that can be inverted, also where two rays are almost parallel."""
    return normal + (1e-3 / 3 * np.trace(normal, axis1=1, axis2=2) + 1e-9)[:, None, None] * np.eye(3)


def _blocks(values: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Blocks (N, a, b) at places of a sparse matrix of shape[0] × shape[1] blocks; those at one place add up."""
    _, a, b = values.shape
    at_row = a * rows[:, None, None] + np.arange(a)[:, None] + np.zeros(b, dtype=int)
    at_column = b * columns[:, None, None] + np.arange(b) + np.zeros((a, 1), dtype=int)
    size = a * shape[0], b * shape[1]
    return sparse.coo_matrix((values.ravel(), (at_row.ravel(), at_column.ravel())), shape=size).tocsr()
