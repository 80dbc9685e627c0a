"""What a layout is made of: meshes with a material, lights, and where the camera and its focus go. No renderer here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

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

    The camera rig hangs around `eye` and looks at `target`, both world points; `spread` is how far views stray from it
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
