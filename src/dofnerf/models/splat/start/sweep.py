"""A plane sweep over the training photos: a disparity for each pixel of each photo, in numba.

Each plane of constant disparity maps a neighbouring photo onto the reference; where both correlate in a small window,
the plane is close to the surface. Only the better half of the neighbours counts: the others may be occluded, or focused
elsewhere. Correlation tolerates a difference in blur, and photos with the same focus are blurred alike. Regions without
texture take their disparity from around them (semi-global matching). fusion.py then compares the maps of all photos.

Arrays of the kernels: `pictures` (V, H, W) float32 grey; `neighbours`, `maps` and `planes` as in `Views`. A cost is
1 − correlation, 0 to 2. A job owns a range of photos and keeps one photo's costs in memory.
"""

from __future__ import annotations

import numpy as np

from dofnerf.models.splat.raster.lanes import COUNT, load, store
from dofnerf.models.splat.start.views import Views
from dofnerf.optics.kernels import compiled, run_jobs
from dofnerf.scenes.scene import Scene

# Chosen among twenty settings, like the tiers of fusion.py, by the true depth of the packaged scene's training views.
_OPTIONS = np.array([3, 3e-5, 0.1, 1.0], dtype=np.float32)  # half window, noise, step, jump: see `_sweep_photos`
_UNKNOWN = 1.0  # cost of a plane that no neighbour sees: as for no correlation


def sweep(views: Views, anchors: np.ndarray) -> np.ndarray:
    """Disparity (V, H, W) float32 of every pixel, negative where a photo does not count; `anchors` (V, H, W) are
    disparities known beforehand, 0 if unknown."""
    disparity = np.zeros_like(views.grey)
    known = (views.grey, views.neighbours, views.maps, views.planes)
    run_jobs(_sweep_photos, len(views.grey), (*known, anchors, _OPTIONS, disparity))
    disparity[~views.counts] = -views.planes.max()  # no other photo agrees with that
    return disparity


def sparse_anchors(scene: Scene, views: Views) -> np.ndarray:
    """Disparities (V, H, W) of the scene's sparse points at the pixels where photos see them, 0 elsewhere."""
    anchors = np.zeros_like(views.grey)
    height, width = views.grey.shape[1:]
    for v, frame in enumerate(views.frames):
        seen = scene.visible(frame)
        order = np.argsort(-seen.depth)  # the nearest is written last
        columns, rows = (seen.pixels[order] * (width / scene.size[0], height / scene.size[1])).astype(int).T
        anchors[v, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)] = 1 / seen.depth[order]
    return anchors


@compiled
def _sweep_photos(first, last, pictures, neighbours, maps, planes, anchors, options, disparity):  # noqa: PLR0913, PLR0917
    """Fill `disparity` (V, H, W) of photos [first, last).

    `options`: half the window in pixels; noise, a variance of grey added to each window's; and the cost of moving by
    one plane (`step`) or by more (`jump`) between neighbouring pixels.
    """
    height, width, count = pictures.shape[1], pictures.shape[2], planes.shape[1]
    if first >= last:
        return
    costs = np.empty((height, width, count), np.float32)
    total = np.empty((height, width, count), np.float32)
    for v in range(first, last):
        _match(v, pictures, neighbours, maps, planes, int(options[0]), options[1], costs)
        _anchor(anchors[v], planes[v], costs)
        total[:] = 0
        _smooth(pictures[v], costs, options[2], options[3], 1, total)
        _smooth(pictures[v], costs, options[2], options[3], -1, total)
        _pick(planes[v], total, disparity[v])


@compiled
def _match(v, pictures, neighbours, maps, planes, half, noise, costs):
    """Costs (H, W, D) of photo v: for each plane the mean over the better half of the neighbours that see it.

    Correlation is over a window of `side`² pixels, the border replicated. Window sums are running sums: a ring buffer
    of `side` warped rows per neighbour, and the sums over them of each column.
    """
    picture = pictures[v]
    height, width = picture.shape
    known = 0
    while known < neighbours.shape[1] and neighbours[v, known] >= 0:
        known += 1
    side = 2 * half + 1
    wide = width + 2 * half
    padded = np.empty((height, wide), np.float32)
    for y in range(height):
        _pad(picture[y], half, padded[y])
    share = np.float32(1.0 / (side * side))
    mean, variance = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    ring = np.empty((known, side, wide), np.float32)
    inside = np.empty((known, side, width), np.float32)
    sums = np.zeros((known, 3, wide + COUNT), np.float32)
    window = np.empty((3, width + COUNT), np.float32)
    each = np.empty((known, width), np.float32)
    seen = np.empty(width, np.float32)
    places, shares = np.empty(width, np.int32), np.empty((2, width), np.float32)
    _statistics(padded, half, noise, mean, variance)
    for d in range(planes.shape[1]):
        sums[:] = 0
        for line in range(-2 * half, height):
            enters = min(max(line + half, 0), height - 1)
            leaves = min(max(line - half - 1, 0), height - 1)
            slot = (line + 2 * half) % side
            for k in range(known):
                if line > 0:
                    _add(sums[k], ring[k, slot], padded[leaves], np.float32(-1))
                other = pictures[neighbours[v, k]]
                _find(other.shape, maps[v, k], planes[v, d], enters, places, shares, inside[k, slot])
                _warp(other, places, shares, half, ring[k, slot])
                _add(sums[k], ring[k, slot], padded[enters], np.float32(1))
            if line < 0:
                continue
            middle = (line + half) % side
            for k in range(known):
                _window(sums[k], side, window)
                for x in range(width):
                    own = window[0, x] * share
                    spread = max(window[1, x] * share - own * own, np.float32(0)) + noise
                    shared = window[2, x] * share - own * mean[line, x]
                    cost = np.float32(1) - shared / np.sqrt(spread * variance[line, x])
                    each[k, x] = cost + (np.float32(1) - inside[k, middle, x]) * np.float32(100)
            seen[:] = 0
            for k in range(known):
                for x in range(width):
                    seen[x] += inside[k, middle, x]
            _better_half(each, seen, costs[line, :, d])


