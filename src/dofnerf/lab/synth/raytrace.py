"""Mitsuba 3, the only place that knows it: a layout in, pictures in linear light and planar depth out.

Its thin-lens sensor focuses on a *plane*: `focus_distance` is measured along the optical axis, as our `focus_depth` is.
Its depth channel, though, is distance along the ray, so depth here is the hit point's position along the axis.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.extras import how_to_install
from dofnerf.lab.synth.geometry import sphere
from dofnerf.lab.synth.layout import Kind, Material, Part
from dofnerf.optics import DISC
from dofnerf.process import WITHOUT_FOLDER

if TYPE_CHECKING:
    from dofnerf.optics.shapes import RealLens

_SAMPLES_A_POINT = 1  # light paths per pixel from each point of a lens with a character

# The LLVM variant is faster on many cores, yet with some libLLVM versions it kills the whole process, and without
# libLLVM it does not start. So a child process first renders one small picture that has every kind of material in it.
_PROBE = WITHOUT_FOLDER + "from dofnerf.lab.synth.raytrace import probe; probe('llvm_ad_rgb')"


def load_mitsuba(variant: str = "auto") -> ModuleType:
    """The `mitsuba` module with its variant set: `llvm_ad_rgb` where it works, else `scalar_rgb`, or the one asked
    for."""
    try:
        import mitsuba
    except ImportError:
        raise ValueError(f"this needs Mitsuba 3, which is not installed: {how_to_install('synth')}") from None
    if variant == "auto":
        variant = "llvm_ad_rgb" if _llvm_works() else "scalar_rgb"
    if variant not in mitsuba.variants():
        raise ValueError(f"Mitsuba has no variant {variant!r}; use one of {' '.join(mitsuba.variants())}")
    mitsuba.set_variant(variant)
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    return mitsuba


@functools.cache
def _llvm_works() -> bool:
    try:
        child = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return child.returncode == 0


def probe(variant: str) -> None:
    """Render one tiny picture of every kind of material; returns if the variant works, dies in its own way if not."""
    kinds: tuple[Kind, ...] = ("matte", "gloss", "metal", "light")
    ball = sphere(0.4, 12)
    grey = np.full((4, 4, 3), 0.5)
    parts = [Part(ball.placed(x=number - 1.5), Material(grey, kind)) for number, kind in enumerate(kinds)]
    pose = np.eye(4)[:3]
    pose[2, 3] = 4.0
    camera = Camera(pose, 8.0, 8.0, 8.0, 4.0, 16, 8)
    tracer = RayTracer(parts, np.ones((4, 8, 3)), variant)
    if not np.isfinite(tracer.photo(camera, (0.1, 4.0), 4, 0)).all() or not tracer.depth(camera).min() > 3.0:
        raise ValueError(f"Mitsuba's variant {variant} gives wrong pictures here")


class RayTracer:
    """Parts under a sky, loaded once; then any camera, with or without a lens.

    `sky` is linear radiance (H, W, 3), equirectangular. Light takes at most `bounces` legs from lamp to lens.
    """

    def __init__(self, parts: Sequence[Part], sky: np.ndarray, variant: str = "auto", bounces: int = 4) -> None:
        self._mi = mi = load_mitsuba(variant)
        self._variant = mi.variant()
        contents: dict[str, Any] = {"type": "scene"}
        contents["sky"] = {"type": "envmap", "bitmap": mi.Bitmap(sky.astype(np.float32)), "sampling_weight": 4.0}
        materials: dict[int, Any] = {}
        for number, part in enumerate(parts):
            key = id(part.material)
            if key not in materials:
                materials[key] = _bsdf(mi, part.material)
            contents[f"part{number:04d}"] = _shape(mi, part, materials[key])
        self._scene = mi.load_dict(contents)
        self._lit = mi.load_dict({"type": "path", "max_depth": bounces, "hide_emitters": True})
        self._lamps = mi.load_dict({"type": "path", "max_depth": 1})

    def photo(
        self,
        camera: Camera,
        lens: tuple[float, float] | None,
        samples: int,
        seed: int,
        shape: RealLens | None = None,
    ) -> np.ndarray:
        """Linear light (H, W, 3) float32. `lens` is (radius, focus depth) in scene units, or None for a pinhole. With a
        `shape`, that lens has its character.

        Small bright lamps spread over a wide disc are what makes a lens picture noisy, and the light that comes
        straight from a lamp needs only one ray. So lamps and lit surfaces are two pictures, the first with more
        samples, added up: lamps glow like clear bulbs, and what stands before them hides them as it should.
        """
        if lens is not None and shape is not None:
            return self._through_points(camera, lens, samples, seed, shape)
        mi = load_mitsuba(self._variant)
        pose = np.eye(4)
        # Our camera looks along −z with x to the right; Mitsuba's looks along +z with x to the left.
        pose[:3] = camera.camera_to_world @ np.diag([-1.0, 1.0, -1.0, 1.0])
        total = np.zeros((camera.height, camera.width, 3), dtype=np.float32)
        for integrator, count in ((self._lit, samples), (self._lamps, samples * (1 if lens is None else 2))):
            sensor = mi.load_dict(_sensor(camera, lens, count) | {"to_world": mi.ScalarTransform4f(pose)})
            image = mi.render(self._scene, sensor=sensor, integrator=integrator, spp=count, seed=seed)
            total += np.array(image, dtype=np.float32)[..., :3]
        return total

    def _through_points(
        self, camera: Camera, lens: tuple[float, float], samples: int, seed: int, shape: RealLens
    ) -> np.ndarray:
        """The weighted mean of sharp pictures from points all over the lens, a few samples a pixel each."""
        import torch

        radius, focus = lens
        count = max(1, samples // _SAMPLES_A_POINT)
        points = DISC.points((), count, torch.Generator().manual_seed(seed))
        tangents = torch.from_numpy(camera.tangents()).float()
        weights = shape.weight(points[:, None, None], tangents).numpy()
        total, axes = np.zeros((camera.height, camera.width, 3)), camera.camera_to_world
        for k, ((x, y), weight) in enumerate(zip(points.tolist(), weights, strict=True)):
            pose = np.concatenate([axes[:, :3], axes[:, 3:] + radius * (axes[:, :1] * x + axes[:, 1:2] * y)], axis=1)
            # The focal plane stays where it is.
            shift = {"cx": camera.cx + x * radius * camera.fx / focus, "cy": camera.cy - y * radius * camera.fy / focus}
            view = replace(camera, camera_to_world=pose, **shift)
            total += weight[..., None] * self.photo(view, None, _SAMPLES_A_POINT, seed + k)
        return (total / np.maximum(weights.sum(0), 1e-6)[..., None]).astype(np.float32)

    def depth(self, camera: Camera) -> np.ndarray:
        """Planar depth (H, W) float32 at each pixel's centre; infinity where the ray leaves the scene."""
        rows, columns = np.mgrid[0 : camera.height, 0 : camera.width]
        pixels = np.stack([columns.ravel() + 0.5, rows.ravel() + 0.5], axis=-1)
        # A ray whose direction has unit length *along the axis* meets a surface at t = planar depth.
        directions = camera.unproject(pixels, np.ones(len(pixels))) - camera.position
        load_mitsuba(self._variant)
        if self._variant.startswith("scalar"):
            depth = np.array([self._hit(camera.position, direction) for direction in directions])
        else:
            depth = np.array(self._hit(camera.position[:, None], directions.T))
        return depth.reshape(camera.height, camera.width).astype(np.float32)

    def _hit(self, origin: np.ndarray, direction: np.ndarray) -> Any:
        mi = self._mi
        hit = self._scene.ray_intersect_preliminary(mi.Ray3f(mi.Point3f(origin), mi.Vector3f(direction)))
        return hit.t


