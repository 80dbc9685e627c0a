"""`synth lens`: scenes photographed through a true thin lens whose aperture and focus are known exactly.

The folder that comes out has a `transforms.json` (OpenGL camera-to-world, pixel units) whose frames name a sharp photo
(pinhole), the blurred photos, a depth map, and the lens of each blurred photo as {aperture, focus_depth}: the blur of a
point at `depth` is a disc of radius `aperture * abs(1/focus_depth − 1/depth)` pixels, where aperture = focal length in
pixels × lens radius in scene units. Photos are display values, linear light to the power 1/2.2 (`"light": 2.2`).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import write_image, write_json, write_map
from dofnerf.files.outputs import claim
from dofnerf.files.progress import track
from dofnerf.lab.synth import RECORD
from dofnerf.lab.synth.layout import Layout, handheld_views
from dofnerf.lab.synth.layouts import LAYOUTS, make_layout
from dofnerf.lab.synth.raytrace import RayTracer
from dofnerf.process import alone

if TYPE_CHECKING:
    from dofnerf.optics.shapes import RealLens

DISPLAY_GAMMA = 2.2


@dataclass(frozen=True)
class LensSceneConfig:
    """What to photograph, and how."""

    layout: str = "tabletop"
    """Which built-in place (see `dofnerf.lab.synth.layouts`)."""
    views: int = 24
    """How many camera positions."""
    size: tuple[int, int] = (252, 168)
    """Width and height in pixels."""
    seed: int = 0
    """Changes textures, irregularities, the camera path and (mixed) the lenses."""
    mixed: bool = False
    """Every photo its own random aperture and focus, instead of one near-focused and one far-focused photo per view."""
    bracket: int = 0
    """So many photos from each place, focused from near to far in even steps of disparity: a focus bracket."""
    blur: float = 1.0
    """How wide the lens is, against the layout's own (1 gives up to 8 pixels of blur at 252 pixels width)."""
    cats_eye: float = 0.0
    """Optical vignetting: how far a second circle, as large as the lens, cuts into the opening for what is seen 45° off
    the axis, in lens radii."""
    blades: int = 0
    """Blades of the diaphragm; 0 for a disc."""
    rotation: float = 0.0
    """Turn of the blades, in degrees, counter-clockwise."""
    roundness: float = 0.0
    """Of the blades: 0 straight, 1 a disc."""
    profile: tuple[float, float] = (0.0, 0.0)
    """Brightness over the opening: above 0 a hard rim, below a soft one; and the next term (see RealLens)."""
    samples: int = 256
    """Light paths per pixel: noise falls with the square root, time grows in proportion."""
    suffix: Literal[".png", ".jpg"] = ".png"
    """Picture format."""
    sharp: bool = True
    """Also take an all-in-focus photo of every view."""
    depth: bool = True
    """Also write the true depth of every view."""
    variant: str = "auto"
    """Mitsuba's variant; auto takes llvm_ad_rgb where it works, else scalar_rgb."""

    @property
    def shape(self) -> RealLens | None:
        """The lens's character; None for a plain disc."""
        from dofnerf.optics.shapes import RealLens

        turn = math.radians(self.rotation)
        made = RealLens(self.blades, self.roundness, self.cats_eye, self.profile, rotation=turn)
        return None if made == RealLens(rotation=turn) else made

    def check(self) -> None:
        """Raise ValueError on the first setting out of range."""
        _ = self.shape  # it checks itself
        if self.layout not in LAYOUTS:
            raise ValueError(f"no layout called {self.layout!r}; use one of: {', '.join(LAYOUTS)}")
        if not 1 <= self.views <= 10_000:
            raise ValueError(f"views must be from 1 to 10000, not {self.views}")
        if len(self.size) != 2 or not all(8 <= side <= 8192 for side in self.size):
            raise ValueError(f"size must be (width, height) from 8 to 8192 pixels each, not {self.size}")
        if not 1 <= self.samples <= 1_000_000:
            raise ValueError(f"samples must be from 1 to 1000000, not {self.samples}")
        if not (np.isfinite(self.blur) and self.blur > 0.0):
            raise ValueError(f"blur must be a number above 0, not {self.blur}")
        if self.bracket and not (2 <= self.bracket <= 100 and not self.mixed):
            raise ValueError(f"bracket must be from 2 to 100 photos, and not mixed, not {self.bracket}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, not {self.seed}")
        if self.suffix not in (".png", ".jpg"):
            raise ValueError(f"suffix must be .png or .jpg, not {self.suffix!r}")


