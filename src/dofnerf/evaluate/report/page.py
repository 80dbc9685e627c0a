"""Pieces of a page, and the page: HTML with style, script and pictures inside, so that one file is all."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.evaluate.comparison import enlarged
from dofnerf.files import atomic
from dofnerf.files.pictures import to_bytes

WIDEST, WIDEST_SHEET = 1000, 1800  # pixels of a picture on the page, and of one that has others in it
LEAST_WIDE = 504  # pixels: smaller pictures are enlarged for the slider and crops
_QUALITY = 88


def write_page(path: Path, title: str, body: Sequence[str], about: str) -> None:
    """Write the page with these pieces; `about` stands at its foot."""
    here = resources.files("dofnerf.evaluate.report")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body><main>',
        f"<h1>{escape(title)}</h1>",
        *body,
        f"<footer>{escape(about)}</footer></main><script>{script}</script></body></html>",
    ]
    with atomic(path) as temporary:
        temporary.write_text("\n".join(parts) + "\n", encoding="utf-8")


def heading(words: str, below: str = "") -> str:
    """A section's beginning."""
    return f"<h2>{escape(words)}</h2>" + (f'<p class="soft">{escape(below)}</p>' if below else "")


def subheading(words: str) -> str:
    return f"<h3>{escape(words)}</h3>"


def paragraph(words: str, soft: bool = True) -> str:
    return f'<p class="soft">{escape(words)}</p>' if soft else f"<p>{escape(words)}</p>"


def numbers(values: Sequence[tuple[str, str]]) -> str:
    """Large figures with what they are beneath."""
    cards = "".join(
        f'<div class="number"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in values
    )
    return f'<div class="numbers">{cards}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], last_is_mean: bool = False) -> str:
    """A table that scrolls sideways where the page is narrow."""
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for k, row in enumerate(rows):
        mark = ' class="mean"' if last_is_mean and k == len(rows) - 1 else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def slider(before: tuple[str, np.ndarray], after: tuple[str, np.ndarray]) -> str:
    """Two pictures (H, W, 3) of one size and their names; what one shows left of a bar, the other shows right of it."""
    (left, first), (right, second) = before, after
    return (
        f'<div class="compare"><img alt="{escape(left)}" src="{picture_uri(first)}">'
        f'<img class="after" alt="{escape(right)}" src="{picture_uri(second)}">'
        f'<span class="tag left">{escape(left)}</span><span class="tag right">{escape(right)}</span><div class="bar"></div>'
        f'<input type="range" min="0" max="100" step="0.1" value="50" aria-label="{escape(left)} or {escape(right)}"></div>'
    )


def figure(image: np.ndarray, caption: str) -> str:
    """A picture (H, W, 3) with words beneath."""
    words = escape(caption)
    return f'<figure><img alt="{words}" src="{picture_uri(image)}"><figcaption>{words}</figcaption></figure>'


def sheet(image: np.ndarray, caption: str) -> str:
    """A picture that has others in it: it scrolls sideways where the page is narrow."""
    words = escape(caption)
    shown = f'<div class="sheet"><img alt="{words}" src="{picture_uri(image, WIDEST_SHEET)}"></div>'
    return f"<figure>{shown}<figcaption>{words}</figcaption></figure>"


def drawing(svg: str, caption: str) -> str:
    """The same with a drawing."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def tiles(figures: Sequence[str]) -> str:
    return f'<div class="tiles">{"".join(figures)}</div>'


def pair(figures: Sequence[str]) -> str:
    return f'<div class="pair">{"".join(figures)}</div>'


def cameras_in_space(world: dict[str, Any], caption: str) -> str:
    """A canvas that turns; `world` as `space.world_of` makes it."""
    data = json.dumps(world, separators=(",", ":")).replace("<", "\\u003c")
    key = '<span class="key" style="background:var(--{})"></span>{}'
    return (
        f'<script type="application/json" id="world">{data}</script><figure><canvas class="cameras" data-world="world" '
        f'tabindex="0" role="img" aria-label="cameras in space"></canvas><figcaption>{escape(caption)}'
        f"{key.format('true', 'trained')}{key.format('accent', 'held out')}</figcaption></figure>"
    )


def picture_uri(image: np.ndarray, widest: int = WIDEST) -> str:
    """A picture as a link that holds it, shrunk if it is very wide."""
    picture = Image.fromarray(to_bytes(image))
    if picture.width > widest:
        picture = picture.resize((widest, round(picture.height * widest / picture.width)), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def at_least(image: np.ndarray) -> np.ndarray:
    """The picture, enlarged if it is small."""
    height, width = image.shape[:2]
    return image if width >= LEAST_WIDE else enlarged(image, (LEAST_WIDE, round(height * LEAST_WIDE / width)))
