"""An independent oracle for blur: real rays through many points of a real lens, onto textured planes that face the
camera.

No circle of confusion anywhere: a ray leaves a point of the lens, passes through the point of the focal plane that its
pixel images, and takes the colour of the first plane that it meets. NumPy only; nothing of dofnerf is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FOCAL_PX = 200.0


@dataclass(frozen=True)
class Plane:
    """A plane at `depth`: `texture(x, y)` → linear light (…, 3), `covers(x, y)` → whether it is there; x, y in scene
    units."""

    depth: float
    texture: Callable[[np.ndarray, np.ndarray], np.ndarray]
    covers: Callable[[np.ndarray, np.ndarray], np.ndarray]


def lens_points(count: int, blades: int = 0, rotation: float = 0.0) -> np.ndarray:
    """`count` or so points (N, 2), x right and y up, spread evenly over a lens of radius 1 (a spiral), cut to the
    blades."""
    index = np.arange(count) + 0.5
    radius, angle = np.sqrt(index / count), index * np.pi * (3 - np.sqrt(5))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    if blades:
        normal = rotation + (np.arange(blades) + 0.5) * 2 * np.pi / blades
        sides = points @ np.stack([np.cos(normal), np.sin(normal)])
        points = points[(sides <= np.cos(np.pi / blades)).all(axis=-1)]
    return points


def pixel_rays(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions x/z and y/z (y up) of the pixel centres, (H, W) each."""
    column, row = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    return (column - width / 2) / FOCAL_PX, -(row - height / 2) / FOCAL_PX


def photograph(
    planes: list[Plane], size: tuple[int, int], lens_radius: float, focus: float, points: np.ndarray
) -> np.ndarray:
    """The photo (H, W, 3) in linear light, planes sorted from near to far."""
    x, y = pixel_rays(*size)
    total = np.zeros((*size, 3))
    for px, py in points * lens_radius:
        colour = np.zeros_like(total)
        open_ = np.ones(size, dtype=bool)
        for plane in planes:
            # From (px, py, 0) through (x, y, 1)·focus, as far as z = plane.depth.
            t = plane.depth / focus
            at_x, at_y = px + t * (x * focus - px), py + t * (y * focus - py)
            hit = open_ & plane.covers(at_x, at_y)
            colour[hit] = plane.texture(at_x[hit], at_y[hit])
            open_ &= ~hit
        total += colour
    return total / len(points)


def layer_of(plane: Plane, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """What a pinhole sees of one plane alone: linear light (H, W, 3) and coverage (H, W)."""
    x, y = pixel_rays(*size)
    return plane.texture(x * plane.depth, y * plane.depth), plane.covers(x * plane.depth, y * plane.depth).astype(float)


def waves(seed: int, depth: float, shortest: float = 7.0, tint: tuple[float, float, float] = (1, 1, 1)) -> Callable:
    """A random smooth texture for a plane at `depth`, its shortest wave `shortest` pixels long in the picture.

    Drawn once on a grid of an eighth of a pixel, 320 pixels square, and looked up at the nearest point.
    """
    rng = np.random.default_rng(seed)
    fine, side = 8, 320
    low = rng.uniform(-1, 1, (3, int(side / shortest * 2), int(side / shortest * 2)))
    wide = np.fft.fftshift(np.fft.fft2(low), axes=(-2, -1))
    full = np.zeros((3, side * fine, side * fine), dtype=complex)
    first = (side * fine - low.shape[1]) // 2
    full[:, first : first + low.shape[1], first : first + low.shape[1]] = wide
    bitmap = np.fft.ifft2(np.fft.ifftshift(full, axes=(-2, -1))).real * (side * fine / low.shape[1]) ** 2
    bitmap = np.clip(0.45 + 0.25 * bitmap / bitmap.std() / 1.5, 0.01, 1).transpose(1, 2, 0) * np.array(tint)

    def texture(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        column = (np.rint((x / depth * FOCAL_PX + side / 2) * fine)).astype(int) % (side * fine)
        row = (np.rint((y / depth * FOCAL_PX + side / 2) * fine)).astype(int) % (side * fine)
        return bitmap[row, column]

    return texture


def everywhere(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.ones(np.broadcast(x, y).shape, dtype=bool)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((np.asarray(a) - np.asarray(b)) ** 2)))
