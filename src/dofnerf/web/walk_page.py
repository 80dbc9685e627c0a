"""The page in which people walk around in a scene with a lens: one HTML file with everything inside, or the page of
`dofnerf view`, which fetches its scene from the server.

`walk/` holds the page: `walk.html`, `walk.css` and plain ES modules, which are joined here without a build step.
"""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dofnerf.camera import FULL_FRAME, Camera
from dofnerf.files.ply import Splats
from dofnerf.models import Model
from dofnerf.models.splat.raster import Style
from dofnerf.optics import Lens
from dofnerf.optics.light import Curve, curve_pieces
from dofnerf.scenes import Viewpoint
from dofnerf.web import fill, picture_data, read_part, script_data, shape_facts, source_hash
from dofnerf.web.pack import Packed, pack

NARROWEST, WIDEST = -6.0, 3.0  # stops that the dial offers around the lens that was found
DIRECTIONS = 256  # in which the page knows the rim of a shape that has no formula there
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?:async )?(?:const|function|class) ([\w$]+)", re.M)


@dataclass(frozen=True)
class Walk:
    """What a page is told. `photos` with their lenses, where known; it opens at `home` behind `lens`. `depths` are the
    disparities (far, near) that the focus reaches; `usual` is the aperture of the photos, or a fitting one where it is
    not known: stops are relative to it; `unit` is the length of a scene unit in metres, where known; `focal_mm` the
    focal length of `home` in millimetres (None: full frame); `free` lifts the walls around what the photos saw."""

    title: str
    photos: Sequence[Viewpoint]
    home: Camera
    lens: Lens
    depths: tuple[float, float]
    usual: float
    up: tuple[float, ...]
    unit: float | None = None
    focal_mm: float | None = None
    free: bool = False

    def facts(self) -> dict[str, Any]:
        """The same as JSON. An `opening` is the radius of the lens in scene units over `focal`, the focal length in
        pixels over the root of the picture's area: it stays when a picture is zoomed or cropped, as f-numbers do."""
        photos = [_camera(view.camera) | {"name": view.name, **lens_facts(view)} for view in self.photos]
        found = [photo["opening"] for photo in photos if photo["opening"] > 0]
        usual = opening(self.usual, self.home)
        start = opening(float(self.lens.aperture), self.home)
        low, high = usual * 2 ** (NARROWEST / 2), usual * 2 ** (WIDEST / 2)
        focal_mm = self.focal_mm or self.home.fx / max(self.home.width, self.home.height) * FULL_FRAME
        far, near = self.depths
        return {
            "title": self.title, "photos": photos, "home": _camera(self.home), "up": list(self.up), "free": self.free,
            "range": [far, max(near, far + 1e-9)], "found": bool(found), "opening": usual,
            "openings": [min([low, *found]), max([high, start, *found])],
            "start": {"opening": start, "focus": float(self.lens.focus_disparity)},
            "unit": self.unit, "mm": focal_mm / _focal(self.home), **shape_facts(self.lens.shape, DIRECTIONS),
        }  # fmt: skip


def opening(aperture: float, camera: Camera) -> float:
    """See `Walk.facts`."""
    return aperture / camera.fx / _focal(camera)


def packed_scene(
    splats: Splats,
    background: Sequence[float],
    near: float,
    antialiased: bool,
    light: Curve,
    lens_light: Curve,
    seen_from: Sequence[Sequence[float]] = (),
) -> bytes:
    """Gaussians as the page reads them. They blend in `light`, blur adds up in `lens_light`; `seen_from` as in
    `SplatModel`."""
    rotations = splats.rotations / np.maximum(np.linalg.norm(splats.rotations, axis=1, keepdims=True), 1e-12)
    opacities = 1 / (1 + np.exp(-splats.opacities.astype(np.float64)))
    numbers = Packed(splats.means, rotations, np.exp(splats.log_scales), opacities, splats.harmonics)
    told = {"near": near, "antialiased": antialiased, "background": [float(part) for part in background]}
    curves = {"curve": list(curve_pieces(light)), "lensCurve": list(curve_pieces(lens_light))}
    return pack(numbers, told | curves | {"seenFrom": [list(one) for one in seen_from]})


def packed_model(model: Model, light: Curve) -> bytes | None:
    """A model's Gaussians as the page reads them, None if it has none; blur adds up in `light`."""
    made_of, style = model.splats(), getattr(model, "style", None)
    if made_of is None or not isinstance(style, Style):
        return None
    photos = getattr(model, "seen_from", None)
    known = () if photos is None else photos.tolist()
    return packed_scene(*made_of, style.near, style.antialiased, style.light, light, known)


def page(facts: dict[str, Any], poster: np.ndarray, scene: bytes | None) -> str:
    """The whole page; without a `scene` it is fetched from the server that the page came from. `poster` (H, W, 3)
    uint8 is shown until it is there."""
    script, style = bundle("app"), read_part("walk/walk.css")
    policy = [
        "default-src 'none'", "img-src data: blob:" + " 'self'" * (scene is None),
        f"script-src '{source_hash(script)}'",
        f"style-src '{source_hash(style)}'", "worker-src blob:", "base-uri 'none'", "form-action 'none'",
        *(["connect-src 'self'"] if scene is None else []),
    ]  # fmt: skip
    return fill(
        read_part("walk/walk.html"),
        policy="; ".join(policy),
        title=html.escape(facts["title"]),
        style=style,
        script=script,
        poster=picture_data(poster, quality=72, method=6),
        facts=script_data(facts),
        scene="" if scene is None else base64.b64encode(scene).decode("ascii"),
    )


def bundle(name: str) -> str:
    """A module of the page and all that it imports as one script: each becomes a function that returns its exports."""
    order: list[str] = []

    def visit(module: str) -> None:
        for found in _IMPORT.finditer(_source(module)):
            visit(found[2])
        if module not in order:
            order.append(module)

    visit(name)
    return '"use strict";\n' + "".join(_wrapped(module) for module in order)


def _source(module: str) -> str:
    return read_part(f"walk/{module}.js")


def _wrapped(module: str) -> str:
    text = _source(module)
    names = ", ".join(_EXPORT.findall(text))
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = ${found[2]};\n", text)
    body = re.sub(r"^export ", "", body, flags=re.M)
    return f"const ${module} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"


def _focal(camera: Camera) -> float:
    return math.sqrt(camera.fx * camera.fy / (camera.width * camera.height))


def _camera(camera: Camera) -> dict[str, Any]:
    pose = camera.camera_to_world
    numbers = {key: round(float(getattr(camera, key)), 6) for key in ("fx", "fy", "cx", "cy")}
    size = {"width": camera.width, "height": camera.height}
    return {"position": pose[:, 3].tolist(), "axes": pose[:, :3].T.reshape(-1).tolist(), **numbers, **size}


def lens_facts(view: Viewpoint) -> dict[str, float]:
    """The lens of a photo as a page knows it; 0 where it is not known."""
    if view.lens is None:
        return {"opening": 0.0, "focus": 0.0}
    return {"opening": opening(float(view.lens.aperture), view.camera), "focus": float(view.lens.focus_disparity)}
