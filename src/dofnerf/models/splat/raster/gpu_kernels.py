"""The triton kernels behind gpu.py.

A *pair* is a view and a Gaussian, an *entry* a pair in a tile. `rows` (pairs,) is the row of the table (…, 10) and of
`reach` that a pair shows; `shifts` (views, 3) how far a view moves Gaussians, right and down, per unit of disparity
beyond the focus disparity, which is its third column. A tile has the entries `lists[tile]` to `lists[tile + 1]`, near
to far; `entries` are their pairs and `slots` where their gradients go.

Blending takes CHUNK entries at once, (CHUNK, pixels), each thread a pixel: the products of what earlier Gaussians let
through and the sums of what has been passed are scans along the chunk, inside a thread.
"""

from __future__ import annotations

from dofnerf.models.splat.gaussians import OPAQUEST, STOP
from dofnerf.optics.triton_kernels import tl, triton

TILE = 16  # pixels along a tile's side
CHUNK = 16  # entries taken at once
WARPS = 8  # one thread per pixel of a tile
BLOCK = 128  # pairs or entries of a program that has no pixels

_OPAQUEST, _STOP = tl.constexpr(OPAQUEST), tl.constexpr(STOP)
_SLACK = tl.constexpr(1e-3)  # pixels: rounding must not cost a Gaussian a tile, and each pixel is tested anyway


@triton.jit
def _ellipse(pair, exists, rows, table, reach, shifts, count):
    """Centre, conic and reach of pairs, in float64: the determinant of a needle's conic cancels in float32."""
    row = tl.load(rows + pair, mask=exists, other=0)
    at = table + tl.cast(row, tl.int64) * 10
    away = shifts + pair // count * 3
    behind = tl.load(away + 2, mask=exists, other=0.0) - tl.load(at + 9, mask=exists, other=0.0)
    x = tl.load(at, mask=exists, other=0.0) + tl.load(away, mask=exists, other=0.0) * behind
    y = tl.load(at + 1, mask=exists, other=0.0) + tl.load(away + 1, mask=exists, other=0.0) * behind
    a = tl.cast(tl.load(at + 2, mask=exists, other=1.0), tl.float64)
    b = tl.cast(tl.load(at + 3, mask=exists, other=0.0), tl.float64)
    c = tl.cast(tl.load(at + 4, mask=exists, other=1.0), tl.float64)
    ends = tl.cast(tl.load(reach + row, mask=exists, other=0.0), tl.float64)
    return tl.cast(x, tl.float64), tl.cast(y, tl.float64), a, b, c, ends


@triton.jit
def _tile_range(middle, half, pixels, TILE: tl.constexpr):
    """First tile, and how many, with pixel centres within `half` of `middle`."""
    most = tl.cast(pixels, tl.float64) - 1
    first = tl.cast(tl.ceil(tl.minimum(tl.maximum(middle - half - 0.5 - _SLACK, 0.0), most + 1)), tl.int32)
    last = tl.cast(tl.floor(tl.maximum(tl.minimum(middle + half - 0.5 + _SLACK, most), -1.0)), tl.int32)
    return first // TILE, tl.where(first <= last, last // TILE - first // TILE + 1, 0)


@triton.jit
def boxes_kernel(  # noqa: PLR0913, PLR0917
    rows, table, reach, shifts, boxes, counts, pairs, count, width, height, TILE: tl.constexpr, BLOCK: tl.constexpr
):
    """The tiles of each pair's bounding box: boxes (pairs, 3) first column, first row, columns; and counts (pairs,).

    `count` pairs are of one view.
    """
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = pair < pairs
    x, y, a, b, c, ends = _ellipse(pair, exists, rows, table, reach, shifts, count)
    drawn = exists & (ends > 0)
    scale = tl.where(drawn, ends / tl.where(drawn, a * c - b * b, 1.0), 0.0)
    left, across = _tile_range(x, tl.sqrt(scale * c), width, TILE)
    top, down = _tile_range(y, tl.sqrt(scale * a), height, TILE)
    box = boxes + tl.cast(pair, tl.int64) * 3
    tl.store(box, left, mask=exists)
    tl.store(box + 1, top, mask=exists)
    tl.store(box + 2, across, mask=exists)
    tl.store(counts + pair, tl.where(drawn, across * down, 0), mask=exists)


