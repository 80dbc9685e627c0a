"""Point clouds as .ply: ascii and binary, coordinates, colours and, if there, our `error` in pixels.

`read_vertices` and `write_vertices` know the file; what its columns mean, points (here) and splats (splats.py) know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dofnerf.files import atomic
from dofnerf.files.guard import LARGEST_NUMBER, first_line

TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip
GREY = 128


@dataclass(frozen=True)
class Points:
    """Sparse 3D points: `xyz` (P, 3) float64, `rgb` (P, 3) uint8, `error` (P,) float64 mean reprojection error in
    pixels."""

    xyz: np.ndarray
    rgb: np.ndarray
    error: np.ndarray

    def __len__(self) -> int:
        return len(self.xyz)


def read_ply(path: Path) -> Points:
    """The vertices of a .ply; grey where it has no colours, error 1 px where it has none."""
    data = path.read_bytes()
    try:
        vertices = read_vertices(data)
    except (ValueError, KeyError, IndexError, OverflowError, TypeError, MemoryError) as error:
        raise ValueError(f"{path}: not a .ply of points that can be read ({first_line(error)})") from None
    xyz = np.stack([vertices[axis].astype(np.float64) for axis in "xyz"], axis=-1)
    if not (np.isfinite(xyz).all() and np.abs(xyz).max(initial=0) < LARGEST_NUMBER):
        raise ValueError(f"{path}: a point is NaN, infinite or absurdly far away")
    names = vertices.dtype.names or ()
    count = len(vertices)
    rgb = np.full((count, 3), GREY, dtype=np.uint8)
    for i, colour in enumerate(("red", "green", "blue")):
        if colour in names:
            values = np.nan_to_num(vertices[colour].astype(np.float64))
            scale = 255 if vertices.dtype[colour].kind == "f" else 1
            rgb[:, i] = np.clip(values * scale, 0, 255)
    missed = np.abs(np.nan_to_num(vertices["error"].astype(np.float64))) if "error" in names else np.ones(count)
    return Points(xyz, rgb, missed)


def write_ply(path: Path, points: Points) -> None:
    """Write binary .ply with float x, y, z, uchar red, green, blue and float error."""
    layout = [(axis, "<f4") for axis in "xyz"] + [(c, "u1") for c in ("red", "green", "blue")] + [("error", "<f4")]
    table = np.empty(len(points), dtype=layout)
    for i, axis in enumerate("xyz"):
        table[axis] = points.xyz[:, i]
    for i, colour in enumerate(("red", "green", "blue")):
        table[colour] = points.rgb[:, i]
    table["error"] = points.error
    write_vertices(path, table)


def write_vertices(path: Path, table: np.ndarray, comments: Sequence[str] = ()) -> None:
    """Write a structured array of little-endian floats ("<f4") and bytes ("u1") as binary .ply."""
    kinds = {"<f4": "float", "|u1": "uchar"}
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {words}" for words in comments)]
    header += [f"element vertex {len(table)}"]
    header += [f"property {kinds[table.dtype[name].str]} {name}" for name in table.dtype.names or ()] + [
        "end_header",
        "",
    ]
    with atomic(path) as temporary:
        temporary.write_bytes("\n".join(header).encode("ascii") + table.tobytes())


def read_comments(path: Path) -> list[str]:
    """The comments in the header of a .ply."""
    with path.open("rb") as file:
        header = file.read(1 << 16).split(b"end_header")[0].decode("ascii", "replace")
    return [line.removeprefix("comment ").strip() for line in header.split("\n") if line.startswith("comment ")]


def read_vertices(data: bytes) -> np.ndarray:
    """The vertices of a .ply as a structured array; any order of columns, little- and big-endian, ascii."""
    if not data.startswith(b"ply"):
        raise ValueError("it does not begin with 'ply'")
    if b"end_header" not in data[: 1 << 16]:
        raise ValueError("its header has no end")
    end = data.index(b"end_header", 0, 1 << 16)
    lines = data[:end].decode("ascii").split("\n")
    start = data.index(b"\n", end) + 1
    if lines[0].strip() != "ply":
        raise ValueError("it does not begin with 'ply'")
    form, count, fields, current = "", 0, [], ""
    for words in (line.split() for line in lines[1:]):
        if words[:1] == ["format"]:
            form = words[1]
        elif words[:1] == ["element"]:
            if words[1] == "chunk":
                raise ValueError(
                    "it is a compressed .ply; save it as an uncompressed one, in SuperSplat: PLY, not compressed"
                )
            if not current and words[1] != "vertex":
                raise ValueError("the vertices do not come first")
            current = words[1]
            count = int(words[2]) if current == "vertex" else count
        elif words[:1] == ["property"] and current == "vertex":
            if words[1] not in TYPES:
                raise ValueError(f"a vertex has a property of type {words[1]:.20}")
            fields.append((words[2], TYPES[words[1]]))
    if not {"x", "y", "z"} <= {name for name, _ in fields}:
        raise ValueError("it has no x, y, z")
    if count < 0:
        raise ValueError(f"it claims {count} points")
    if form == "ascii":
        rows = [line.split() for line in data[start:].decode("ascii").split("\n") if line.strip()][:count]
        if len(rows) < count or any(len(row) < len(fields) for row in rows):
            raise ValueError("it is truncated")
        table = np.empty(count, dtype=fields)
        values = np.array([row[: len(fields)] for row in rows], dtype=np.float64).reshape(count, len(fields))
        for i, (name, _) in enumerate(fields):
            table[name] = values[:, i]
        return table
    order = {"binary_little_endian": "<", "binary_big_endian": ">"}.get(form)
    if order is None:
        raise ValueError(f"the format {form:.30} is not known")
    layout = np.dtype([(name, order + kind) for name, kind in fields])
    if start + count * layout.itemsize > len(data):
        raise ValueError(
            f"it is truncated: {count} points of {layout.itemsize} bytes do not fit into {len(data) - start}"
        )
    return np.frombuffer(data, dtype=layout, count=count, offset=start)
