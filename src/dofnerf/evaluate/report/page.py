"""The parts of a report page, as HTML strings; the pictures are inside, so that one file is all."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.evaluate.comparison import enlarged
from dofnerf.files.outputs import check_file, write_text
from dofnerf.files.pictures import to_bytes
from dofnerf.web import fill, picture_data, read_part, script_data
from dofnerf.web.walk_page import bundle

FILE = "report.html"
WIDEST, WIDEST_SHEET = 1000, 1800  # pixels of a picture on the page, and of a contact sheet
LEAST_WIDE = 504  # pixels: smaller pictures are enlarged for the slider and crops
_QUALITY = 88


def check_page(path: Path) -> None:
    """Refuse a file that cannot be the page, before work is done."""
    check_file("--out", path, (".html", ".htm"))


def write_page(path: Path, title: str, body: Sequence[str], about: str) -> None:
    """Write the page; `about` stands in its footer."""
    parts = {"title": escape(title), "body": "\n".join(body), "about": escape(about)}
    write_text(path, fill(read_part("report.html"), **parts))
    print(f"wrote    {path} ({path.stat().st_size / 1e6:.1f} MB)")


def heading(words: str, below: str = "") -> str:
    return f"<h2>{escape(words)}</h2>" + (paragraph(below) if below else "")


def subheading(words: str) -> str:
    return f"<h3>{escape(words)}</h3>"


def paragraph(words: str) -> str:
    return f'<p class="soft">{escape(words)}</p>'


def numbers(values: Sequence[tuple[str, str]]) -> str:
    """Cards of (name, value)."""
    cards = (f'<div class="number"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in values)
    return f'<div class="numbers">{"".join(cards)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], last_is_mean: bool = False) -> str:
    """A table that scrolls sideways where the page is narrow."""
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for k, row in enumerate(rows):
        mark = ' class="mean"' if last_is_mean and k == len(rows) - 1 else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def slider(before: tuple[str, np.ndarray], after: tuple[str, np.ndarray]) -> str:
    """Two named pictures (H, W, 3) of one size, with a bar to drag: the first left of it, the second right."""
    (left, first), (right, second) = ((escape(name), picture_uri(_at_least(image))) for name, image in (before, after))
    return (
        f'<div class="compare"><img alt="{left}" src="{first}"><img class="after" alt="{right}" src="{second}">'
        f'<span class="tag left">{left}</span><span class="tag right">{right}</span><div class="bar"></div>'
        f'<input type="range" min="0" max="100" step="0.1" value="50" aria-label="{left} or {right}"></div>'
    )


def figure(image: np.ndarray, caption: str) -> str:
    """A picture (H, W, 3) with a caption."""
    return drawing(f'<img alt="{escape(caption)}" src="{picture_uri(image)}">', caption)


def sheet(image: np.ndarray, caption: str) -> str:
    """A contact sheet: it scrolls sideways where the page is narrow."""
    shown = f'<img alt="{escape(caption)}" src="{picture_uri(image, WIDEST_SHEET)}">'
    return drawing(f'<div class="sheet">{shown}</div>', caption)


def drawing(element: str, caption: str) -> str:
    """An HTML or SVG element with a caption."""
    return f"<figure>{element}<figcaption>{escape(caption)}</figcaption></figure>"


def grid(kind: str, figures: Sequence[str]) -> str:
    """Figures side by side, as many as there is room for; `kind` is tiles (small) or pair (large)."""
    return f'<div class="{kind}">{"".join(figures)}</div>'


def details(summary: str, body: str) -> str:
    """Something that is shown when its summary is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def scene_in_space(facts: dict[str, Any], scene: bytes) -> str:
    """The scene to turn, with its cameras to click on; `facts` and `scene` as `space.py` makes them."""
    packed = base64.b64encode(scene).decode("ascii")
    return fill(read_part("space.html"), facts=script_data(facts), scene=packed, script=bundle("space"))


def picture_uri(image: np.ndarray, widest: int = WIDEST) -> str:
    """A picture as a data URI, shrunk to `widest` pixels across if it is wider."""
    picture = Image.fromarray(to_bytes(image))
    if picture.width > widest:
        picture = picture.resize((widest, round(picture.height * widest / picture.width)), Image.Resampling.LANCZOS)
    return picture_data(np.asarray(picture), "JPEG", quality=_QUALITY, subsampling=0)


def _at_least(image: np.ndarray) -> np.ndarray:
    """The picture, enlarged if it is small."""
    height, width = image.shape[:2]
    return image if width >= LEAST_WIDE else enlarged(image, (LEAST_WIDE, round(height * LEAST_WIDE / width)))
