"""The rasteriser in triton: the CUDA version of reference.py, for float32. Projection is in project_gpu.py.

No Gaussian ends at alpha 1/255, as in other CUDA rasterisers: a strongly blurred scene consists of such alphas.

**Tiles.** As on the CPU, each tile of a view has a list of the Gaussians that touch it, near to far. Gaussians are
sorted by depth once; their entries, one for each tile of the bounding box, are written in that order and then sorted by
tile, which keeps it. Entries of tiles that the ellipse misses go to the end of that sort.

**Sub-apertures.** The views through parts of a lens are one operation: they share the order of depths, and kernels
shift each Gaussian by aperture · (focus disparity − disparity) times the part's centre. As many views at once as give
no more than ENTRIES entries bound the memory.

**Gradients.** A tile writes its sums for each entry to the entry's own slot; the slots of one Gaussian are adjacent and
are added up in their order. No atomics, so every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.models.splat.gaussians import Drawn, Projected, SubAperture
from dofnerf.models.splat.raster.gpu_kernels import (
    BLOCK,
    CHUNK,
    TILE,
    WARPS,
    attribute_kernel,
    backward_kernel,
    boxes_kernel,
    forward_kernel,
    tiles_kernel,
)
from dofnerf.models.splat.raster.project_gpu import project
from dofnerf.optics.triton_kernels import check_tensor, on_device, triton

__all__ = ["attribute", "project", "rasterise", "rasterise_mean"]

ENTRIES = 1 << 25  # in memory at once, except that a view is never divided: 40 bytes each in the backward pass


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `raster.rasterise`."""
    nothing = projected.table.new_zeros(())
    return rasterise_mean([projected], [SubAperture()], nothing, nothing, width, height)


def rasterise_mean(
    projected: Sequence[Projected],
    parts: Sequence[SubAperture],
    aperture: Tensor,
    focus_disparity: Tensor,
    width: int,
    height: int,
) -> Drawn:
    """As `raster.rasterise_mean`."""
    check_tensor(projected[0].table, forward_kernel)
    kinds = list({id(one): one for one in projected}.values())
    places = [next(k for k, kind in enumerate(kinds) if kind is one) for one in projected]
    tables, reaches = torch.stack([kind.table for kind in kinds]), torch.stack([kind.reach for kind in kinds])
    directions = tables.new_tensor([[part.x, -part.y] for part in parts])
    views = places, directions, kinds[0].depth, width, height
    lens = (value.to(tables.device) for value in (aperture, focus_disparity))
    mean = _Rasterise.apply(views, *lens, tables, reaches)
    return Drawn(mean[..., :3], mean[..., 3], mean[..., 4])


@torch.no_grad()
def attribute(projected: Projected, values: Tensor) -> Tensor:
    """As `raster.attribute`."""
    height, width, channels = values.shape
    check_tensor(projected.table, attribute_kernel)
    scene = _Scene.of([0], projected.table[None], projected.reach[None], projected.depth, (width, height))
    share = values.new_zeros(len(projected.table), channels)
    shifts = values.new_zeros(1, 3)
    with on_device(values):
        for some in scene.sorted_into_tiles(shifts):
            parts = values.new_zeros(some.size, channels)
            given = values.contiguous(), parts
            attribute_kernel[some.programs](*some.walk, *given, *some.grid, channels, TILE, CHUNK, num_warps=WARPS)
            share[scene.rows[0]] += some.sums(parts)[0]
    return share