@compiled
def _pad(row, half, out):
    """A row with its ends replicated by `half` pixels."""
    width = len(row)
    for x in range(width):
        out[x + half] = row[x]
    for x in range(half):
        out[x] = row[0]
        out[width + half + x] = row[width - 1]


@compiled
def _add(sums, row, other, sign):
    """Add `row`, its square and its product with `other` to the column sums."""
    for x in range(len(row)):
        sums[0, x] += sign * row[x]
    for x in range(len(row)):
        sums[1, x] += sign * row[x] * row[x]
    for x in range(len(row)):
        sums[2, x] += sign * row[x] * other[x]


@compiled
def _window(sums, side, window):
    """Column sums (3, W + side − 1) → sums over windows (3, W); both have room for a vector more."""
    for c in range(3):
        for x in range(0, window.shape[1] - COUNT + 1, COUNT):
            one = load(sums[c], x)
            for i in range(1, side):
                one = one + load(sums[c], x + i)
            store(window[c], x, one)


@compiled
def _statistics(padded, half, noise, mean, variance):
    """Mean and variance of the reference photo in each window."""
    height, width = mean.shape
    side = 2 * half + 1
    window = np.empty((3, width + COUNT), np.float32)
    sums = np.empty((3, width + 2 * half + COUNT), np.float32)
    share = np.float32(1.0 / (side * side))
    for y in range(height):
        sums[:] = 0
        for i in range(-half, half + 1):
            row = padded[min(max(y + i, 0), height - 1)]
            _add(sums, row, row, np.float32(1))
        _window(sums, side, window)
        for x in range(width):
            mean[y, x] = window[0, x] * share
            variance[y, x] = max(window[1, x] * share - mean[y, x] * mean[y, x], np.float32(0)) + noise


@compiled
def _better_half(each, seen, out):
    """Mean of the lower half of the first `seen` (W,) of `each` (K, W), which is partly sorted in place."""
    known, width = each.shape
    half = (known + 1) // 2
    for k in range(half):
        for other in range(k + 1, known):
            for x in range(width):
                low, high = min(each[k, x], each[other, x]), max(each[k, x], each[other, x])
                each[k, x] = low
                each[other, x] = high
    for x in range(width):
        count = (int(seen[x]) + 1) // 2
        total = np.float32(0)
        for k in range(count):
            total += each[k, x]
        out[x] = total / np.float32(count) if count > 0 else np.float32(_UNKNOWN)


@compiled
def _find(size, to, disparity, y, places, shares, inside):
    """Where a neighbour of this `size` sees row y of the plane: `places` (W,), the numbers of the upper left of four
    pixels each, `shares` (2, W) of the right and of the lower ones.

    `inside` (W,) is 1 where the neighbour sees it, else 0. A loop of its own without reading the picture: so it is done
    by vectors.
    """
    height, width = size
    right, bottom = np.float32(width - 1), np.float32(height - 1)
    last_right, last_bottom = np.float32(width - 1.001), np.float32(height - 1.001)
    zero, one, mid, least = np.float32(0), np.float32(1), np.float32(0.5), np.float32(1e-6)
    row, wide = np.float32(y) + mid, np.int32(width)
    ax, ay, az = to[0, 0], to[1, 0], to[2, 0]
    bx = to[0, 1] * row + to[0, 2] + to[0, 3] * disparity + ax * mid
    by = to[1, 1] * row + to[1, 2] + to[1, 3] * disparity + ay * mid
    bz = to[2, 1] * row + to[2, 2] + to[2, 3] * disparity + az * mid
    for x in range(width):
        column = np.float32(np.int32(x))
        depth = bz + az * column
        scale = one / max(depth, least)
        u = (bx + ax * column) * scale - mid
        v = (by + ay * column) * scale - mid
        seen = (depth > least) & (u >= zero) & (v >= zero) & (u <= right) & (v <= bottom)
        inside[x] = one if seen else zero
        u = min(max(u, zero), last_right)
        v = min(max(v, zero), last_bottom)
        i, j = np.int32(u), np.int32(v)
        shares[0, x], shares[1, x] = u - np.float32(i), v - np.float32(j)
        places[x] = j * wide + i


