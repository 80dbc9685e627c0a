"""Why photos have no pose, in words and on the sheet that `capture` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from dofnerf.capture.mapping import Mapped
from dofnerf.capture.photos import Photo
from dofnerf.files import contact_sheet, write_image

_BLURRED = 0.35  # of the median number of features: too few
_FEW = 15  # verified matches with the best partner
_TILE, _COLUMNS, _TILES = 300, 6, 120  # of the sheet: pixels across, columns, photos at most


def explain(photos: Sequence[Photo], mapped: Mapped) -> dict[str, str]:
    """A reason for each prepared photo (by file name) that has no pose."""
    features = np.median([mapped.features.get(photo.name, 0) for photo in photos])
    sharp = np.median([photo.sharpness for photo in photos])
    reasons = {}
    for photo in photos:
        if photo.name in mapped.registered:
            continue
        own, best = mapped.features.get(photo.name, 0), mapped.matches.get(photo.name, 0)
        if own < _BLURRED * features and photo.sharpness < 0.8 * sharp:
            reason = f"too blurred or too plain: {own} features, the others have about {features:.0f}"
        elif best < _FEW:
            reason = f"too few matches: at most {best} with any other photo; it may show something else"
        else:
            reason = f"its matches (at most {best} with one photo) do not fit the others' poses"
        reasons[photo.source.name] = reason
    return reasons


def write_sheet(path: Path, photos: Sequence[Photo], left_out: Mapping[str, str], heading: str) -> None:
    """All prepared photos (the first 120), those without a pose first and dimmed, with the reason below."""
    order = sorted(photos, key=lambda photo: (photo.source.name not in left_out, photo.name))[:_TILES]
    tiles = []
    for photo in order:
        name, reason = photo.source.name, left_out.get(photo.source.name)
        with Image.open(photo.file) as picture:
            small = ImageOps.pad(picture.convert("RGB"), (_TILE, _TILE * 3 // 4), color=(24, 24, 26))
        image = np.asarray(small, dtype=np.float32) / 255
        if reason is not None:
            image = image * 0.45
            image[:4] = image[-4:] = (0.85, 0.3, 0.1)
        tiles.append((_caption(name, reason), image))
    write_image(path, contact_sheet(tiles, min(_COLUMNS, len(tiles)), heading=heading))


def _caption(name: str, reason: str | None) -> str:
    if reason is None:
        return name[-36:]
    lines, line = [name[-36:]], ""
    for word in f"left out: {reason}".split():
        if len(line) + len(word) > 38:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line][:4])
