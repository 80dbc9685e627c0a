"""Files of 3D Gaussians, one file a format, found by itself: a class with `name`, `suffixes`, `detects` and `read`.

A plug-in adds one in the same way. Own code rather than libraries, because these formats are small and their files are
strangers': gsply unpacks whatever a file claims to hold, and leaves SPZ upside down; pygltflib needs three packages to
read one mesh.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from dofnerf.files.guard import first_line, number, open_regular, shown
from dofnerf.files.ply import HEADER, Drawing, Splats, check_drawing, check_splats

C0 = 0.28209479177387814  # the harmonic of degree 0
EPSILON = 1e-6  # opacities are taken as logits of at least this, and at most 1 less this
BOMB = 200  # times its size that a compressed file may unpack to, beyond FEW bytes
FEW = 1 << 24

FORMATS: dict[str, SplatFormat] = {}
_Type = TypeVar("_Type", bound="type[SplatFormat]")


def register(kind: _Type) -> _Type:
    """Make a format of splat files known by its `name`."""
    FORMATS[kind.name] = kind()
    return kind


class SplatFormat(ABC):
    """A format of files of 3D Gaussians, whose names end in one of `suffixes`."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def detects(self, head: bytes) -> bool:
        """Whether a file of one of its suffixes that begins with these bytes is of this format."""
        return True

    @abstractmethod
    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        """The splats, as 3D Gaussian Splatting has them: y down, unless the drawing says where up is. Whatever it
        raises becomes one line that names the file."""


def suffixes() -> tuple[str, ...]:
    """How the names of splat files end."""
    return tuple(dict.fromkeys(suffix for form in FORMATS.values() for suffix in form.suffixes))


def is_splat_name(path: Path) -> bool:
    """Whether a file is one of splats, by its name."""
    return path.suffix.lower() in suffixes()


def read_splat_file(path: Path) -> tuple[Splats, Drawing | None]:
    """The splats of a file of any format, and how to draw them where the file says it."""
    with open_regular(path) as file:
        head = file.read(HEADER)
    fitting = [form for form in FORMATS.values() if path.suffix.lower() in form.suffixes and form.detects(head)]
    if not fitting:
        known = ", ".join(suffixes())
        raise ValueError(f"{path}: not a file of splats that can be read (known are {known})")
    try:
        splats, drawing = fitting[0].read(path)
    except OSError:
        raise
    except Exception as error:  # whatever the broken bytes lead to
        words = first_line(error)
        if isinstance(error, ValueError) and words.startswith(str(path)) and "\n" not in str(error):
            raise
        raise ValueError(f"{path}: not a readable {fitting[0].name} ({words})") from None
    return check_splats(splats, path), None if drawing is None else check_drawing(drawing, str(path))


def plain_drawing(drawing: Drawing) -> dict[str, list[float]]:
    """As JSON, for formats that have room for it."""
    return {"background": list(drawing.background), "up": list(drawing.up), "turn": list(drawing.turn)}


def drawing_of(plain: Any, default: Drawing) -> Drawing:
    """The inverse; what it does not say is as in `default`."""
    if not isinstance(plain, dict):
        return default

    def values(name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
        given = plain.get(name, list(usual))
        if not isinstance(given, list):
            raise ValueError(f"dofnerf.{name} is {shown(given)}, not a list")
        return tuple(number(value, f"dofnerf.{name}") for value in given)

    background, up, turn = (values(name, getattr(default, name)) for name in ("background", "up", "turn"))
    return replace(default, background=background, up=up, turn=turn)


def to_logits(opacities: np.ndarray) -> np.ndarray:
    """Opacities 0 … 1 as float32 logits."""
    solid = np.clip(opacities.astype(np.float64), EPSILON, 1 - EPSILON)
    return np.log(solid / (1 - solid)).astype(np.float32)


def to_opacities(logits: np.ndarray) -> np.ndarray:
    """Logits as opacities 0 … 1, float64."""
    return 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -80, 80)))


def rounded(values: np.ndarray, high: int) -> np.ndarray:
    """The nearest whole numbers of 0 … high, int64."""
    return np.clip(np.rint(values), 0, high).astype(np.int64)


def unpacked_quaternions(packed: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Unit quaternions (N, 4) from their three smaller parts (N, 3) and the place of the largest, (N,), which is
    positive."""
    count = len(packed)
    left_out = np.sqrt(np.maximum(1 - np.square(packed).sum(1), 0))
    others = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])[largest]
    whole = np.empty((count, 4), np.float32)
    np.put_along_axis(whole, others, packed.astype(np.float32), axis=1)
    np.put_along_axis(whole, largest[:, None], left_out[:, None].astype(np.float32), axis=1)
    return whole


def packed_quaternions(quaternions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `unpacked_quaternions`: parts (N, 3) of −√½ … √½, and the place (N,) of the largest."""
    unit = quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)
    largest = np.abs(unit).argmax(1)
    unit = unit * np.where(np.take_along_axis(unit, largest[:, None], 1) < 0, -1, 1)
    others = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])[largest]
    return np.take_along_axis(unit, others, 1), largest


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