def _sensor(camera: Camera, lens: tuple[float, float] | None, samples: int) -> dict[str, Any]:
    centred = abs(camera.cx - camera.width / 2) < 1e-6 and abs(camera.cy - camera.height / 2) < 1e-6
    if (lens is not None and not centred) or abs(camera.fx - camera.fy) > 1e-6 * camera.fx:
        raise ValueError("the lens maker wants square pixels and a centred principal point")
    angle = float(np.rad2deg(2.0 * np.arctan(camera.width / (2.0 * camera.fx))))
    sensor: dict[str, Any] = {
        "type": "perspective",
        "fov_axis": "x",
        "fov": angle,
        "near_clip": 0.01,
        "far_clip": 1000.0,
    }
    if not centred:
        sensor["principal_point_offset_x"] = float(0.5 - camera.cx / camera.width)  # Mitsuba's say how the film moves
        sensor["principal_point_offset_y"] = float(0.5 - camera.cy / camera.height)
    # A box filter is what a real sensor does: each pixel averages the light on its own square.
    film = {"width": camera.width, "height": camera.height, "pixel_format": "rgb", "rfilter": {"type": "box"}}
    sensor |= {"film": {"type": "hdrfilm", **film}, "sampler": {"type": "multijitter", "sample_count": samples}}
    if lens is not None:
        sensor |= {"type": "thinlens", "aperture_radius": float(lens[0]), "focus_distance": float(lens[1])}
    return sensor


