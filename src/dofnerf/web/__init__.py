"""The browser's side: pages that are one HTML file, with everything they need inside. Nothing is fetched: they work
offline.

`page.html`, `page.css`, `page.js` and `lens.glsl` are a picture that anybody can refocus: the layers of a view, and a
lens drawn by WebGL. Other pages use the same parts: `fill` puts text into a template, `picture_data` a picture, and
`script_data` numbers.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.camera import Camera
from dofnerf.files.outputs import write_text
from dofnerf.files.pictures import to_bytes
from dofnerf.optics import Blades, Disc, Layers, Lens, Shape, to_display, to_linear
from dofnerf.optics.shapes import RealLens

HERE = Path(__file__).parent
BRIGHTEST = 4.0  # linear light that a page can show in a blurred lamp
QUALITIES = 84, 70, 55, 40  # of WebP: the first with which the page is small enough, else the last
ROOM = 3.9  # bytes that a page may take for each of its pixels: 3 MB at 1008 × 756
LEAST_ROOM = 300_000
DIRECTIONS = 128  # in which the page knows the rim of a shape that has no formula there


def fill(template: str, **parts: str) -> str:
    """A template with each @name@ replaced by that part, in one pass: what a part contains stays as it is."""
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], template)


def picture_data(pixels: np.ndarray, form: str = "WEBP", **options: Any) -> str:
    """Pixels (H, W, 3 or 4) uint8 as a data: address; `options` are Pillow's for this format."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return f"data:image/{form.lower()};base64," + base64.b64encode(file.getvalue()).decode("ascii")


def script_data(data: Any) -> str:
    """JSON for a script: it cannot end the script that it stands in."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


@dataclass(frozen=True)
class LensPage:
    """A view that can be refocused: its `layers`, the farthest first, filled where they are empty; the `camera`; the
    `lens` that it opens with.

    `depths` are the disparities (far, near) that the focus slider reaches, `widest` the largest aperture that it
    offers, `fstop` the f-number of aperture 1, where the scale is known, `photo_aperture` that of the photos' lens,
    where that is: the page shows f-numbers, else stops relative to it. Blur adds up light of the sRGB curve, which
    graphics cards know."""

    title: str
    layers: Layers
    camera: Camera
    lens: Lens
    depths: tuple[float, float]
    widest: float
    fstop: float | None
    photo_aperture: float | None = None

    def write(self, path: Path) -> None:
        """Write the page, with pictures of the best quality with which it is small enough."""
        room = max(ROOM * self.camera.width * self.camera.height, LEAST_ROOM)
        style, script, template = (read_part(f"page.{kind}") for kind in ("css", "js", "html"))
        words = ""
        for quality in QUALITIES:
            scene = script_data(self.scene(quality) | {"shader": read_part("lens.glsl")})
            words = fill(template, title=html.escape(self.title), style=style, scene=scene, script=script)
            if len(words) < room:
                break
        write_text(path, words)

    def scene(self, quality: int) -> dict[str, Any]:
        """All that the script is told, as JSON holds it; `quality` is that of WebP, for the colours."""
        far, near = self.depths
        depths, camera = self.layers.disparity, self.camera
        lowest, highest = min(far, float(depths.min())), max(near, float(depths.max()))
        linear = to_linear(self.layers.colour.clamp(min=0), "srgb")
        gain = float(np.clip(np.percentile(linear.numpy(), 99.95), 1.0, BRIGHTEST))
        shown = to_display(linear / gain, "srgb").numpy()
        aperture, focus, alpha = float(self.lens.aperture), float(self.lens.focus_disparity), self.layers.alpha.numpy()
        return {
            "width": camera.width, "height": camera.height, "far": far, "near": near, "gain": gain,
            "aperture": aperture, "widest": max(self.widest, aperture), "focus": min(max(focus, lowest), highest),
            "fstop": self.fstop, "photoAperture": self.photo_aperture, **shape_facts(self.lens.shape, DIRECTIONS),
            "layers": [_layer(shown[i], alpha[i], depths[i].numpy(), quality) for i in range(len(shown))],
        }  # fmt: skip


def shape_facts(shape: Shape, directions: int) -> dict[str, Any]:
    """`blades`: 0 for a disc, 3 and more for a polygon, -1 for another shape, given as a table of its rim;
    `character`: cat's eye, profile and pupil of the photos' own lens; `blade`: how many it has, and their roundness;
    `filled`: see `Shape`, by which its f-numbers are."""
    told: dict[str, Any] = {"blades": 0, "rotation": round(math.degrees(shape.rotation), 9) % 360}
    if isinstance(shape, Blades):
        told["blades"] = shape.count
    elif not isinstance(shape, Disc):
        rim = replace(shape, rotation=0.0).table(directions)
        told |= {"blades": -1, "shape": shape.name.capitalize(), "rim": [round(reach, 6) for reach in rim]}
    if isinstance(shape, RealLens):
        numbers = shape.cats_eye, *shape.profile, shape.pupil
        told |= {"shape": "Your lens", "character": [round(one, 6) for one in numbers]}
        told["blade"] = [shape.blades, round(shape.roundness, 6)]
        told["filled"] = round(shape.filled, 6)
    return told


def read_part(name: str) -> str:
    """A file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """How a page's content security policy names a script or a style that stands in the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _layer(shown: np.ndarray, alpha: np.ndarray, disparity: np.ndarray, quality: int) -> dict[str, Any]:
    """Colour, lossy; disparity (red) and coverage (green), exactly as eight bits hold them."""
    low, high = float(disparity.min()), float(disparity.max())
    depth = (disparity - low) / max(high - low, 1e-12)
    matte = to_bytes(np.stack([depth, alpha, np.zeros_like(alpha)], axis=-1))
    matte[..., 0][matte[..., 1] == 0] &= 0xF0  # where nothing is, a coarse depth will do, and takes less room
    colour = picture_data(to_bytes(shown), quality=quality, method=6)
    exact = picture_data(matte, lossless=True, exact=True, method=6)
    return {"low": low, "high": high, "colour": colour, "matte": exact}