@triton.jit
def tiles_kernel(  # noqa: PLR0913, PLR0917
    owners, starts, boxes, rows, table, reach, shifts, tiles, size, first, count, across, down,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The tile of each entry, counted from view to view; the number of all tiles if its Gaussian misses it.

    `owners` (size,) are the entries' pairs, of which the first in this call is `first`; `starts` where a pair's entries
    start.
    """
    entry = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = entry < size
    pair = tl.load(owners + entry, mask=exists, other=first)
    within = tl.cast(entry - tl.load(starts + pair - first, mask=exists, other=0), tl.int32)
    box = boxes + tl.cast(pair, tl.int64) * 3
    wide = tl.load(box + 2, mask=exists, other=1)
    column = tl.load(box, mask=exists, other=0) + within % wide
    row = tl.load(box + 1, mask=exists, other=0) + within // wide
    x, y, a, b, c, ends = _ellipse(pair, exists, rows, table, reach, shifts, count)
    # The least a·u² + 2b·uv + c·v² of the tile is on an edge that faces the centre, or 0 if the centre lies inside.
    left, top = column * TILE + 0.5 - _SLACK - x, row * TILE + 0.5 - _SLACK - y
    right, bottom = left + (TILE - 1 + 2 * _SLACK), top + (TILE - 1 + 2 * _SLACK)
    u, v = tl.minimum(tl.maximum(left, 0.0), right), tl.minimum(tl.maximum(top, 0.0), bottom)
    beside = tl.minimum(tl.maximum(-b * u / c, top), bottom)
    above = tl.minimum(tl.maximum(-b * v / a, left), right)
    least = tl.minimum(
        a * u * u + 2 * b * u * beside + c * beside * beside, a * above * above + 2 * b * above * v + c * v * v
    )
    views = tl.cast(pair // count - first // count, tl.int32)
    tile = (views * down + row) * across + column
    tl.store(tiles + entry, tl.where(least <= ends * 1.0001, tile, 0x7FFFFFFF), mask=exists)


@triton.jit
def _place(across, down, width, height, TILE: tl.constexpr):
    """This program's tile: its view, and its pixels' columns and rows (1, TILE²), and which of them exist."""
    tile = tl.program_id(0)
    lane = tl.arange(0, TILE * TILE)[None, :]
    x = tile % across * TILE + lane % TILE
    y = tile // across % down * TILE + lane // TILE
    return tile // (across * down), x, y, (x < width) & (y < height)


@triton.jit
def _alphas(start, end, entries, rows, table, reach, shift, x, y, CHUNK: tl.constexpr):  # noqa: PLR0913, PLR0917
    """Of entries [start, start + CHUNK) at pixels: (their rows (CHUNK, 1), dx, dy, peak · exp(…), alpha)."""
    entry = start + tl.arange(0, CHUNK)[:, None]
    exists = entry < end
    row = tl.load(rows + tl.load(entries + entry, mask=exists, other=0), mask=exists, other=0)
    at = table + tl.cast(row, tl.int64) * 10
    behind = tl.load(shift + 2) - tl.load(at + 9, mask=exists, other=0.0)
    dx = x + 0.5 - (tl.load(at, mask=exists, other=0.0) + tl.load(shift) * behind)
    dy = y + 0.5 - (tl.load(at + 1, mask=exists, other=0.0) + tl.load(shift + 1) * behind)
    a, b = tl.load(at + 2, mask=exists, other=0.0), tl.load(at + 3, mask=exists, other=0.0)
    c, peak = tl.load(at + 4, mask=exists, other=0.0), tl.load(at + 5, mask=exists, other=0.0)
    ends = tl.load(reach + row, mask=exists, other=0.0)
    power = -0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy
    value = tl.where((power >= -0.5 * ends) & exists, peak * tl.exp(tl.minimum(power, 0.0)), 0.0)
    return at, exists, dx, dy, value, tl.minimum(value, _OPAQUEST)


@triton.jit
def forward_kernel(  # noqa: PLR0913, PLR0917
    lists, entries, rows, table, reach, shifts, pictures, across, down, width, height,
    TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Blend the entries of one tile of one view: pictures (views, H, W, 5) red, green, blue, disparity, alpha."""
    view, x, y, inside = _place(across, down, width, height, TILE)
    start, end = tl.load(lists + tl.program_id(0)), tl.load(lists + tl.program_id(0) + 1)
    shift = shifts + view * 3
    left = tl.where(inside, 1.0, 0.0)  # transmittance; pixels that do not exist are done
    red, green, blue = left * 0.0, left * 0.0, left * 0.0
    far, covered = left * 0.0, left * 0.0
    while (start < end) & (tl.max(left) >= _STOP):
        at, exists, _, _, _, alpha = _alphas(start, end, entries, rows, table, reach, shift, x, y, CHUNK)
        after = left * tl.cumprod(1 - alpha, axis=0)
        before = after / (1 - alpha)
        weight = tl.where(before >= _STOP, alpha * before, 0.0)
        left = tl.minimum(left, tl.min(tl.where(before >= _STOP, after, 1.0), axis=0, keep_dims=True))
        red += tl.sum(weight * tl.load(at + 6, mask=exists, other=0.0), axis=0, keep_dims=True)
        green += tl.sum(weight * tl.load(at + 7, mask=exists, other=0.0), axis=0, keep_dims=True)
        blue += tl.sum(weight * tl.load(at + 8, mask=exists, other=0.0), axis=0, keep_dims=True)
        far += tl.sum(weight * tl.load(at + 9, mask=exists, other=0.0), axis=0, keep_dims=True)
        covered += tl.sum(weight, axis=0, keep_dims=True)
        start += CHUNK
    out = pictures + ((tl.cast(view, tl.int64) * height + y) * width + x) * 5
    tl.store(out, red, mask=inside)
    tl.store(out + 1, green, mask=inside)
    tl.store(out + 2, blue, mask=inside)
    tl.store(out + 3, far, mask=inside)
    tl.store(out + 4, covered, mask=inside)


@triton.jit
def backward_kernel(  # noqa: PLR0913, PLR0917
    lists, entries, slots, rows, table, reach, shifts, pictures, grads, parts, across, down, width, height,
    TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Each entry's sums over the pixels of its tile, parts (slots, 10): with s = value · ∂loss/∂value, s, s·dx, s·dy,
    s·dx², s·dx·dy, s·dy², and the gradients of colour and disparity. `grads` (H, W, 5) is that of each view's picture.

    Front to back: of Σ w v, with v the change of the loss per unit of weight, what is not yet passed lies behind.
    """
    view, x, y, inside = _place(across, down, width, height, TILE)
    start, end = tl.load(lists + tl.program_id(0)), tl.load(lists + tl.program_id(0) + 1)
    shift = shifts + view * 3
    left = tl.where(inside, 1.0, 0.0)
    seen = pictures + ((tl.cast(view, tl.int64) * height + y) * width + x) * 5
    given = grads + (tl.cast(y, tl.int64) * width + x) * 5
    g_red, g_green = tl.load(given, mask=inside, other=0.0), tl.load(given + 1, mask=inside, other=0.0)
    g_blue, g_far = tl.load(given + 2, mask=inside, other=0.0), tl.load(given + 3, mask=inside, other=0.0)
    g_covered = tl.load(given + 4, mask=inside, other=0.0)
    rest = g_red * tl.load(seen, mask=inside, other=0.0) + g_green * tl.load(seen + 1, mask=inside, other=0.0)
    rest += g_blue * tl.load(seen + 2, mask=inside, other=0.0) + g_far * tl.load(seen + 3, mask=inside, other=0.0)
    rest += g_covered * tl.load(seen + 4, mask=inside, other=0.0)
    while (start < end) & (tl.max(left) >= _STOP):
        at, exists, dx, dy, value, alpha = _alphas(start, end, entries, rows, table, reach, shift, x, y, CHUNK)
        after = left * tl.cumprod(1 - alpha, axis=0)
        before = after / (1 - alpha)
        weight = tl.where(before >= _STOP, alpha * before, 0.0)
        left = tl.minimum(left, tl.min(tl.where(before >= _STOP, after, 1.0), axis=0, keep_dims=True))
        v = g_red * tl.load(at + 6, mask=exists, other=0.0) + g_green * tl.load(at + 7, mask=exists, other=0.0)
        v += g_blue * tl.load(at + 8, mask=exists, other=0.0) + g_far * tl.load(at + 9, mask=exists, other=0.0)
        v += g_covered
        passed = tl.cumsum(weight * v, axis=0)
        g_alpha = before * v - (rest - passed) / (1 - alpha)
        rest -= tl.sum(weight * v, axis=0, keep_dims=True)
        s = tl.where((before >= _STOP) & (value <= _OPAQUEST), value * g_alpha, 0.0)
        slot = tl.load(slots + start + tl.arange(0, CHUNK)[:, None], mask=exists, other=0)
        out = parts + slot * 10
        tl.store(out, tl.sum(s, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 1, tl.sum(s * dx, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 2, tl.sum(s * dy, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 3, tl.sum(s * dx * dx, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 4, tl.sum(s * dx * dy, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 5, tl.sum(s * dy * dy, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 6, tl.sum(weight * g_red, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 7, tl.sum(weight * g_green, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 8, tl.sum(weight * g_blue, axis=1, keep_dims=True), mask=exists)
        tl.store(out + 9, tl.sum(weight * g_far, axis=1, keep_dims=True), mask=exists)
        start += CHUNK


@triton.jit
def attribute_kernel(  # noqa: PLR0913, PLR0917
    lists, entries, slots, rows, table, reach, shifts, values, parts, across, down, width, height,
    CHANNELS: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Each entry's Σ weight · values (H, W, CHANNELS) over the pixels of its tile → parts (slots, CHANNELS)."""
    view, x, y, inside = _place(across, down, width, height, TILE)
    start, end = tl.load(lists + tl.program_id(0)), tl.load(lists + tl.program_id(0) + 1)
    shift = shifts + view * 3
    left = tl.where(inside, 1.0, 0.0)
    given = values + (tl.cast(y, tl.int64) * width + x) * CHANNELS
    while (start < end) & (tl.max(left) >= _STOP):
        _, exists, _, _, _, alpha = _alphas(start, end, entries, rows, table, reach, shift, x, y, CHUNK)
        after = left * tl.cumprod(1 - alpha, axis=0)
        before = after / (1 - alpha)
        weight = tl.where(before >= _STOP, alpha * before, 0.0)
        left = tl.minimum(left, tl.min(tl.where(before >= _STOP, after, 1.0), axis=0, keep_dims=True))
        slot = tl.load(slots + start + tl.arange(0, CHUNK)[:, None], mask=exists, other=0)
        for channel in tl.static_range(CHANNELS):
            value = tl.load(given + channel, mask=inside, other=0.0)
            share = tl.sum(weight * value, axis=1, keep_dims=True)
            tl.store(parts + slot * CHANNELS + channel, share, mask=exists)
        start += CHUNK