class _Rasterise(torch.autograd.Function):
    """Inputs: (table of each view, directions of their sub-apertures, depth, width, height), aperture, focus disparity,
    tables (K, N, 10) and reaches (K, N). The mean of the views: (H, W, 5)."""

    @staticmethod
    def forward(ctx: Any, views: tuple, aperture: Tensor, focus: Tensor, tables: Tensor, reaches: Tensor) -> Tensor:
        places, directions, depth, width, height = views
        scene = _Scene.of(places, tables.detach(), reaches, depth, (width, height))
        shifts = torch.cat([directions * aperture.detach(), focus.detach().expand(len(places), 1)], dim=1).contiguous()
        pictures = tables.new_zeros(len(places), height, width, 5)
        ctx.groups = []
        with on_device(tables):
            for some in scene.sorted_into_tiles(shifts):
                picture = pictures[some.first : some.first + some.views]
                forward_kernel[some.programs](
                    some.lists, *some.walk[1:2], *some.walk[3:], picture, *some.grid, TILE, CHUNK, num_warps=WARPS
                )
                ctx.groups.append((some, picture))
        ctx.scene, ctx.shape = scene, tables.shape
        ctx.save_for_backward(aperture, focus, directions)
        return pictures.mean(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        aperture, focus, directions = ctx.saved_tensors
        scene: _Scene = ctx.scene
        g_table = grads[0].new_zeros(ctx.shape).reshape(-1, ctx.shape[-1])
        given = (grads[0] / len(directions)).contiguous()
        g_aperture, g_focus = given.new_zeros((), dtype=torch.float64), given.new_zeros((), dtype=torch.float64)
        for some, picture in ctx.groups:
            parts = given.new_zeros(some.size, 10)
            with on_device(given):
                backward_kernel[some.programs](
                    *some.walk, picture, given, parts, *some.grid, TILE, CHUNK, num_warps=WARPS
                )
            for number, s in enumerate(some.sums(parts), some.first):
                rows = scene.rows[number]
                table = scene.table[rows]
                a, b, c = table[:, 2:5].unbind(-1)
                place = torch.stack([a * s[:, 1] + b * s[:, 2], c * s[:, 2] + b * s[:, 1]], dim=-1)
                conic = torch.stack([-0.5 * s[:, 3], -s[:, 4], -0.5 * s[:, 5]], dim=-1)
                opacity = s[:, :1] / table[:, 5:6].clamp(min=1e-30)
                along = place @ directions[number]  # how the loss changes with the way of the outermost sub-aperture
                far = s[:, 9:] - (aperture * along)[:, None]
                g_table[rows] += torch.cat([place, conic, opacity, s[:, 6:9], far], dim=-1)
                g_aperture += (along * (focus - table[:, 9])).sum(dtype=torch.float64)
                g_focus += aperture * along.sum(dtype=torch.float64)
        return None, g_aperture.float(), g_focus.float(), g_table.reshape(ctx.shape), None


class _Some(NamedTuple):
    """`views` views from `first` on, sorted into tiles: the arrays of gpu_kernels.py, and how many slots each of their
    pairs has."""

    first: int
    views: int
    lists: Tensor
    entries: Tensor
    slots: Tensor
    counts: Tensor
    arrays: tuple[Tensor, Tensor, Tensor, Tensor]
    grid: tuple[int, int, int, int]

    @property
    def size(self) -> int:
        return len(self.slots)

    @property
    def programs(self) -> tuple[int]:
        return (self.views * self.grid[0] * self.grid[1],)

    @property
    def walk(self) -> tuple[Tensor, ...]:
        return (self.lists, self.entries, self.slots, *self.arrays)

    def sums(self, parts: Tensor) -> Tensor:
        """Parts (slots, C) added up for each view and Gaussian: (views, Gaussians, C)."""
        total = torch.segment_reduce(parts, "sum", lengths=self.counts, unsafe=True, initial=0)
        return total.reshape(self.views, -1, parts.shape[-1])


class _Scene(NamedTuple):
    """`rows` (views, M) are the rows of the table that each view shows, near to far."""

    rows: Tensor
    table: Tensor
    reach: Tensor
    size: tuple[int, int]

    @classmethod
    def of(cls, places: list[int], tables: Tensor, reaches: Tensor, depth: Tensor, size: tuple[int, int]) -> _Scene:
        """Views of the tables (K, N, 10) numbered `places`, in the order of `depth` (N,)."""
        drawn = (reaches.amax(0) > 0).nonzero()[:, 0]
        order = drawn[torch.sort(depth[drawn], stable=True).indices]
        rows = torch.tensor(places, device=order.device)[:, None] * len(depth) + order
        flat = tables.detach().contiguous()
        return cls(rows.to(torch.int32), flat.reshape(-1, 10), reaches.contiguous().reshape(-1), size)

    def sorted_into_tiles(self, shifts: Tensor) -> Iterator[_Some]:
        """All views, in groups of at most ENTRIES entries; `shifts` (views, 3) as in gpu_kernels.py."""
        (views, count), device = self.rows.shape, self.rows.device
        if count == 0:
            return
        width, height = self.size
        across, down = triton.cdiv(width, TILE), triton.cdiv(height, TILE)
        pairs = views * count
        arrays = self.rows.reshape(-1), self.table, self.reach, shifts
        boxes = torch.empty(pairs, 3, dtype=torch.int32, device=device)
        counts = torch.empty(pairs, dtype=torch.int32, device=device)
        boxes_kernel[(triton.cdiv(pairs, BLOCK),)](*arrays, boxes, counts, pairs, count, width, height, TILE, BLOCK)
        sizes = counts.reshape(views, count).sum(1).tolist()
        for first, last in _groups(sizes):
            size, tiles = sum(sizes[first:last]), (last - first) * across * down
            if size == 0:
                continue
            some = counts[first * count : last * count].long()
            starts = some.cumsum(0) - some
            owners = torch.repeat_interleave(
                torch.arange(first * count, last * count, dtype=torch.int32, device=device), some, output_size=size
            )
            keys = torch.empty(size, dtype=torch.int32, device=device)
            tiles_kernel[(triton.cdiv(size, BLOCK),)](
                owners, starts, boxes, *arrays, keys, size, first * count, count, across, down, TILE, BLOCK
            )
            keys, slots = torch.sort(keys, stable=True)
            lists = torch.searchsorted(keys, torch.arange(tiles + 1, dtype=torch.int32, device=device))
            shown = (*arrays[:3], shifts[first:last].contiguous())
            yield _Some(first, last - first, lists, owners[slots], slots, some, shown, (across, down, width, height))


def _groups(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges [first, last) of views of at most ENTRIES entries together, but at least one view each."""
    first, total = 0, 0
    for number, size in enumerate(sizes):
        if number > first and total + size > ENTRIES:
            yield first, number
            first, total = number, 0
        total += size
    yield first, len(sizes)
