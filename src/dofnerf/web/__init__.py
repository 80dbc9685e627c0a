"""A picture that anybody can refocus: one HTML file that holds the layers of a view, and a lens drawn by WebGL.

`page.html`, `page.js` and `lens.glsl` are the page; the pictures go in as WebP. Nothing is fetched: it works offline.
"""

from __future__ import annotations

import base64
import html
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.camera import Camera
from dofnerf.files import atomic
from dofnerf.files.pictures import to_bytes
from dofnerf.optics.lens import f_number_from_aperture
from dofnerf.optics.light import to_display, to_linear
from dofnerf.studio.layered import LayeredPicture, to_unit
from dofnerf.studio.lens_config import AUTOMATIC_BLUR

HERE = Path(__file__).parent
WIDEST = 2.0  # the widest aperture that a page offers, in automatic ones
BRIGHTEST = 4.0  # linear light that a page can show in a blurred lamp
QUALITIES = 84, 70, 55, 40  # of WebP: the first with which the page is small enough, else the last
ROOM = 3.9  # bytes that a page may take for each of its pixels: 3 MB at 1008 × 756
LEAST_ROOM = 300_000


@dataclass(frozen=True)
class PageLens:
    """What the page shows first: `aperture` in pixels × scene units, `focus` a disparity, `rotation` in degrees; and,
    for f-numbers, the millimetres of the sensor's width and of a scene unit."""

    aperture: float
    focus: float
    blades: int = 0
    rotation: float = 0.0
    sensor: float = 36.0
    unit: float = 1000.0


def write_page(path: Path, picture: LayeredPicture, camera: Camera, lens: PageLens, title: str) -> None:
    """Write the page. Its blur adds up light of the sRGB curve, which graphics cards know, whatever that of the run
    is."""
    room = max(ROOM * camera.width * camera.height, LEAST_ROOM)
    words = ""
    for quality in QUALITIES:
        words = _page(scene(picture, camera, lens, quality), title)
        if len(words) < room:
            break
    with atomic(path) as temporary:
        temporary.write_text(words, encoding="utf-8")


def _page(data: dict[str, Any], title: str) -> str:
    data = data | {"shader": (HERE / "lens.glsl").read_text(encoding="utf-8")}
    parts = {
        "scene": _script_safe(json.dumps(data, allow_nan=False)),
        "script": (HERE / "page.js").read_text(encoding="utf-8"),
    }
    words = (HERE / "page.html").read_text(encoding="utf-8").replace("@title@", html.escape(title))
    for name, part in parts.items():
        words = words.replace(f"@{name}@", part)
    return words


def scene(picture: LayeredPicture, camera: Camera, lens: PageLens, quality: int) -> dict[str, Any]:
    """All that the page knows, as JSON holds it; `quality` is that of WebP, for the colours."""
    far, near = picture.sharp.disparity_range()
    depths = picture.layers.disparity
    lowest, highest = min(far, float(depths.min())), max(near, float(depths.max()))
    linear = to_linear(picture.layers.colour.clamp(min=0), "srgb")
    gain = float(np.clip(np.percentile(linear.numpy(), 99.95), 1.0, BRIGHTEST))
    shown = to_display(linear / gain, "srgb").numpy()
    widest = WIDEST * AUTOMATIC_BLUR * camera.width / max(near - far, 1e-9)
    focal_length = camera.fx / camera.width * lens.sensor
    return {
        "width": camera.width, "height": camera.height, "far": far, "near": near, "gain": gain,
        "aperture": lens.aperture, "widest": max(widest, lens.aperture), "focus": min(max(lens.focus, lowest), highest),
        "fstop": f_number_from_aperture(1.0, focal_length, camera.fx, lens.unit),
        "blades": lens.blades, "rotation": lens.rotation % 360,
        "layers": [_layer(shown[i], *_numbers(picture, i), quality) for i in range(len(shown))],
    }  # fmt: skip


def _numbers(picture: LayeredPicture, i: int) -> tuple[np.ndarray, np.ndarray]:
    return picture.layers.alpha[i].numpy(), picture.layers.disparity[i].numpy()


def _layer(shown: np.ndarray, alpha: np.ndarray, disparity: np.ndarray, quality: int) -> dict[str, Any]:
    """Colour, lossy; disparity (red) and coverage (green), exactly as eight bits hold them."""
    depth, low, high = to_unit(disparity)
    matte = to_bytes(np.stack([depth, alpha, np.zeros_like(alpha)], axis=-1))
    matte[..., 0][matte[..., 1] == 0] &= 0xF0  # where nothing is, a coarse depth will do, and takes less room
    colour = _webp(to_bytes(shown), quality=quality, method=6)
    return {"low": low, "high": high, "colour": colour, "matte": _webp(matte, lossless=True, exact=True, method=6)}


def _webp(pixels: np.ndarray, **options: Any) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "WEBP", **options)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _script_safe(text: str) -> str:
    """JSON that cannot end the script that it stands in."""
    return text.replace("<", "\\u003c")
