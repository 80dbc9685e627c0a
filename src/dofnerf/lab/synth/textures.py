"""Procedural textures: what makes the built-in layouts rich in detail.

A texture is float (H, W, 3) in display space, 0..1, row 0 at the top. Letters come from Pillow's own font. Everything
is drawn from a `numpy.random.Generator`, so a seed gives the same picture on every machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[float, float, float]


def noise(rng: np.random.Generator, height: int, width: int, cells: tuple[int, int], octaves: int = 4) -> np.ndarray:
    """Fractal noise (H, W), mean about 0.5: random values on `cells` (rows, columns); octaves twice as fine, half as
    strong."""
    total, weight = np.zeros((height, width)), 0.0
    for octave in range(octaves):
        grid = rng.random((min(cells[0] << octave, height) + 1, min(cells[1] << octave, width) + 1)).astype(np.float32)
        smooth = Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC)
        total += np.asarray(smooth) * 0.5**octave
        weight += 0.5**octave
    return total / weight


def blend(a: Colour | np.ndarray, b: Colour | np.ndarray, amount: np.ndarray) -> np.ndarray:
    """a where `amount` (H, W) is 0, b where it is 1; colours or textures."""
    amount = np.clip(amount, 0.0, 1.0)[..., None]
    return np.asarray(a) * (1.0 - amount) + np.asarray(b) * amount


def wood(
    rng: np.random.Generator, size: tuple[int, int], light: Colour, dark: Colour, rings: float = 9.0
) -> np.ndarray:
    """Grain along the height of `size` (H, W): bent rings, fine pores."""
    height, width = size
    bend = noise(rng, height, width, (2, 3), 3)
    x = np.linspace(0.0, 1.0, width)[None, :]
    ring = 0.5 + 0.5 * np.sin(2.0 * np.pi * rings * (x + 0.35 * bend))
    pores = noise(rng, height, width, (6, max(width // 4, 2)), 2)
    return blend(light, dark, 0.6 * ring**2 + 0.6 * (pores - 0.3))


def planks(rng: np.random.Generator, size: tuple[int, int], count: int, light: Colour, dark: Colour) -> np.ndarray:
    """`count` boards side by side, each its own wood and tone, dark gaps between."""
    height, width = size
    edges = np.linspace(0, width, count + 1).astype(int)
    boards = []
    for left, right in itertools.pairwise(edges):
        board = wood(rng, (height, right - left), light, dark, rings=rng.uniform(2, 5)) * rng.uniform(0.8, 1.1)
        board[:, : max((right - left) // 60, 1)] *= 0.3
        boards.append(board)
    return np.clip(np.concatenate(boards, axis=1), 0.0, 1.0)


def chessboard(rng: np.random.Generator, square: int = 96) -> np.ndarray:
    """Eight by eight squares of two woods, an inlaid line and a dark border of half a square."""
    light = wood(rng, (8 * square, 8 * square), (0.93, 0.80, 0.58), (0.78, 0.58, 0.34), 40)
    dark = wood(rng, (8 * square, 8 * square), (0.42, 0.22, 0.12), (0.20, 0.09, 0.05), 34)
    step = np.arange(8 * square) // square
    field = blend(light, dark, ((step[:, None] + step[None, :]) % 2).astype(float))
    for shade in rng.uniform(0.88, 1.08, 64):  # squares were cut from different boards
        index = int(rng.integers(64))
        y, x = (index // 8) * square, (index % 8) * square
        field[y : y + square, x : x + square] *= shade
    border = square // 2
    board = wood(rng, (9 * square, 9 * square), (0.36, 0.18, 0.10), (0.18, 0.08, 0.05), 16)
    line = border - square // 12
    board[line : 9 * square - line, line : 9 * square - line] = (0.86, 0.68, 0.38)
    board[border:-border, border:-border] = field
    return np.clip(board, 0.0, 1.0)


def weave(rng: np.random.Generator, size: tuple[int, int], threads: int, colours: Sequence[Colour]) -> np.ndarray:
    """Woven cloth: `threads` across, coloured stripes both ways, over and under."""
    height, width = size
    y = np.arange(height)[:, None] * threads / width
    x = np.arange(width)[None, :] * threads / width
    warp, weft = np.broadcast_to(np.floor(x), size).astype(int), np.broadcast_to(np.floor(y), size).astype(int)
    stripes = rng.integers(len(colours), size=64)
    palette = np.asarray(colours)[np.repeat(stripes, rng.integers(2, 9, size=64))]
    over = ((warp + weft) % 2).astype(float)
    cloth = blend(palette[weft % len(palette)], palette[warp % len(palette)], over)
    round_thread = np.where(over > 0.5, np.abs(x % 1 - 0.5), np.abs(y % 1 - 0.5))
    return np.clip(cloth * (1.08 - 0.9 * round_thread[..., None]) * (0.85 + 0.3 * rng.random((*size, 1))), 0.0, 1.0)


def bricks(rng: np.random.Generator, size: tuple[int, int], rows: int, colour: Colour, mortar: Colour) -> np.ndarray:
    """A running bond that tiles sideways; each brick its own tone, worn and speckled. `rows` should be even."""
    height, width = size
    tall = height / rows
    across = max(round(width / (2.6 * tall)), 1)
    wide = width / across
    y = np.arange(height)[:, None] / tall
    x = np.arange(width)[None, :] / wide + 0.5 * (np.floor(y) % 2)
    tone = rng.uniform(0.72, 1.2, (rows + 1, 64))[np.floor(y).astype(int), np.floor(x).astype(int) % across]
    hue = rng.normal(0.0, 0.05, (rows + 1, 64))[np.floor(y).astype(int), np.floor(x).astype(int) % across]
    wear = noise(rng, height, width, (rows * 2, rows * 3), 3)
    stone = np.asarray(colour) * tone[..., None] * (0.65 + 0.7 * wear[..., None])
    stone[..., 0] += hue
    gap = (
        np.maximum(np.abs(x % 1 - 0.5) * wide, np.abs(y % 1 - 0.5) * tall + (wide - tall) / 2) > wide / 2 - 0.06 * tall
    )
    grit = np.asarray(mortar) * (0.75 + 0.5 * noise(rng, height, width, (rows * 6, rows * 9), 2)[..., None])
    return np.clip(np.where(gap[..., None], grit, stone), 0.0, 1.0)


def tiles(rng: np.random.Generator, size: int, count: int, ink: Colour, glaze: Colour) -> np.ndarray:
    """Glazed tiles, each a four-fold symmetric ornament, in two designs set like a chessboard; `size` pixels square."""
    side = size // count
    y, x = np.mgrid[0:side, 0:side] / side - 0.5 + 0.5 / side
    r, angle = np.hypot(x, y), np.arctan2(y, x)
    flower = np.abs(r - 0.3 - 0.09 * np.cos(8 * angle)) < 0.035
    star = r < 0.16 + 0.06 * np.cos(4 * angle)
    corner = np.abs(np.hypot(np.abs(x) - 0.5, np.abs(y) - 0.5) - 0.2) < 0.04
    diamond = np.abs(np.abs(x) + np.abs(y) - 0.38) < 0.03
    petals = r < 0.25 * np.abs(np.sin(2 * angle)) + 0.04
    designs = [flower | star | corner, diamond | petals | corner]
    rows = []
    for i in range(count):
        row = []
        for j in range(count):
            tile = blend(glaze, ink, designs[(i + j) % 2] * rng.uniform(0.8, 1.0)) * rng.uniform(0.92, 1.04)
            tile[np.maximum(np.abs(x), np.abs(y)) > 0.485] = 0.45
            row.append(tile)
        rows.append(np.concatenate(row, axis=1))
    return np.clip(np.concatenate(rows), 0.0, 1.0)


def globe(rng: np.random.Generator, size: tuple[int, int] = (256, 512)) -> np.ndarray:
    """Invented continents with coasts, a graticule and place-name dots."""
    height, width = size
    land = noise(rng, height, width, (3, 5), 5)
    land = 0.5 * (land + land[:, ::-1])  # the same on both sides of the seam
    sea = blend((0.16, 0.34, 0.46), (0.42, 0.66, 0.70), noise(rng, height, width, (8, 16)))
    ground = blend((0.90, 0.78, 0.46), (0.36, 0.52, 0.22), noise(rng, height, width, (6, 12)) * 1.8 - 0.4)
    ground = blend(ground, (0.72, 0.36, 0.22), (noise(rng, height, width, (7, 14)) - 0.55) * 6)
    picture = blend(sea, ground, (land - 0.49) * 60)
    picture[np.abs(land - 0.49) < 0.006] = (0.25, 0.16, 0.10)
    picture[:: height // 12] *= 0.6
    picture[:, :: width // 24] *= 0.6
    return np.clip(picture, 0.0, 1.0)


def foliage(rng: np.random.Generator, size: tuple[int, int], light: Colour, dark: Colour) -> np.ndarray:
    """One leaf: a pale midrib, side veins, mottled green; the tip at the top."""
    height, width = size
    x = np.linspace(-1.0, 1.0, width)[None, :]
    y = np.linspace(1.0, 0.0, height)[:, None]
    green = blend(light, dark, 1.2 * noise(rng, height, width, (5, 3)) - 0.2 + 0.25 * np.abs(x))
    veins = np.abs(np.sin((y * 9.0 - np.abs(x) * 1.3) * np.pi)) < 0.14
    rib = np.abs(x) < 0.07
    return np.clip(green + 0.16 * (veins | rib)[..., None], 0.0, 1.0)


def printed(size: tuple[int, int], text: str, paper: Colour, ink: Colour, sideways: bool = False) -> np.ndarray:
    """Paper of `size` (H, W) with `text` as large as fits, its lines as given; `sideways` reads from top to bottom."""
    height, width = size[::-1] if sideways else size
    page = Image.new("RGB", (width, height), _bytes(paper))
    draw = ImageDraw.Draw(page)
    points = 8
    while points < 400:
        left, top, right, bottom = draw.multiline_textbbox(
            (0, 0), text, font=ImageFont.load_default(points + 2), align="center"
        )
        if right - left > 0.86 * width or bottom - top > 0.74 * height:
            break
        points += 2
    font = ImageFont.load_default(points)
    draw.multiline_text((width / 2, height / 2), text, fill=_bytes(ink), font=font, anchor="mm", align="center")
    picture = np.asarray(page, dtype=float) / 255.0
    return np.rot90(picture, -1).copy() if sideways else picture


def playing_card(rank: str, suit: str, height: int = 210) -> np.ndarray:
    """A card face, `height` by 5/7 of it: rank in two corners, one large pip; `suit` is heart, diamond or spade."""
    width = height * 5 // 7
    y, x = np.mgrid[0:height, 0:width]
    x, y = (x + 0.5 - width / 2) / (0.3 * width), (height / 2 - y - 0.5) / (0.3 * width)
    heart = (x**2 + y**2 - 1) ** 3 - x**2 * y**3 < 0
    spade = ((x**2 + y**2 - 1) ** 3 + x**2 * y**3 < 0) | (
        (np.abs(x) < 0.12 - 0.2 * (y + 0.8)) & (y < -0.2) & (y > -1.3)
    )
    diamond = np.abs(x) / 0.8 + np.abs(y) / 1.15 < 1
    ink = (0.12, 0.12, 0.15) if suit == "spade" else (0.78, 0.10, 0.12)
    card = blend((0.97, 0.95, 0.90), ink, {"heart": heart, "spade": spade, "diamond": diamond}[suit].astype(float))
    corner = printed((height // 5, width // 4), rank, (0.97, 0.95, 0.90), ink)
    card[6 : 6 + len(corner), 6 : 6 + corner.shape[1]] = corner
    card[-6 - len(corner) : -6, -6 - corner.shape[1] : -6] = corner[::-1, ::-1]
    return card


def _bytes(colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (round(255 * value) for value in colour)
    return red, green, blue
