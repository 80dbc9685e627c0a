"""Splats rotated as a whole, and their colours in linear light: what formats differ in besides their bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from dofnerf.files.ply import Splats
from dofnerf.files.splats import C0

_DIRECTIONS = 64  # on which harmonics are fitted: four times as many as there are harmonics
_FEW = 8192  # splats at a time
_SEEN = 8.0  # how narrow a camera's part of the sphere is: exp(−_SEEN) on the other side
_ELSEWHERE = 0.03  # weight of directions from which no camera looks
_C1, _C2, _C3 = 0.4886025119029199, 1.0925484305920792, 0.5900435899266435


def basis(directions: np.ndarray, count: int) -> np.ndarray:
    """The first `count` (1, 4, 9 or 16) real spherical harmonics of unit `directions` (…, 3) → (…, count)."""
    x, y, z = np.moveaxis(directions, -1, 0)
    xx, yy, zz = x * x, y * y, z * z
    values = [
        np.full_like(x, C0), -_C1 * y, _C1 * z, -_C1 * x,
        _C2 * x * y, -_C2 * y * z, 0.31539156525252005 * (2 * zz - xx - yy), -_C2 * x * z, 0.5 * _C2 * (xx - yy),
        -_C3 * y * (3 * xx - yy), 2.890611442640554 * x * y * z, -0.4570457994644658 * y * (4 * zz - xx - yy),
        0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy), -0.4570457994644658 * x * (4 * zz - xx - yy),
        1.445305721320277 * z * (xx - yy), -_C3 * x * (xx - 3 * yy),
    ]  # fmt: skip
    return np.stack(values[:count], axis=-1)


def matrix(quaternion: np.ndarray | tuple[float, ...]) -> np.ndarray:
    """The rotation (3, 3) of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    return Rotation.from_quat([x, y, z, w]).as_matrix()


def turn_between(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The shortest rotation from one direction to another, as a quaternion; half a turn is about x, or z."""
    old, new = old / np.linalg.norm(old), new / np.linalg.norm(new)
    quaternion = np.array([1 + old @ new, *np.cross(old, new)])
    if np.linalg.norm(quaternion) < 1e-3:
        axis = np.cross(old, [0.0, 0.0, 1.0]) if abs(old[0]) > 0.9 else np.array([1.0, 0.0, 0.0])
        axis = axis - (axis @ old) * old
        quaternion = np.array([0.0, *axis])
    return quaternion / np.linalg.norm(quaternion)


def turned(splats: Splats, quaternion: np.ndarray | tuple[float, ...]) -> Splats:
    """The splats rotated about the origin."""
    w, x, y, z = quaternion
    if abs(w) == 1:
        return splats
    rotation = matrix(quaternion)
    product = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    kinds = splats.harmonics.shape[1]
    some = _sphere()
    mixed = np.linalg.lstsq(basis(some @ rotation.T, kinds), basis(some, kinds), rcond=None)[0]
    return replace(
        splats,
        means=(splats.means @ rotation.T).astype(np.float32),
        rotations=(splats.rotations @ product.T).astype(np.float32),
        harmonics=np.einsum("ij,njc->nic", mixed, splats.harmonics).astype(np.float32),
    )


def in_linear_light(splats: Splats, eyes: np.ndarray | None = None) -> Splats:
    """The splats with harmonics that give linear light (sRGB's curve) instead of display values. The fit is by least
    squares over all directions, and closest where `eyes` (E, 3), places of cameras, look; of degree 0 it is exact."""
    return _recoloured(splats, _to_linear, eyes)


def in_display_values(splats: Splats) -> Splats:
    """The inverse."""
    return _recoloured(splats, _to_display, None)


def _recoloured(splats: Splats, curve: Callable[[np.ndarray], np.ndarray], eyes: np.ndarray | None) -> Splats:
    kinds = splats.harmonics.shape[1]
    directions = np.zeros((1, 3)) if kinds == 1 else _sphere()
    known = basis(directions, kinds).astype(np.float32)
    if eyes is not None:
        eyes = eyes[:: max(1, len(eyes) // 24)]
    harmonics = np.empty_like(splats.harmonics)
    for first in range(0, len(splats), _FEW):
        some = slice(first, first + _FEW)
        shown = np.einsum("kb,nbc->nkc", known, splats.harmonics[some]) + 0.5
        wanted = curve(np.maximum(shown, 0)) - 0.5
        if eyes is None or kinds == 1:
            harmonics[some] = np.einsum("bk,nkc->nbc", np.linalg.pinv(known), wanted)
            continue
        ahead = splats.means[some, None] - eyes[None]
        ahead /= np.maximum(np.linalg.norm(ahead, axis=-1, keepdims=True), 1e-12)
        weights = _ELSEWHERE + np.exp(_SEEN * (np.einsum("nec,kc->nek", ahead, directions) - 1)).mean(1)
        normal = np.einsum("kb,nk,kd->nbd", known, weights, known, optimize=True)
        harmonics[some] = np.linalg.solve(normal, np.einsum("kb,nk,nkc->nbc", known, weights, wanted, optimize=True))
    return replace(splats, harmonics=harmonics)


def _sphere() -> np.ndarray:
    """Directions evenly over the sphere: a Fibonacci spiral."""
    at = np.arange(_DIRECTIONS) + 0.5
    z, angle = 1 - 2 * at / _DIRECTIONS, at * np.pi * (1 + 5**0.5)
    return np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=-1)


def _to_linear(display: np.ndarray) -> np.ndarray:
    return np.where(display <= 0.04045, display / 12.92, ((np.maximum(display, 0.04045) + 0.055) / 1.055) ** 2.4)


def _to_display(linear: np.ndarray) -> np.ndarray:
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055)
