"""Point clouds and Gaussian splats as .ply.

Splats use the layout of 3D Gaussian Splatting, which its viewers and tools write and read. One vertex a splat: x y z,
normals nx ny nz (zero), colour as spherical harmonics (f_dc_0 … 2, then f_rest_* channel by channel: all of red, all of
green, all of blue), opacity (a logit), scale_0 … 2 (logarithms), rot_0 … 3 (a quaternion w, x, y, z). A colour is
0.5 + Σ harmonics · basis, in display values.
"""

# Not by plyfile: it allocates whatever number of vertices a header claims; here the file must be long enough first.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dofnerf.files.guard import LARGEST_NUMBER, first_line, open_regular, read_bytes, shown
from dofnerf.files.outputs import atomic

TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4",
    "float64": "f8",
}  # fmt: skip
GREY = 128
BASES = (1, 4, 9, 16)  # spherical harmonics of degree 0 to 3
_HEADER = 1 << 16  # bytes that a header may have
_COLOURS = ("red", "green", "blue")
_MARK = "dofnerf"


@dataclass(frozen=True)
class Points:
    """Sparse points: `xyz` (P, 3) float64, `rgb` (P, 3) uint8, `error` (P,) float64 mean reprojection error in
    pixels."""

    xyz: np.ndarray
    rgb: np.ndarray
    error: np.ndarray

    def __len__(self) -> int:
        return len(self.xyz)


def read_ply(path: Path) -> Points:
    """The vertices of a .ply; grey where it has no colours, error 1 px where it has none."""
    vertices = _read_vertices(path, "points")
    xyz = np.stack([vertices[axis].astype(np.float64) for axis in "xyz"], axis=-1)
    if not (np.isfinite(xyz).all() and np.abs(xyz).max(initial=0) < LARGEST_NUMBER):
        raise ValueError(f"{path}: a point is NaN, infinite or absurdly far away")
    names = vertices.dtype.names or ()
    rgb = np.full((len(vertices), 3), GREY, dtype=np.uint8)
    for i, colour in enumerate(_COLOURS):
        if colour in names:
            values = np.nan_to_num(vertices[colour].astype(np.float64))
            scale = 255 if vertices.dtype[colour].kind == "f" else 1
            rgb[:, i] = np.clip(values * scale, 0, 255)
    given = np.abs(np.nan_to_num(vertices["error"].astype(np.float64))) if "error" in names else np.ones(len(vertices))
    return Points(xyz, rgb, given)


def write_ply(path: Path, points: Points) -> None:
    """Write binary .ply with float x, y, z, uchar red, green, blue and float error."""
    columns = [(axis, "<f4", points.xyz[:, i]) for i, axis in enumerate("xyz")]
    columns += [(colour, "u1", points.rgb[:, i]) for i, colour in enumerate(_COLOURS)]
    _write_vertices(path, [*columns, ("error", "<f4", points.error)])


@dataclass(frozen=True)
class Splats:
    """N Gaussians, float32: `means` and `log_scales` (N, 3), `rotations` (N, 4) as w, x, y, z, `opacities` (N,) as
    logits.

    `harmonics` (N, B, 3): B = (degree + 1)² coefficients of each colour channel.
    """

    means: np.ndarray
    log_scales: np.ndarray
    rotations: np.ndarray
    opacities: np.ndarray
    harmonics: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.means)
        shapes = {"means": (count, 3), "log_scales": (count, 3), "rotations": (count, 4), "opacities": (count,)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"splats: {name} has shape {getattr(self, name).shape}, expected {shape}")
        found = self.harmonics.shape
        if found[:1] + found[2:] != (count, 3) or found[1] not in BASES:
            raise ValueError(f"splats: harmonics has shape {found}, expected ({count}, 1 | 4 | 9 | 16, 3)")

    def __len__(self) -> int:
        return len(self.means)

    @property
    def degree(self) -> int:
        """The degree of the spherical harmonics, 0 to 3."""
        return round(self.harmonics.shape[1] ** 0.5) - 1


@dataclass(frozen=True)
class Drawing:
    """How to draw splats, which their layout cannot say; a comment in the header of our own files does.

    `blend`: colours mix as "display" values or as "light"; `background` (red, green, blue) is behind them; `up` is the
    scene's up axis.
    """

    blend: str
    background: tuple[float, ...]
    up: tuple[float, ...]

    @property
    def comment(self) -> str:
        listed = (",".join(f"{value:.6g}" for value in values) for values in (self.background, self.up))
        return "{} blend={} background={} up={}".format(_MARK, self.blend, *listed)


def read_drawing(path: Path | str) -> Drawing | None:
    """The comment of a .ply that says how to draw it; None for those of other tools."""
    with open_regular(path) as file:
        header = file.read(_HEADER).split(b"end_header")[0].decode("ascii", "replace")
    comment = next((line for line in header.split("\n") if line.startswith(f"comment {_MARK} ")), None)
    if comment is None:
        return None
    parts = dict(word.split("=", 1) for word in comment.split()[2:] if "=" in word)
    try:
        background, up = (tuple(float(value) for value in parts[name].split(",")) for name in ("background", "up"))
        sound = parts["blend"] in ("display", "light") and len(background) == len(up) == 3
    except (KeyError, ValueError):
        sound = False
    if (
        not sound
        or not np.isfinite((background, up)).all()
        or min(background) < 0
        or max(background) > 1
        or not any(up)
    ):
        raise ValueError(f"{path}: its header does not say how to draw it: {shown(comment.removeprefix('comment '))}")
    return Drawing(parts["blend"], background, up)


