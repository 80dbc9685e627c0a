"""Triangle meshes for the built-in layouts, made with numpy alone.

World axes: x right, y up, and the cameras look along −z. A mesh has one texture coordinate per vertex; (0, 0) is the
texture's lower left corner. Shapes are made around the origin, standing on y = 0, and then `placed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mesh:
    """`vertices` float (V, 3), `faces` int (F, 3) counter-clockwise from outside, `uv` float (V, 2)."""

    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray
    smooth: bool = False

    def placed(
        self, x: float = 0.0, y: float = 0.0, z: float = 0.0, *, turn: float = 0.0, tilt: float = 0.0, roll: float = 0.0
    ) -> Mesh:
        """Rolled about z, tilted about x, turned about y (degrees, in this order), then moved."""
        rotation = _about(1, turn) @ _about(0, tilt) @ _about(2, roll)
        return Mesh(self.vertices @ rotation.T + np.array([x, y, z]), self.faces, self.uv, self.smooth)

    def scaled(self, x: float, y: float, z: float) -> Mesh:
        """Stretched along the axes by positive factors."""
        return Mesh(self.vertices * np.array([x, y, z]), self.faces, self.uv, self.smooth)

    def normals(self) -> np.ndarray:
        """Area-weighted vertex normals (V, 3), for smooth shading; vertices that coincide share theirs (no seam)."""
        corners = self.vertices[self.faces]
        face_normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        _, group = np.unique(np.round(self.vertices, 6), axis=0, return_inverse=True)
        sums = np.zeros((len(self.vertices), 3))
        for corner in range(3):
            np.add.at(sums, group.reshape(-1)[self.faces[:, corner]], face_normals)
        sums = sums[group.reshape(-1)]
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-20)


def join(meshes: Sequence[Mesh]) -> Mesh:
    """One mesh out of several; smooth if the first is."""
    offsets = np.cumsum([0] + [len(m.vertices) for m in meshes[:-1]])
    faces = np.concatenate([m.faces + offset for m, offset in zip(meshes, offsets, strict=True)])
    return Mesh(
        np.concatenate([m.vertices for m in meshes]), faces, np.concatenate([m.uv for m in meshes]), meshes[0].smooth
    )


def rectangle(width: float, height: float, repeat: tuple[float, float] = (1.0, 1.0)) -> Mesh:
    """Upright, facing +z, standing on y = 0, centred in x; the texture repeats `repeat` times."""
    x, y = width / 2, height
    vertices = np.array([[-x, 0, 0], [x, 0, 0], [x, y, 0], [-x, y, 0]])
    uv = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * np.array(repeat)
    return Mesh(vertices, np.array([[0, 1, 2], [0, 2, 3]]), uv)


def floor(width: float, length: float, repeat: tuple[float, float] = (1.0, 1.0)) -> Mesh:
    """Lying on y = 0, facing up, centred; the texture's top is at the far end (−z)."""
    flat = rectangle(width, length, repeat).placed(y=-length / 2)
    return flat.placed(tilt=-90.0)


def box(width: float, height: float, length: float) -> Mesh:
    """Standing on y = 0, centred in x and z; each side shows the whole texture."""
    front = rectangle(width, height).placed(z=length / 2)
    side = rectangle(length, height).placed(z=width / 2)
    lid = floor(width, length)
    sides = [front, front.placed(turn=180.0), side.placed(turn=90.0), side.placed(turn=-90.0)]
    return join([*sides, lid.placed(y=height), lid.placed(roll=180.0)])


def loft(heights: np.ndarray, radii: np.ndarray, offsets: np.ndarray | None = None, segments: int = 40) -> Mesh:
    """A stack of ellipses: `heights` (N,), half-axes `radii` (N, 2) in x and z, centres shifted in x by `offsets`
    (N,)."""
    offsets = np.zeros(len(heights)) if offsets is None else offsets
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)
    x = offsets[:, None] + radii[:, :1] * np.sin(angle)
    z = radii[:, 1:] * np.cos(angle)
    y = np.broadcast_to(heights[:, None], x.shape)
    steps = np.hypot(np.diff(heights), np.diff(radii[:, 0]))
    along = np.concatenate([[0.0], np.cumsum(steps)]) / max(steps.sum(), 1e-12)
    uv = np.stack(np.broadcast_arrays(angle / (2.0 * np.pi), along[:, None]), axis=-1)
    return _grid(np.stack([x, y, z], axis=-1), uv)


def lathe(profile: Sequence[tuple[float, float]], segments: int = 40, refine: int = 4) -> Mesh:
    """A solid of revolution about y from (radius, height) points, joined by a Catmull-Rom curve of `refine` steps
    each."""
    curve = smooth_curve(np.array(profile, dtype=float), refine)
    radius = np.maximum(curve[:, 0], 0.0)
    return loft(curve[:, 1], np.stack([radius, radius], axis=-1), segments=segments)


