"""Several pictures on one sheet, each with its caption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dofnerf.files.pictures import to_bytes

_PAPER, _INK = (24, 24, 26), (235, 235, 235)


def _letters() -> str:
    """The file of a font with most of the world's letters, which matplotlib brings along."""
    from matplotlib import get_data_path

    return f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf"


def contact_sheet(
    tiles: Sequence[tuple[str, np.ndarray]], columns: int, margin: int = 12, heading: str = ""
) -> np.ndarray:
    """Pictures (H, W, 3), all of one size, in rows with a caption under each, one line or more → uint8."""
    height, width = tiles[0][1].shape[:2]
    font, large = (ImageFont.truetype(_letters(), size) for size in (max(12, width // 28), max(14, width // 20)))
    line = max(12, width // 28) * 1.35
    caption = round(line * max(words.count("\n") + 1 for words, _ in tiles) + 0.85 * line)
    top = round(2.4 * max(14, width // 20)) if heading else 0
    rows = -(-len(tiles) // columns)
    cell = width + margin, height + caption
    sheet = Image.new("RGB", (columns * cell[0] + margin, top + rows * cell[1] + margin), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((sheet.width / 2, (top + margin) / 2), heading, fill=_INK, font=large, anchor="mm")
    for i, (words, image) in enumerate(tiles):
        x, y = margin + i % columns * cell[0], top + margin + i // columns * cell[1]
        sheet.paste(Image.fromarray(to_bytes(image)), (x, y))
        middle = x + width / 2, y + height + (caption - margin / 2) / 2
        draw.multiline_text(middle, words, fill=_INK, font=font, anchor="mm", align="center", spacing=line * 0.25)
    return np.asarray(sheet)
