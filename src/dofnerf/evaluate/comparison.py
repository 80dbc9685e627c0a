"""Pictures that show a difference: error maps, the crop with the largest error, depth in colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from dofnerf.files import contact_sheet
from dofnerf.files.pictures import to_bytes

ERROR_RANGE = 0.1  # the paper's: from 0 to this pixel value (0.2 in its comparison with DS-NeRF)
ZOOM = 4  # how much larger a crop is shown, compared with its picture
LEAST_SHOWN = 480  # pixels: smaller pictures are shown larger


class Box(NamedTuple):
    """Edges in pixels; the right and lower ones lie outside."""

    left: int
    top: int
    right: int
    bottom: int


def error_map(image: np.ndarray, truth: np.ndarray, most: float = ERROR_RANGE) -> np.ndarray:
    """The mean absolute difference of the channels, 0 … `most` in colours, (H, W, 3) uint8."""
    difference = np.abs(np.clip(image, 0, 1).astype(np.float64) - truth).mean(-1)
    return in_colours(difference / most, "inferno")


def depth_picture(disparity: np.ndarray, far: float, near: float) -> np.ndarray:
    """Disparity (H, W) in colours, from that of the far end to that of the near end, (H, W, 3) uint8."""
    return in_colours((disparity - far) / max(near - far, 1e-12), "viridis")


def in_colours(values: np.ndarray, name: str) -> np.ndarray:
    """Values 0 … 1 (H, W) → (H, W, 3) uint8, by matplotlib's map of that name; NaN counts as 0."""
    from matplotlib import colormaps

    return colormaps[name](np.clip(np.nan_to_num(values), 0, 1), bytes=True)[..., :3]


def largest_error_box(image: np.ndarray, truth: np.ndarray) -> Box:
    """The box, 1 / ZOOM of the picture each way, in which the two (H, W, 3) differ most."""
    return box_of_most(np.abs(np.clip(image, 0, 1).astype(np.float64) - truth).mean(-1))


def box_of_most(values: np.ndarray) -> Box:
    """The box, 1 / ZOOM of (H, W) each way, over which `values` sum up to most."""
    height, width = values.shape
    tall, wide = max(1, height // ZOOM), max(1, width // ZOOM)
    sums = np.pad(values.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    within = sums[tall:, wide:] - sums[:-tall, wide:] - sums[tall:, :-wide] + sums[:-tall, :-wide]
    top, left = np.unravel_index(int(within.argmax()), within.shape)
    return Box(int(left), int(top), int(left) + wide, int(top) + tall)


def enlarged(image: np.ndarray, size: tuple[int, int], box: Box | None = None) -> np.ndarray:
    """The picture, or the part of it in `box`, at `size` (width, height), (H, W, 3) uint8."""
    return np.asarray(Image.fromarray(to_bytes(image)).resize(size, Image.Resampling.LANCZOS, box=box))


def zoomed(image: np.ndarray, box: Box, larger: int) -> tuple[np.ndarray, np.ndarray]:
    """The picture `larger` times as large with a frame around the box, and the content of the box at the same size."""
    height, width = image.shape[:2]
    size = larger * width, larger * height
    whole = Image.fromarray(enlarged(image, size))
    left, top, right, bottom = (larger * edge for edge in box)
    draw = ImageDraw.Draw(whole)
    draw.rectangle((left - 3, top - 3, right + 2, bottom + 2), outline="black", width=1)
    draw.rectangle((left - 2, top - 2, right + 1, bottom + 1), outline="white", width=2)
    return np.asarray(whole), enlarged(image, size, box)


def crops_sheet(
    shown: Sequence[tuple[str, np.ndarray]], truth: np.ndarray, box: Box, heading: str = "", most: float = ERROR_RANGE
) -> np.ndarray:
    """Named pictures and the truth side by side; beneath, the box of each and its error. uint8."""
    larger = -(-LEAST_SHOWN // truth.shape[1])
    rows: list[list[tuple[str, np.ndarray]]] = [[], [], []]
    for name, image in [*shown, ("the truth", truth)]:
        whole, crop = zoomed(image, box, larger)
        rows[0].append((name, whole))
        rows[1].append((f"{ZOOM} times closer", crop))
        errors = enlarged(error_map(image, truth, most), (whole.shape[1], whole.shape[0]), box)
        rows[2].append((f"its error, 0 (black) to {most:g} (yellow)", errors))
    return contact_sheet([tile for row in rows for tile in row], columns=len(rows[0]), heading=heading)
