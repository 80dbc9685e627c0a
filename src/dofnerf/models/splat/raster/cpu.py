"""The splat rasteriser on the CPU in numba: the twin of reference.py, for float32.

Jobs own Gaussians, rows of tiles, or tiles, and write nothing that another job writes or reads: no atomics, and the
same result, bit for bit, for any number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dofnerf.camera import Camera
from dofnerf.models.splat.gaussians import LOW_PASS, Drawn, Gaussians, Projected, Style
from dofnerf.models.splat.raster.project_kernels import project_gaussians, pull_back
from dofnerf.models.splat.raster.raster_kernels import backward_tiles, forward_tiles, tally_tiles
from dofnerf.models.splat.raster.tile_kernels import (
    HIGH,
    WIDE,
    count_entries,
    count_slots,
    fill_slots,
    sort_entries,
    sum_slots,
)
from dofnerf.optics.kernels import run_jobs
from dofnerf.optics.light import curve_pieces

_BANDS = 6  # jobs for each thread: tiles differ much in what they cost


def project(
    gaussians: Gaussians,
    camera: Camera,
    aperture: Tensor,
    focus_disparity: Tensor,
    radius: float,
    style: Style,
) -> Projected:
    """As `splats.project`."""
    return Projected(*_Project.apply((camera, radius, style), aperture, focus_disparity, *gaussians))


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `splats.rasterise`."""
    return Drawn(*_Rasterise.apply(*projected, width, height))


def tally(projected: Projected, values: Tensor) -> Tensor:
    """As `splats.tally`."""
    height, width, channels = values.shape
    table, reach, depth = (tensor.detach().contiguous().numpy() for tensor in projected)
    tiles = sort_into_tiles(table, reach, depth, width, height)
    parts = np.empty((tiles.slots, channels), np.float32)
    seen = values.detach().contiguous().numpy()
    run_jobs(tally_tiles, len(tiles.lists) - 1, (*tiles.walk, table, reach, seen, parts), per_thread=_BANDS)
    return tiles.sum(parts, len(table))


class Tiles(NamedTuple):
    """`entries` (E, 4) as in tile_kernels, the list of tile i from `lists[i]` to `lists[i + 1]`; and to go back, the
    Gaussians near to far, where the slots of each begin, and how many it fills."""

    entries: np.ndarray
    lists: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    filled: np.ndarray
    slots: int

    @property
    def walk(self) -> tuple[np.ndarray, np.ndarray]:
        return self.lists, self.entries

    def sum(self, parts: np.ndarray, count: int) -> Tensor:
        """What the slots say of each Gaussian, (slots, C) → (N, C)."""
        total = torch.zeros(count, parts.shape[1])
        run_jobs(sum_slots, len(self.order), (self.order, self.starts, self.filled, parts, total.numpy()))
        return total


def sort_into_tiles(table: np.ndarray, reach: np.ndarray, depth: np.ndarray, width: int, height: int) -> Tiles:
    """The lists of Gaussians of each tile, near to far; of two at one depth the first comes first."""
    counts = np.empty(len(table), np.int64)
    run_jobs(count_slots, len(table), (table, reach, width, height, counts))
    drawn = np.flatnonzero(counts)
    keys = depth[drawn].view(np.uint32).astype(np.uint64) << np.uint64(32) | drawn.astype(
        np.uint64
    )  # depth > 0: bits rise too
    order = (np.sort(keys) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ends = np.cumsum(counts[order])
    slots = int(ends[-1]) if len(ends) else 0
    starts = ends - counts[order]
    filled, found = np.empty(len(order), np.int64), np.empty((slots, 2), np.int32)
    run_jobs(fill_slots, len(order), (order, table, reach, width, height, starts, filled, found))
    lists = np.zeros(-(-width // WIDE) * -(-height // HIGH) + 1, np.int64)
    count_entries(starts, filled, found, lists[1:])
    np.cumsum(lists, out=lists)
    entries = np.empty((lists[-1], 4), np.int32)
    sort_entries(order, starts, filled, found, lists[:-1].copy(), entries)
    return Tiles(entries, lists, order, starts, filled, slots)


class _Rasterise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, reach: Tensor, depth: Tensor, width: int, height: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, ends, order = (tensor.detach().contiguous().numpy() for tensor in (table, reach, depth))
        tiles = sort_into_tiles(rows, ends, order, width, height)
        out = torch.empty(height, width, 3), torch.empty(height, width), torch.empty(height, width)
        used = np.empty(len(tiles.lists) - 1, np.int64)
        walk = (*tiles.walk, rows, ends)
        run_jobs(forward_tiles, len(used), (*walk, *(tensor.numpy() for tensor in out), used), per_thread=_BANDS)
        ctx.walk, ctx.used, ctx.tiles, ctx.count = walk, used, tiles, len(table)
        ctx.save_for_backward(*out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = [tensor.numpy() for tensor in ctx.saved_tensors]
        given = [grad.contiguous().numpy() for grad in grads]
        parts = np.empty((ctx.tiles.slots, 10), np.float32)
        run_jobs(backward_tiles, len(ctx.used), (*ctx.walk, ctx.used, *out, *given, parts), per_thread=_BANDS)
        return ctx.tiles.sum(parts, ctx.count), None, None, None, None


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shot: tuple[Camera, float, Style], aperture: Tensor, focus: Tensor, *gaussians: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        camera, radius, style = shot
        count, kinds = gaussians[4].shape[:2]
        arrays = [tensor.detach().contiguous().numpy() for tensor in gaussians]
        view = _view(camera, float(aperture), float(focus))
        manner = _manner(style, radius, kinds)
        out = torch.empty(count, 10), torch.empty(count), torch.empty(count)
        run_jobs(project_gaussians, count, (*arrays, view, manner, *(tensor.numpy() for tensor in out)))
        ctx.given = (*arrays, view, manner, out[0].numpy(), out[1].numpy())
        ctx.mark_non_differentiable(out[1], out[2])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out = [torch.zeros(array.shape) for array in ctx.given[:5]]
        lens = np.zeros((len(out[0]), 2), np.float32)
        pull = grads[0].contiguous().numpy()
        run_jobs(pull_back, len(lens), (*ctx.given, pull, *(tensor.numpy() for tensor in out), lens))
        both = torch.from_numpy(lens.sum(axis=0, dtype=np.float64)).float()
        return None, both[0], both[1], *out


def _view(camera: Camera, aperture: float, focus_disparity: float) -> np.ndarray:
    """The numbers that the kernels know of camera and lens."""
    to_camera = camera.camera_to_world[:, :3].T * [[1], [-1], [-1]]  # x right, y down, z ahead
    numbers = (camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height, aperture, focus_disparity)
    return np.array([*to_camera.reshape(-1), *camera.position, *numbers], dtype=np.float64)


def _manner(style: Style, radius: float, kinds: int) -> np.ndarray:
    kinds = min(kinds, (style.degree + 1) ** 2)
    kept = 0.0 if style.antialiased else LOW_PASS
    return np.array([radius, kept, style.near, kinds, *curve_pieces(style.light)], dtype=np.float64)
