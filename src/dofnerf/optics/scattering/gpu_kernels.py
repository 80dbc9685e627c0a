"""The triton kernels behind gpu.py: one program owns a square tile of pixels and gathers.

An offset (row, column) always points from source to target. All pixels of a tile take it together, so reach and length
are scalars. Pictures are (B, H, W, CHANNELS), radii (B, H, W), all float32 and contiguous.
"""

from __future__ import annotations

from dofnerf.optics.shapes import RIM, STEEPNESS, STRETCH
from dofnerf.optics.triton_kernels import tl, triton

__all__ = [
    "CHUNK", "GROUP", "TILE", "WARPS", "backward_kernel", "boxes_kernel", "forward_kernel", "lattice_sum_kernel",
]  # fmt: skip

TILE = 8  # pixels along a tile's side
GROUP = 4  # channels that a program carries: colour and weight, one 128-bit load
CHUNK = 32  # tiles, or offsets of a lattice row, taken at once
WARPS = 2  # one thread per pixel of a tile

_RIM = tl.constexpr(RIM)
_STRETCH = tl.constexpr(STRETCH)
_SHARPNESS = tl.constexpr(2 * STEEPNESS)  # ½ + ½ tanh 4x is the logistic function of 8x


@triton.jit
def _soften(radius, row, column, normals, apothem, BLADES: tl.constexpr):
    """The weight edge(k·r − l) at an offset (floats) from sources of these radii, and its derivative by r."""
    length = tl.sqrt(row * row + column * column)
    reach = 1.0
    if BLADES > 0:
        projection = length * 0.0 + 1e-12
        for blade in tl.static_range(BLADES):
            along = tl.load(normals + 2 * blade) * column + tl.load(normals + 2 * blade + 1) * row
            projection = tl.maximum(projection, along)
        reach = tl.where(length > 0.0, length * apothem / projection, apothem)
    inside = radius * reach - length
    # The exponent is at most 8: nothing overflows. Beyond the rim the weight is 0 or 1 to the last bit, so that the
    # many sources that are near but do not reach add nothing at all.
    logistic = 1.0 / (1.0 + tl.exp(tl.maximum(inside, -_RIM) * -_SHARPNESS))
    weight = tl.where(inside <= -_RIM, 0.0, (logistic - 0.5) * _STRETCH + 0.5)
    weight = tl.where(inside >= _RIM, 1.0, weight)
    slope = logistic * (1.0 - logistic) * (_STRETCH * _SHARPNESS) * reach
    return weight, tl.where(tl.abs(inside) < _RIM, slope, 0.0)


@triton.jit
def _chord(row, support):
    """Columns either side that a disc of radius `support` has in a row, |row| ≤ support."""
    square = tl.cast(support, tl.float32) * support - tl.cast(row, tl.float32) * row
    return tl.cast(tl.sqrt(tl.maximum(square, 0.0)), tl.int32)


