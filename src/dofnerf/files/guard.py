"""Checks of what is read from files, which may be damaged or hostile.

Each raises ValueError or OSError with one line that names the file, and the frame, and says what is wrong. Only regular
files are opened. Nothing outside a scene's own folder is read for it.
"""

from __future__ import annotations

import ast
import errno
import io
import json
import math
import os
import re
import stat
import unicodedata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

LARGEST_JSON = 1 << 28
LARGEST_HEADER = 10_000  # bytes that describe a .npy array
# No photo, lens or room needs a larger number; beyond it float32 renderers overflow.
LARGEST_NUMBER = 1e12
SMALLEST_NUMBER = 1e-9
LARGEST_SIDE = 1 << 20  # pixels
NARROWEST = 1e-5  # depth range as a fraction of the depth; float32 renderers tell no less apart


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


def check_regular(path: Path | str) -> None:
    """Refuse what is not a regular file: opening a FIFO or a device may block for ever."""
    _refuse_special(os.stat(path).st_mode, path)


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file for reading; anything else is refused, without blocking."""
    check_regular(path)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    try:
        _refuse_special(os.fstat(handle).st_mode, path)  # it may have been replaced since
    except OSError:
        file.close()
        raise
    return file


def _refuse_special(mode: int, path: Path | str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file (a pipe, a device or a socket)", str(path))


def read_bytes(path: Path | str) -> bytes:
    """The content of a regular file."""
    with open_regular(path) as file:
        try:
            return file.read()
        except OSError as error:  # reading, unlike opening, does not name the file
            raise OSError(error.errno, error.strerror, str(path)) from None


def read_text(path: Path | str) -> str:
    """The content of a regular file, which must be UTF-8; a byte order mark is dropped."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 (byte {error.start})") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file whose outermost value is an object."""
    value = read_json_value(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, found {shown(value)}")
    return value


def read_json_value(path: Path) -> Any:
    """A JSON file, whatever it holds."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_JSON:
            raise ValueError(f"{path}: larger than {LARGEST_JSON >> 20} MB; this is not a scene description")
    return parse_json(read_bytes(path), str(path))


def parse_json(text: bytes | str, where: str) -> Any:
    """The value of a JSON text. An integer that no float64 can hold becomes infinity, which `number` refuses."""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(decoded, parse_int=_integer)
    except RecursionError:
        raise ValueError(f"{where}: the JSON is nested absurdly deep") from None
    except ValueError as error:
        raise ValueError(f"{where}: not valid JSON ({first_line(error)})") from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 300 else float(digits)


def read_array(path: Path) -> np.ndarray:
    """A .npy file of real numbers as float64.

    The header is believed only as far as the file is long. Pickled objects are refused, and so is an .npz by that name.
    """
    data = read_bytes(path)
    try:
        shape, fortran, dtype, start = _array_header(data)
        count = math.prod(shape)
        if start + count * dtype.itemsize > len(data):
            raise ValueError("the file is shorter than its header says")
        flat = np.frombuffer(data, dtype=dtype, count=count, offset=start) if count else np.zeros(0, dtype)
        return flat.reshape(shape, order="F" if fortran else "C").astype(np.float64)
    except Exception as error:  # whatever the broken bytes lead to
        raise ValueError(f"{path}: not a readable .npy array ({first_line(error)})") from None


def _array_header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether columns come first, type, and where the numbers begin."""
    if data[:2] == b"PK":
        raise ValueError("it is a zip file: an .npz of several arrays; save one array by numpy.save")
    version = np.lib.format.read_magic(io.BytesIO(data[:8]))
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its version {version} is not known")
    begin = 10 if version == (1, 0) else 12
    start = begin + int.from_bytes(data[8:begin], "little")
    if not begin < start <= min(len(data), LARGEST_HEADER):
        raise ValueError("its header is longer than the file, or absurdly long")
    words = re.sub(r"(\d)L\b", r"\1", data[begin:start].decode("latin1"))  # Python 2 wrote (20L, 17L)
    header = ast.literal_eval(words.strip())
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header lacks descr, fortran_order or shape")
    descr, shape = header["descr"], header["shape"]
    if not isinstance(descr, str) or len(descr) > 8:
        raise ValueError(f"it holds {shown(descr)}, not numbers")
    dtype = np.dtype(descr)
    if dtype.kind not in "fiu" or not dtype.itemsize:
        raise ValueError(f"it holds {'pickled objects' if dtype.hasobject else dtype}, not numbers")
    plain = isinstance(shape, tuple) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 1 << 48 for n in shape)
    if not plain or not isinstance(header["fortran_order"], bool):
        raise ValueError(f"its shape is {shown(shape)}")
    return shape, header["fortran_order"], dtype, start


def number(value: Any, where: str, positive: bool = False) -> float:
    """A finite number, not absurdly large nor, where it must be positive, absurdly small."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: expected a number, found {shown(value)}")
    if not -LARGEST_NUMBER < value < LARGEST_NUMBER:  # nor NaN
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
        raise ValueError(f"{where}: the depth range must have 0 < near < far, found {near:.9g} to {far:.9g}")
    if far - near < NARROWEST * far:
        raise ValueError(f"{where}: the depth range {near:.9g} to {far:.9g} is too narrow to tell depths apart")
    return near, far


def shown(value: Any) -> str:
    """A value in one short line."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= 60 else text[:57] + "…"


def visible(text: str) -> str:
    """Text with what a terminal would obey, or hide, written out: no line ends, no colours, no bells."""
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else repr(c)[1:-1] for c in text)


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