@compiled
def _warp(picture, places, shares, half, moved):
    """`moved` (W + 2·half): the neighbour `picture` sampled at what `_find` found, the ends replicated."""
    width = len(places)
    flat = picture.reshape(-1)
    for x in range(width):
        i = np.uintp(np.uint32(places[x]))
        j = i + np.uintp(width)
        upper = flat[i] + shares[0, x] * (flat[i + np.uintp(1)] - flat[i])
        lower = flat[j] + shares[0, x] * (flat[j + np.uintp(1)] - flat[j])
        moved[x + half] = upper + shares[1, x] * (lower - upper)
    for x in range(half):
        moved[x] = moved[half]
        moved[width + half + x] = moved[width + half - 1]


@compiled
def _anchor(anchors, planes, costs):
    """Where a disparity is known, other planes cost up to 1 more, growing with their distance from it."""
    height, width, count = costs.shape
    step = (planes[count - 1] - planes[0]) / np.float32(count - 1)
    for y in range(height):
        for x in range(width):
            if anchors[y, x] > 0:
                for d in range(count):
                    off = abs(planes[d] - anchors[y, x]) / step
                    costs[y, x, d] += min(np.float32(0.25) * max(off - np.float32(0.5), np.float32(0)), np.float32(1))


@compiled
def _smooth(picture, costs, step, jump, way, total):
    """Semi-global matching: add to `total` the least cost of reaching each pixel and plane along four straight paths.

    `way` 1 goes down the picture, from the left, upper left, above and upper right; −1 goes up, from the other four.
    """
    height, width, count = costs.shape
    before = np.zeros((3, width + 2, count), np.float32)
    after = np.zeros((3, width + 2, count), np.float32)
    least_before = np.zeros((3, width + 2), np.float32)
    least_after = np.zeros((3, width + 2), np.float32)
    beside = np.zeros((2, count), np.float32)
    for line in range(height):
        y = line if way > 0 else height - 1 - line
        least_beside = np.float32(0)
        beside[:] = 0
        turn = 0
        for place in range(width):
            x = place if way > 0 else width - 1 - place
            here = picture[y, x]
            cost = costs[y, x]
            # Along the row.
            from_x = x - way if 0 <= x - way < width else x
            penalty = _penalty(here - picture[y, from_x], step, jump)
            least_beside = _path(cost, beside[turn], least_beside, step, penalty, beside[1 - turn], total[y, x])
            turn = 1 - turn
            # From the row before: three neighbours; the columns of `before` are shifted by one.
            from_y = y - way if 0 <= y - way < height else y
            for k in range(3):
                from_x = min(max(x + k - 1, 0), width - 1)
                penalty = _penalty(here - picture[from_y, from_x], step, jump)
                least = least_before[k, x + k]
                least_after[k, x + 1] = _path(
                    cost, before[k, x + k], least, step, penalty, after[k, x + 1], total[y, x]
                )
        before, after = after, before
        least_before, least_after = least_after, least_before


@compiled
def _penalty(difference, step, jump):
    """Cost of a jump between two pixels; less across an edge, where their grey differs."""
    return max(jump / (np.float32(1) + abs(difference) * np.float32(20)), np.float32(1.5) * step)


@compiled
def _path(cost, before, least, step, jump, after, total):
    """One step along a path; returns the least of `after`."""
    count = len(cost)
    for d in range(1, count - 1):
        after[d] = cost[d] + min(before[d], least + jump, before[d - 1] + step, before[d + 1] + step) - least
    end = count - 1
    after[0] = cost[0] + min(before[0], least + jump, before[1] + step) - least
    after[end] = cost[end] + min(before[end], least + jump, before[end - 1] + step) - least
    smallest = np.float32(1e30)
    for d in range(count):
        smallest = min(smallest, after[d])
    for d in range(count):
        total[d] += after[d]
    return smallest


@compiled
def _pick(planes, total, disparity):
    """The cheapest plane of each pixel, refined by a parabola."""
    height, width, count = total.shape
    gap = (planes[count - 1] - planes[0]) / np.float32(count - 1)
    for y in range(height):
        for x in range(width):
            best = 0
            for d in range(1, count):
                if total[y, x, d] < total[y, x, best]:
                    best = d
            shift = np.float32(0)
            if 0 < best < count - 1:
                left, middle, right = total[y, x, best - 1], total[y, x, best], total[y, x, best + 1]
                bend = left + right - np.float32(2) * middle
                if bend > 1e-9:
                    shift = np.float32(0.5) * (left - right) / bend
            disparity[y, x] = planes[best] + gap * shift