def _texture(mi: ModuleType, material: Material) -> dict[str, Any]:
    colour = np.asarray(material.colour, dtype=np.float32)
    linear = colour if material.kind == "light" else np.clip(colour, 0.0, 1.0) ** 2.2
    if linear.ndim == 1:
        return {"type": "rgb", "value": [float(value) for value in linear]}
    # Mitsuba puts a bitmap's first row at v = 0, the bottom.
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(linear[::-1])), "raw": True}


def _bsdf(mi: ModuleType, material: Material) -> Any:
    """One Mitsuba material, seen from both sides."""
    if material.kind == "light":
        return mi.load_dict({"type": "diffuse", "reflectance": {"type": "rgb", "value": 0.0}})
    texture = _texture(mi, material)
    inner: dict[str, Any] = {"type": "diffuse", "reflectance": texture}
    if material.kind == "gloss":
        inner = {"type": "roughplastic", "diffuse_reflectance": texture, "alpha": material.roughness}
    elif material.kind == "metal":
        inner = {"type": "roughconductor", "material": "none"}
        inner |= {"specular_reflectance": texture, "alpha": material.roughness}
    return mi.load_dict({"type": "twosided", "inner": inner})


def _lamp_weight(part: Part) -> float:
    """How often a lamp is sampled: the root of its power, for power alone would starve small lamps."""
    corners = part.mesh.vertices[part.mesh.faces]
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    return float(np.sqrt(area * np.mean(np.asarray(part.material.colour))))


def _shape(mi: ModuleType, part: Part, bsdf: Any) -> Any:
    mesh = part.mesh
    properties = mi.Properties()
    properties["bsdf"] = bsdf
    if part.material.kind == "light":
        lamp = {"type": "area", "radiance": _texture(mi, part.material), "sampling_weight": _lamp_weight(part)}
        properties["emitter"] = mi.load_dict(lamp)
    properties["face_normals"] = not mesh.smooth
    shape = mi.Mesh("part", len(mesh.vertices), len(mesh.faces), properties, mesh.smooth, True)
    parameters = mi.traverse(shape)
    parameters["vertex_positions"] = mesh.vertices.astype(np.float32).ravel()
    parameters["faces"] = mesh.faces.astype(np.uint32).ravel()
    parameters["vertex_texcoords"] = mesh.uv.astype(np.float32).ravel()
    if mesh.smooth:
        parameters["vertex_normals"] = mesh.normals().astype(np.float32).ravel()
    parameters.update()
    return shape
