"""Checks of what is read from a scene's folder, which may be damaged or hostile.

Each raises ValueError with one line that names the file and the frame and says what is wrong. Nothing outside the
scene's own folder is ever opened.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

LARGEST_JSON = 1 << 28
# No photo, lens or room needs a larger number; beyond it float32 renderers overflow.
LARGEST_NUMBER = 1e12
SMALLEST_NUMBER = 1e-9


def inside(root: Path, name: Any, where: str) -> Path:
    """The file `name` of the scene folder `root`, links followed; an error if that leaves the folder."""
    if not isinstance(name, str) or not name or len(name) > 1000 or not name.isprintable():
        raise ValueError(f"{where}: expected a file name, found {shown(name)}")
    root = root.resolve()
    try:
        path = (root / name.replace("\\", "/")).resolve()
    except (OSError, RuntimeError, ValueError):
        raise ValueError(f"{where}: {shown(name)} is not a usable path") from None
    if not path.is_relative_to(root):
        raise ValueError(f"{where}: {shown(name)} leads outside the scene folder; copy the file into it")
    return path


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file whose outermost value is an object."""
    value = read_json_value(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, found {shown(value)}")
    return value


def read_json_value(path: Path) -> Any:
    """A JSON file, whatever it holds."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: larger than {LARGEST_JSON >> 20} MB; this is not a scene description")
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except RecursionError:
        raise ValueError(f"{path}: the JSON is nested absurdly deep") from None
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({first_line(error)})") from None


def read_array(path: Path) -> np.ndarray:
    """A .npy file of real numbers as float64. The header is believed only as far as the file is long."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = header(file)
            if dtype.kind not in "fiu":
                raise ValueError(f"it holds {'pickled objects' if dtype.hasobject else dtype}, not numbers")
            if file.tell() + math.prod(shape) * dtype.itemsize > path.stat().st_size:
                raise ValueError("the file is shorter than its header says")
        return np.load(path, allow_pickle=False).astype(np.float64)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: not a readable .npy array ({first_line(error)})") from None


def number(value: Any, where: str, positive: bool = False) -> float:
    """A finite number, not absurdly large nor, where it must be positive, absurdly small."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: expected a number, found {shown(value)}")
    if not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        raise ValueError(f"{where}: {shown(value)} is not a usable number")
    if positive and value <= SMALLEST_NUMBER:
        raise ValueError(f"{where}: must be larger than 0, found {shown(value)}")
    return float(value)


def pose(matrix: Any, where: str) -> np.ndarray:
    """Camera-to-world (3, 4) float64 from (3, 4) or (4, 4) numbers whose left block is a rotation."""
    try:
        array = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise ValueError(f"{where}: the pose is not a matrix of numbers") from None
    if array.shape not in ((3, 4), (4, 4)):
        raise ValueError(f"{where}: the pose has shape {array.shape}, expected (4, 4) or (3, 4)")
    array = array[:3]
    if not np.isfinite(array).all():
        raise ValueError(f"{where}: the pose holds NaN or infinity; leave this photo out or estimate its pose again")
    if np.abs(array).max() > LARGEST_NUMBER:
        raise ValueError(f"{where}: the pose holds an absurdly large number")
    rotation = array[:, :3]
    if np.abs(rotation.T @ rotation - np.eye(3)).max() > 1e-3 or np.linalg.det(rotation) < 0:
        raise ValueError(f"{where}: the pose's left 3×3 block is not a rotation (scaled, mirrored or skewed)")
    return array


def bounds(near: Any, far: Any, where: str) -> tuple[float, float]:
    """A depth range with 0 < near < far."""
    near, far = number(near, f"{where}: near"), number(far, f"{where}: far")
    if not 0 < near < far:
        raise ValueError(f"{where}: the depth range must have 0 < near < far, found {near:g} to {far:g}")
    return near, far


def shown(value: Any) -> str:
    """A value in one short line."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 60 else text[:57] + "…"


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
