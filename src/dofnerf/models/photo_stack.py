"""Many pictures of one size, small in memory: whole numbers, in a file where they are many; floats when asked for."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

IN_MEMORY = 1 << 30  # bytes of all pictures together: more are kept in a file
_HALF = 32768  # 16-bit numbers are kept minus this: torch indexes signed ones only


class PhotoStack:
    """M pictures (H, W, …) with values 0 … 1.

    They are kept as bytes if all of them are exactly bytes, as 8-bit photos at their own size are; otherwise as 16-bit
    numbers, rounded by at most 1/131070. The file, which has no name, is gone with the process.
    """

    def __init__(self, values: Tensor, device: torch.device | str = "cpu", mapped: Any = None) -> None:
        self._values, self.device, self._mapped = values, torch.device(device), mapped

    @classmethod
    def of(
        cls,
        load: Callable[[int], np.ndarray],
        count: int,
        device: torch.device | str = "cpu",
        folder: Path | None = None,
    ) -> PhotoStack:
        """The pictures that `load` gives for 0 … count − 1; a file is made in `folder`."""
        first = load(0)
        for kind in (np.dtype(np.uint8), np.dtype(np.int16)):
            if _coded(first, kind) is None:
                continue
            values, mapped = _room((count, *first.shape), kind, folder)
            if all(_put(values, i, _coded(load(i) if i else first, kind), mapped) for i in range(count)):
                tensor = torch.from_numpy(values)
                return cls(tensor if mapped else tensor.to(device), device, mapped)
        raise AssertionError("16-bit numbers hold any picture")

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, photo: int) -> Tensor:
        """Picture number `photo`, (H, W, …) float32."""
        return self._decoded(self._values[photo])

    def part(self, photo: int, left: int, top: int, width: int, height: int) -> Tensor:
        """A part of a picture, (height, width, …)."""
        return self._decoded(self._values[photo, top : top + height, left : left + width])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[photo] for photo in range(len(self)))

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self._values.shape[1], self._values.shape[2]

    def at(self, photo: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """The pixels (N, …) of photos (N,) at these rows and columns (N,)."""
        places = (part.to(self._values.device) for part in (photo, row, column))
        return self._decoded(self._values[tuple(places)])

    def _decoded(self, values: Tensor) -> Tensor:
        values = values.to(self.device)
        found = values.float() / 255 if values.dtype == torch.uint8 else (values.float() + _HALF) / 65535
        _release(self._mapped)
        return found


def _coded(picture: np.ndarray, kind: np.dtype[Any]) -> np.ndarray | None:
    """Values 0 … 1, bytes or bool as numbers of that kind; None if they are not exactly bytes."""
    if picture.dtype == bool:
        return picture.view(np.uint8) * np.uint8(255)
    if picture.dtype == np.uint8:
        return picture if kind == np.uint8 else (picture.astype(np.int32) * 257 - _HALF).astype(np.int16)
    if kind == np.uint8:
        near = np.clip(np.rint(picture * np.float32(255)), 0, 255).astype(np.uint8)
        return near if np.array_equal(near.astype(np.float32) / np.float32(255), picture) else None
    return (np.rint(np.clip(picture, 0, 1) * np.float32(65535)).astype(np.int32) - _HALF).astype(np.int16)


def _put(values: np.ndarray, i: int, coded: np.ndarray | None, mapped: Any) -> bool:
    if coded is not None:
        values[i] = coded
        _release(mapped)
    return coded is not None


def _room(shape: tuple[int, ...], kind: np.dtype[Any], folder: Path | None) -> tuple[np.ndarray, Any]:
    """An array, in a file if it is large: then also the file's map."""
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size <= IN_MEMORY:
        return np.empty(shape, kind), None
    place = Path(tempfile.gettempdir()) if folder is None else folder
    free = shutil.disk_usage(place).free
    if free < size:
        room = f"{size / 1e9:.1f} GB on disk while they train, and {free / 1e9:.1f} are free"
        raise ValueError(
            f"{place}: {shape[0]} photos of this size need {room}; free some, or use --width or --downscale"
        )
    with tempfile.TemporaryFile(dir=place) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that is full says so now, not by a signal later
        else:
            file.truncate(size)
        mapped = mmap.mmap(file.fileno(), size)
    return np.frombuffer(mapped, kind).reshape(shape), mapped


def _release(mapped: Any) -> None:
    """Pages of the file that were touched stay in the system's cache, and leave this process."""
    if mapped is not None and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)