@triton.jit
def boxes_kernel(largest, boxes, tile_rows, tile_columns, across, TILE: tl.constexpr, CHUNK: tl.constexpr):
    """Per target tile, which offsets can bring light: (first row, last row, first column, last column, support).

    `largest` (B, tile_rows, tile_columns) holds each tile's largest radius. The box covers the offsets from every
    source tile that reaches this one, both ends included; no source lies beyond the support, a length.
    """
    tile = tl.program_id(0)
    here_column = tile % tile_columns
    here_row = tile // tile_columns % tile_rows
    picture = largest + tl.cast(tile // (tile_columns * tile_rows), tl.int64) * tile_rows * tile_columns
    lane = tl.arange(0, CHUNK)
    top = tl.zeros((CHUNK,), tl.int32)
    bottom, left, right, farthest = top, top, top, top
    first_column = tl.maximum(here_column - across, 0)
    last_column = tl.minimum(here_column + across, tile_columns - 1)
    for there_row in range(tl.maximum(here_row - across, 0), tl.minimum(here_row + across, tile_rows - 1) + 1):
        for start in range(first_column, last_column + 1, CHUNK):
            there_column = start + lane
            exists = there_column <= last_column
            radius = tl.load(picture + there_row * tile_columns + there_column, mask=exists, other=0.0)
            row = (here_row - there_row) * TILE + lane * 0
            column = (here_column - there_column) * TILE
            row_gap = tl.cast(tl.maximum(tl.abs(row) - TILE + 1, 0), tl.float32)
            column_gap = tl.cast(tl.maximum(tl.abs(column) - TILE + 1, 0), tl.float32)
            near = row_gap * row_gap + column_gap * column_gap <= (radius + _RIM) * (radius + _RIM)
            support = tl.where(exists & near, tl.cast(radius + _RIM, tl.int32), 0)  # 0 widens no box
            top = tl.minimum(top, tl.maximum(row - TILE + 1, -support))
            bottom = tl.maximum(bottom, tl.minimum(row + TILE - 1, support))
            left = tl.minimum(left, tl.maximum(column - TILE + 1, -support))
            right = tl.maximum(right, tl.minimum(column + TILE - 1, support))
            farthest = tl.maximum(farthest, support + 1)
    box = boxes + tl.cast(tile, tl.int64) * 5
    tl.store(box, tl.min(top, axis=0))
    tl.store(box + 1, tl.max(bottom, axis=0))
    tl.store(box + 2, tl.min(left, axis=0))
    tl.store(box + 3, tl.max(right, axis=0))
    tl.store(box + 4, tl.max(farthest, axis=0))


@triton.jit
def _place(height, width, CHANNELS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr):
    """What this program owns: picture, tile within it, group of channels, and its pixels' rows and columns (TILE²,)."""
    columns = tl.cdiv(width, TILE)
    tiles = tl.cdiv(height, TILE) * columns
    groups: tl.constexpr = CHANNELS // GROUP
    tile = tl.program_id(0) % tiles
    group = tl.program_id(0) // tiles % groups
    picture = tl.cast(tl.program_id(0) // (tiles * groups), tl.int64)  # 64 bits: all indices that follow are
    lane = tl.arange(0, TILE * TILE)
    y = tile // columns * TILE + lane // TILE
    x = tile % columns * TILE + lane % TILE
    return picture, picture * tiles + tile, group, y, x


@triton.jit
def forward_kernel(  # noqa: PLR0913, PLR0917
    light, radius, boxes, out, normals, apothem, height, width,
    CHANNELS: tl.constexpr, BLADES: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Each target pixel of a tile sums the light of all sources that reach it."""
    picture, tile, group, y, x = _place(height, width, CHANNELS, TILE, GROUP)
    here = (picture * height + y) * width + x
    channel = group * GROUP + tl.arange(0, GROUP)[None, :]
    light_here = light + (here[:, None] * CHANNELS + channel)
    radius_here = radius + here
    total = tl.zeros((TILE * TILE, GROUP), tl.float32)
    first, last = tl.load(boxes + tile * 5), tl.load(boxes + tile * 5 + 1)
    left, right = tl.load(boxes + tile * 5 + 2), tl.load(boxes + tile * 5 + 3)
    support = tl.load(boxes + tile * 5 + 4)
    left, right = tl.maximum(left, 1 - width), tl.minimum(right, width - 1)
    for row in range(tl.maximum(first, 1 - height), tl.minimum(last, height - 1) + 1):
        chord = _chord(row, support)
        down, above = tl.cast(row, tl.float32), tl.cast(row, tl.int64) * width
        row_exists = (y >= row) & (y < height + row)
        for column in range(tl.maximum(left, -chord), tl.minimum(right, chord) + 1):
            exists = row_exists & (x >= column) & (x < width + column)
            back = above + column
            source_radius = tl.load(radius_here - back, mask=exists, other=0.0)
            source_light = tl.load(light_here - back * CHANNELS, mask=exists[:, None], other=0.0)
            weight, _ = _soften(source_radius, down, tl.cast(column, tl.float32), normals, apothem, BLADES)
            total += weight[:, None] * source_light
    tl.store(out + (here[:, None] * CHANNELS + channel), total, mask=((y < height) & (x < width))[:, None])


@triton.jit
def backward_kernel(  # noqa: PLR0913, PLR0917
    light, radius, grad, grad_light, grad_radius, normals, apothem, batch, height, width,
    CHANNELS: tl.constexpr, BLADES: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Each source pixel of a tile sums the gradients of all targets that it reaches: A = Σ edge·grad, B = Σ
    ∂edge/∂r·grad.

    Then ∂light = A and ∂r = B·light, the latter per group of channels: grad_radius (groups, B, H, W).
    """
    picture, _, group, y, x = _place(height, width, CHANNELS, TILE, GROUP)
    here = (picture * height + y) * width + x
    channel = group * GROUP + tl.arange(0, GROUP)[None, :]
    place = here[:, None] * CHANNELS + channel
    own = (y < height) & (x < width)
    source_radius = tl.load(radius + here, mask=own, other=0.0)
    flat = tl.zeros((TILE * TILE, GROUP), tl.float32)
    bend = tl.zeros((TILE * TILE, GROUP), tl.float32)
    support = tl.cast(tl.max(source_radius, axis=0) + _RIM, tl.int32) + 1
    top, left = tl.min(y, axis=0), tl.min(x, axis=0)
    bottom, right = tl.minimum(top + TILE, height) - 1, tl.minimum(left + TILE, width) - 1
    for row in range(tl.maximum(1 - support, -bottom), tl.minimum(support - 1, height - 1 - top) + 1):
        chord = _chord(row, support)
        down, below = tl.cast(row, tl.float32), tl.cast(row, tl.int64) * width
        row_exists = (y >= -row) & (y < height - row)
        for column in range(tl.maximum(-chord, -right), tl.minimum(chord, width - 1 - left) + 1):
            exists = row_exists & (x >= -column) & (x < width - column)
            seen = tl.load(grad + place + (below + column) * CHANNELS, mask=exists[:, None], other=0.0)
            weight, slope = _soften(source_radius, down, tl.cast(column, tl.float32), normals, apothem, BLADES)
            flat += weight[:, None] * seen
            bend += slope[:, None] * seen
    source_light = tl.load(light + place, mask=own[:, None], other=0.0)
    tl.store(grad_light + place, flat, mask=own[:, None])
    plane = tl.cast(group, tl.int64) * batch * height * width
    tl.store(grad_radius + plane + here, tl.sum(bend * source_light, axis=1), mask=own)


@triton.jit
def lattice_sum_kernel(  # noqa: PLR0913, PLR0917
    radius, total, slope, count, normals, apothem, BLADES: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr
):
    """N(r) and N'(r) of `count` radii. A disc is four quarter turns of one quadrant, its axis included once, and the
    centre."""
    index = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    r = tl.load(radius + index, mask=index < count, other=0.0)[:, None]
    support = tl.cast(tl.max(r) + _RIM, tl.int32) + 1
    lane = tl.arange(0, CHUNK)[None, :]
    weights = tl.zeros((BLOCK, CHUNK), tl.float32)
    slopes = tl.zeros((BLOCK, CHUNK), tl.float32)
    lowest = 1 - support
    if BLADES == 0:
        lowest = support * 0
    for row in range(lowest, support):
        chord = _chord(row, support)
        leftmost = -chord
        if BLADES == 0:
            leftmost = chord * 0 + 1
        for start in range(leftmost, chord + 1, CHUNK):
            column = tl.cast(start + lane, tl.float32)
            weight, bend = _soften(r, tl.cast(row, tl.float32), column, normals, apothem, BLADES)
            weights += weight
            slopes += bend
    n = tl.sum(weights, axis=1)
    dn = tl.sum(slopes, axis=1)
    if BLADES == 0:
        weight, bend = _soften(tl.sum(r, axis=1), support * 0.0, support * 0.0, normals, apothem, BLADES)
        n = 4.0 * n + weight
        dn = 4.0 * dn + bend
    tl.store(total + index, n, mask=index < count)
    tl.store(slope + index, dn, mask=index < count)