@dataclass(frozen=True)
class LensCommandConfig:
    """Photograph a built-in place through a true thin lens, with Mitsuba 3: sharp, near- and far-focused photos, depth,
    lens.

    For example:
      dofnerf synth lens --out tabletop
      dofnerf synth lens --layout garden --views 40 --size 504 336 --out garden
      dofnerf synth lens --views 9 --bracket 3 --out brackets
      dofnerf synth lens --mixed --blur 1.5 --seed 3 --out mixed
      dofnerf synth lens --blades 5 --cats-eye 1.2 --profile 0.5 0 --blur 2 --out character
    """

    out: Path
    """The new scene's folder. Stopped work goes on where it was if the flags are the same."""
    scene: LensSceneConfig = field(default_factory=LensSceneConfig)


@alone
def run(config: LensCommandConfig) -> Path:
    """Render the scene; returns the path of its transforms.json."""
    target = make_lens_scene(config.out, config.scene)
    print(f"wrote    {config.out}")
    return target


@dataclass(frozen=True)
class Shot:
    """One picture to take: of view number `view`, kept as `path` in the scene folder; `lens` is None for a pinhole."""

    view: int
    kind: Literal["sharp", "near", "far", "photo"]
    path: str
    lens: tuple[float, float] | None
    """(radius, focus depth), scene units."""
    number: int = 0
    """In its bracket."""


def make_lens_scene(out: Path | str, config: LensSceneConfig | None = None, progress: bool = True) -> Path:
    """Render the scene into the folder `out`, and return the path of its transforms.json.

    Can be stopped at any time and started again: finished pictures are kept. A folder that holds another scene is
    refused.
    """
    config = config or LensSceneConfig()
    config.check()
    out = Path(out)
    layout = make_layout(config.layout, config.seed)
    settings = asdict(config) | {"layout_digest": _digest(layout)}
    settings.pop("variant")  # the same picture, but for noise
    if not config.bracket:
        settings.pop("bracket")  # folders from before there were brackets
    for name in ("sharp", "cats_eye", "blades", "rotation", "roundness", "profile"):
        if settings[name] == getattr(LensSceneConfig, name):
            settings.pop(name)
    claim(out, RECORD, None, "dofnerf synth lens", settings)
    cameras, shots = plan(config, layout)
    tracer: RayTracer | None = None
    steps: list[Shot | int] = [*shots, *range(len(cameras) if config.depth else 0)]
    for step in track(steps, "photos", quiet=not progress):
        path = out / (step.path if isinstance(step, Shot) else _depth_path(step))
        if path.exists():
            continue
        tracer = tracer or RayTracer(layout.parts, layout.sky, config.variant)
        if isinstance(step, Shot):
            write_image(path, take(tracer, cameras[step.view], step, config))
        else:
            write_map(path, np.minimum(tracer.depth(cameras[step]), layout.far))
    target = out / "transforms.json"
    write_json(target, describe(config, layout, cameras, shots))
    return target


