"""What a layout is: meshes with a material, lights, and where the cameras and their focus go. No renderer here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dofnerf.camera import Camera
from dofnerf.lab.synth.geometry import Mesh

Kind = Literal["matte", "gloss", "metal", "light"]


@dataclass(frozen=True)
class Material:
    """`colour` is a texture (H, W, 3) or one colour (3,), display space; for a light it is linear radiance, any size.

    matte: ideal diffuse. gloss: diffuse under a clear coat of `roughness`. metal: a rough mirror tinted by its colour.
    """

    colour: np.ndarray | tuple[float, float, float]
    kind: Kind = "matte"
    roughness: float = 0.15


@dataclass(frozen=True)
class Part:
    """One mesh of one material."""

    mesh: Mesh
    material: Material


@dataclass(frozen=True)
class Layout:
    """A furnished place.

    The cameras stand around `eye` and look at `target`, both world points; `spread` is how far they stray from it
    sideways, upward and forward. `near_focus` and `far_focus` are depths along the axis, in scene units; `lens_radius`
    too. `sky` is linear radiance (H, W, 3), an equirectangular map of all light that comes from outside. `near`, `far`
    bound depth.
    """

    parts: list[Part]
    sky: np.ndarray
    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    spread: tuple[float, float, float]
    near_focus: float
    far_focus: float
    lens_radius: float
    near: float
    far: float
    field_of_view: float = 53.0


def handheld_views(layout: Layout, count: int, size: tuple[int, int], rng: np.random.Generator) -> list[Camera]:
    """`count` cameras of `size` (width, height) around the layout's eye, all looking near its target.

    They stand on a jittered grid, in serpentine order: neighbours in order are neighbours in space, so in an
    alternating near/far mix every photo's neighbours have the other focus.
    """
    columns = max(round(np.sqrt(1.5 * count)), 1)
    rows = int(np.ceil(count / columns))
    return [_view(layout, _grid_place(index, columns, rows), size, rng) for index in range(count)]


def middle_view(layout: Layout, size: tuple[int, int]) -> Camera:
    """The view from the layout's eye straight at its target."""
    return look_at(np.array(layout.eye), np.array(layout.target), 0.0, layout.field_of_view, size)


def _grid_place(index: int, columns: int, rows: int) -> np.ndarray:
    """(across, up), both −1..1."""
    row, column = divmod(index, columns)
    column = columns - 1 - column if row % 2 else column
    return np.array([2.0 * (column + 0.5) / columns - 1.0, 2.0 * (row + 0.5) / rows - 1.0])


def _view(layout: Layout, place: np.ndarray, size: tuple[int, int], rng: np.random.Generator) -> Camera:
    jitter = rng.normal(0.0, 1.0, 6)
    offset = np.array([place[0] + 0.06 * jitter[0], place[1] + 0.12 * jitter[1], 0.5 * jitter[2]])
    offset = offset * np.array(layout.spread)
    aim = np.array(layout.target) + np.array([0.05, 0.03, 0.0]) * jitter[3:6]
    return look_at(np.array(layout.eye) + offset, aim, np.deg2rad(0.8 * jitter[5]), layout.field_of_view, size)


def look_at(eye: np.ndarray, target: np.ndarray, roll: float, field_of_view: float, size: tuple[int, int]) -> Camera:
    """A camera at `eye` looking at `target`, rolled by `roll` radians; `field_of_view` in degrees across the width."""
    back = (eye - target) / np.linalg.norm(eye - target)
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    up = np.cross(back, right)
    right, up = np.cos(roll) * right + np.sin(roll) * up, np.cos(roll) * up - np.sin(roll) * right
    width, height = size
    focal = width / (2.0 * np.tan(np.deg2rad(field_of_view) / 2.0))
    return Camera(np.stack([right, up, back, eye], axis=1), focal, focal, width / 2, height / 2, width, height)