def write_splats(path: Path | str, splats: Splats, drawing: Drawing | None = None) -> None:
    """Write binary little-endian .ply; degree 0 has no f_rest. `drawing` becomes a comment, which other tools
    ignore."""
    columns: list[tuple[str, np.ndarray]] = [(axis, splats.means[:, i]) for i, axis in enumerate("xyz")]
    columns += [(f"n{axis}", np.zeros(len(splats))) for axis in "xyz"]
    columns += [(f"f_dc_{i}", splats.harmonics[:, 0, i]) for i in range(3)]
    rest = splats.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(splats), 3 * (splats.harmonics.shape[1] - 1))
    columns += [(f"f_rest_{i}", values) for i, values in enumerate(rest.T)]
    columns += [("opacity", splats.opacities)]
    columns += [(f"scale_{i}", splats.log_scales[:, i]) for i in range(3)]
    columns += [(f"rot_{i}", splats.rotations[:, i]) for i in range(4)]
    if not len(splats):
        raise ValueError(f"{path}: there are no splats to write")
    if not all(np.isfinite(values).all() for _, values in columns):
        raise ValueError(f"{path}: a splat holds NaN or infinity; nothing was written")
    comments = [] if drawing is None else [drawing.comment]
    _write_vertices(Path(path), [(name, "<f4", values) for name, values in columns], comments)


def read_splats(path: Path | str) -> Splats:
    """The splats of a .ply from any tool: columns in any order, others ignored, degree 0 to 3; rotations become
    unit."""
    path = Path(path)
    table = _read_vertices(path, "splats")
    names = set(table.dtype.names or ())
    rotation, scale, colour = ([f"{part}_{i}" for i in range(n)] for part, n in (("rot", 4), ("scale", 3), ("f_dc", 3)))
    missing = [name for name in ("x", "y", "z", "opacity", *scale, *rotation, *colour) if name not in names]
    if missing:
        what = "points, not splats" if {"opacity", "scale_0", "rot_0"} <= set(missing) else "splats"
        raise ValueError(f"{path}: a .ply of {what}: the property {missing[0]} is missing")
    if not len(table):
        raise ValueError(f"{path}: it holds no splats")
    rest = sum(name.startswith("f_rest_") for name in names)
    bases = 1 + rest // 3
    if rest % 3 or bases not in BASES or any(f"f_rest_{i}" not in names for i in range(rest)):
        raise ValueError(f"{path}: {rest} properties f_rest_*, expected 0, 9, 24 or 45, numbered from 0")

    def columns(*wanted: str) -> np.ndarray:
        with np.errstate(over="ignore"):  # caught here
            values = np.stack([table[name] for name in wanted], axis=-1).astype(np.float32)
        bad = ~(np.abs(values) < LARGEST_NUMBER)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"{path}: splat {row}: {wanted[column]} is {values[row, column]:g}")
        return values

    rotations = columns(*rotation)
    norm = np.linalg.norm(rotations.astype(np.float64), axis=1, keepdims=True)
    if not norm.min() > 0:
        raise ValueError(f"{path}: splat {int(np.argmin(norm))}: its rotation is zero")
    harmonics = np.empty((len(table), bases, 3), dtype=np.float32)
    harmonics[:, 0] = columns(*colour)
    if rest:
        by_channel = columns(*(f"f_rest_{i}" for i in range(rest))).reshape(len(table), 3, bases - 1)
        harmonics[:, 1:] = by_channel.transpose(0, 2, 1)
    unit = (rotations / norm).astype(np.float32)
    return Splats(columns("x", "y", "z"), columns(*scale), unit, columns("opacity")[:, 0], harmonics)


def _write_vertices(path: Path, columns: Sequence[tuple[str, str, np.ndarray]], comments: Sequence[str] = ()) -> None:
    """Write columns (name, "<f4" or "u1", values) as binary .ply."""
    table = np.empty(len(columns[0][2]), dtype=[(name, kind) for name, kind, _ in columns])
    for name, _, values in columns:
        table[name] = values
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {words}" for words in comments)]
    header += [f"element vertex {len(table)}"]
    header += [f"property {'float' if kind == '<f4' else 'uchar'} {name}" for name, kind, _ in columns]
    with atomic(path) as temporary:
        temporary.write_bytes("\n".join([*header, "end_header", ""]).encode("ascii") + table.tobytes())


def _read_vertices(path: Path, what: str) -> np.ndarray:
    data = read_bytes(path)
    try:
        return _vertices(data)
    except (ValueError, KeyError, IndexError, OverflowError, TypeError, MemoryError) as error:
        raise ValueError(f"{path}: not a .ply of {what} that can be read ({first_line(error)})") from None


def _vertices(data: bytes) -> np.ndarray:
    """The vertices as a structured array; any order of columns, little- and big-endian, ascii."""
    if not data.startswith(b"ply"):
        raise ValueError("it does not begin with 'ply'")
    if b"end_header" not in data[:_HEADER]:
        raise ValueError("its header has no end")
    end = data.index(b"end_header", 0, _HEADER)
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
                raise ValueError("it is compressed; save it uncompressed, in SuperSplat: PLY, not compressed")
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
        left = len(data) - start
        raise ValueError(f"it is truncated: {count} points of {layout.itemsize} bytes do not fit into {left}")
    return np.frombuffer(data, dtype=layout, count=count, offset=start)