def sphere(radius: float, segments: int = 32) -> Mesh:
    """Centred on the origin; texture as a world map."""
    latitude = np.linspace(-np.pi / 2, np.pi / 2, segments // 2 + 1)
    ring = np.maximum(radius * np.cos(latitude), 0.0)
    return loft(radius * np.sin(latitude), np.stack([ring, ring], axis=-1), segments=segments)


def tube(path: np.ndarray, radius: float, segments: int = 8) -> Mesh:
    """A wire of `radius` along `path` (N, 3)."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-12)
    # One fixed helper axis per point, never parallel to the tangent: wires are too thin for its jumps to be seen.
    helper = np.where(np.abs(tangent[:, 1:2]) < 0.9, [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]])
    across = np.cross(helper, tangent)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    upward = np.cross(tangent, across)
    angle = np.linspace(0.0, 2.0 * np.pi, segments + 1)[None, :, None]
    points = path[:, None] + radius * (across[:, None] * np.sin(angle) + upward[:, None] * np.cos(angle))
    uv = np.stack(np.broadcast_arrays(angle[..., 0] / (2 * np.pi), np.linspace(0, 1, len(path))[:, None]), axis=-1)
    return _grid(points, uv)


def leaf(length: float, width: float, bend: float, fold: float = 0.25, steps: int = 8) -> Mesh:
    """A blade that starts at the origin upward (+y) and bends forward (+z) by `bend` radians along its length."""
    along = np.linspace(0.0, 1.0, steps + 1)
    lean = bend * along
    y = np.concatenate([[0.0], np.cumsum(np.cos(lean[1:]))]) * length / steps
    z = np.concatenate([[0.0], np.cumsum(np.sin(lean[1:]))]) * length / steps
    half = 0.5 * width * np.sin(np.pi * np.clip(0.06 + 0.94 * along, 0, 1)) ** 0.8
    across = np.array([-1.0, 0.0, 1.0])
    lift = fold * half[:, None] * np.abs(across)
    points = np.stack([half[:, None] * across, y[:, None] - lift * np.sin(lean)[:, None], z[:, None] + lift], axis=-1)
    uv = np.stack(np.broadcast_arrays((across + 1) / 2, along[:, None]), axis=-1)
    return _grid(points, uv)


def gear(radius: float, thickness: float, teeth: int) -> Mesh:
    """A toothed wheel with a hole, facing +z, centred on the origin."""
    phase = np.tile([0.0, 0.25, 0.5, 0.75], teeth)
    angle = 2.0 * np.pi * (np.repeat(np.arange(teeth), 4) + phase) / teeth
    outer = radius * np.where((phase > 0) & (phase < 0.75), 1.0, 0.86)
    angle, outer = np.append(angle, angle[0] + 2.0 * np.pi), np.append(outer, outer[0])
    inner = np.full_like(outer, radius * 0.28)
    half = np.full_like(outer, thickness / 2)
    rings = [(inner, half), (outer, half), (outer, -half), (inner, -half), (inner, half)]
    points = np.stack([np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=-1) for r, z in rings])
    uv = 0.5 + 0.5 * points[..., :2] / radius
    pieces = [_grid(points[i : i + 2], uv[i : i + 2]) for i in range(4)]
    flat = join(pieces)
    return Mesh(flat.vertices, flat.faces[:, ::-1], flat.uv)


def smooth_curve(points: np.ndarray, refine: int) -> np.ndarray:
    """A Catmull-Rom curve through `points` (N, D), `refine` steps per piece. A repeated point makes a corner."""
    padded = np.concatenate([points[:1], points, points[-1:]])
    t = np.linspace(0.0, 1.0, refine, endpoint=False)[:, None]
    pieces = []
    for i in range(len(points) - 1):
        a, b, c, d = padded[i : i + 4]
        pieces.append(b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))))
    return np.concatenate([*pieces, points[-1:]])


def _grid(points: np.ndarray, uv: np.ndarray) -> Mesh:
    """Quads over a (rows, columns, 3) lattice of points, smooth."""
    rows, columns = points.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1])
    faces = np.concatenate([np.stack([a, b, c], axis=-1).reshape(-1, 3), np.stack([a, c, d], axis=-1).reshape(-1, 3)])
    return Mesh(points.reshape(-1, 3), faces, uv.reshape(-1, 2), smooth=True)


def _about(axis: int, degrees: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rotation = np.eye(3)
    rotation[i, i] = rotation[j, j] = np.cos(angle)
    rotation[i, j], rotation[j, i] = -np.sin(angle), np.sin(angle)
    return rotation