def plan(config: LensSceneConfig, layout: Layout) -> tuple[list[Camera], list[Shot]]:
    """Every view's camera, and every picture to take."""
    cameras = handheld_views(layout, config.views, config.size, np.random.default_rng([config.seed, 2]))
    rng = np.random.default_rng([config.seed, 3])
    radius = layout.lens_radius * config.blur
    shots = []
    for view in range(config.views):
        name = f"{view:03d}{config.suffix}"
        if config.sharp:
            shots.append(Shot(view, "sharp", f"sharp/{name}", None))
        if config.bracket:
            disparities = np.linspace(1 / layout.near_focus, 1 / layout.far_focus, config.bracket)
            for k, disparity in enumerate(disparities):
                path = f"photos/{view:03d}_{k}{config.suffix}"
                shots.append(Shot(view, "photo", path, (radius, float(1 / disparity)), k))
        elif config.mixed:
            # Blur is linear in disparity, so focus is drawn evenly in disparity.
            focus = 1.0 / rng.uniform(1.0 / layout.far_focus, 1.0 / layout.near_focus)
            shots.append(Shot(view, "photo", f"photos/{name}", (radius * rng.uniform(0.4, 1.1), focus)))
        else:
            shots.append(Shot(view, "near", f"near/{name}", (radius, layout.near_focus)))
            shots.append(Shot(view, "far", f"far/{name}", (radius, layout.far_focus)))
    return cameras, shots


def take(tracer: RayTracer, camera: Camera, shot: Shot, config: LensSceneConfig) -> np.ndarray:
    """The picture of one shot in display space, (H, W, 3) float32 0..1."""
    kind = ("sharp", "near", "far", "photo").index(shot.kind)
    seed = np.random.SeedSequence([config.seed, shot.view, kind + shot.number]).generate_state(1)[0]
    linear = tracer.photo(camera, shot.lens, config.samples, int(seed), config.shape)
    return np.clip(linear, 0.0, 1.0) ** (1.0 / DISPLAY_GAMMA)


def describe(config: LensSceneConfig, layout: Layout, cameras: list[Camera], shots: list[Shot]) -> dict[str, Any]:
    """The contents of transforms.json."""
    first = cameras[0]
    frames: list[dict[str, Any]] = []
    for view, camera in enumerate(cameras):
        pose = [*camera.camera_to_world.tolist(), [0.0, 0.0, 0.0, 1.0]]
        whole: dict[str, Any] = {"file_path": "", "transform_matrix": pose}
        bracket = []
        for shot in (shot for shot in shots if shot.view == view):
            prefix = "" if shot.kind == "photo" else f"{shot.kind}_"
            entry: dict[str, Any] = {f"{prefix}file_path": shot.path}
            if shot.lens is not None:
                entry[f"{prefix}lens"] = {"aperture": camera.fx * shot.lens[0], "focus_depth": shot.lens[1]}
            if config.bracket and shot.kind == "photo":
                bracket.append(entry | {"bracket": f"{view:03d}"})
            else:
                whole |= entry
        if not (config.mixed or config.bracket):  # the paper's alternating mix
            whole["file_path"] = whole["far_file_path" if view % 2 else "near_file_path"]
        if config.depth:
            whole["depth_file_path"] = _depth_path(view)
        frames += [whole | one for one in bracket] or [whole]
    intrinsics = {
        "fl_x": first.fx,
        "fl_y": first.fy,
        "cx": first.cx,
        "cy": first.cy,
        "w": first.width,
        "h": first.height,
    }
    bounds: dict[str, Any] = {"near": layout.near, "far": layout.far}
    if config.shape is not None:
        names = ("cats_eye", "blades", "rotation", "roundness", "profile")
        bounds["character"] = {name: getattr(config, name) for name in names}
    return {"camera_model": "PINHOLE", **intrinsics, **bounds, "light": DISPLAY_GAMMA, "frames": frames}


def _depth_path(view: int) -> str:
    return f"depth/{view:03d}.npy"


def _digest(layout: Layout) -> str:
    """Changes whenever any shape, texture or light of the layout does."""
    digest = hashlib.sha256()
    for part in layout.parts:
        for array in (part.mesh.vertices, part.mesh.faces, part.mesh.uv, np.asarray(part.material.colour)):
            digest.update(np.ascontiguousarray(array, dtype=np.float32).tobytes())
        digest.update(f"{part.material.kind} {part.material.roughness}".encode())
    digest.update(layout.sky.astype(np.float32).tobytes())
    lens = layout.near_focus, layout.far_focus, layout.lens_radius, layout.field_of_view
    digest.update(repr((layout.eye, layout.target, layout.spread, *lens)).encode())
    return digest.hexdigest()[:16]
