"""Point clouds and Gaussian splats as .ply.

Splats use the layout of 3D Gaussian Splatting, which its viewers and tools write and read. One vertex a splat: x y z,
normals nx ny nz (zero), colour as spherical harmonics (f_dc_0 … 2, then f_rest_* channel by channel: all of red, all of
green, all of blue), opacity (a logit), scale_0 … 2 (logarithms), rot_0 … 3 (a quaternion w, x, y, z). A colour is
0.5 + Σ harmonics · basis, in display values.
"""

# Not by plyfile: it allocates whatever number of vertices a header claims; here the file must be long enough first.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
NOT_TURNED = (1.0, 0.0, 0.0, 0.0)
BASES = (1, 4, 9, 16)  # spherical harmonics of degree 0 to 3
HEADER = 1 << 16  # bytes that a header may have
_COLOURS = ("red", "green", "blue")
_MARK = "dofnerf"
_SOLID = 30.0  # the logit of what is as solid as can be


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
    """How to draw splats, which most layouts cannot say; a comment in the header of our own .ply does.

    `blend`: colours mix as "display" values, or as "light"; or the harmonics themselves give "linear" light (glTF's
    lin_rec709_display). `background` (red, green, blue) is behind them; `up` is the scene's up axis as it was before it
    was rotated by the quaternion `turn` (w, x, y, z) into what the file holds. `antialiased`: it was trained so.
    """

    blend: str = "display"
    background: tuple[float, ...] = (0.0, 0.0, 0.0)
    up: tuple[float, ...] = (0.0, -1.0, 0.0)
    turn: tuple[float, ...] = NOT_TURNED
    antialiased: bool = False

    @property
    def comment(self) -> str:
        listed = (",".join(f"{value:.9g}" for value in values) for values in (self.background, self.up, self.turn))
        words = "{} blend={} background={} up={} turn={}".format(_MARK, self.blend, *listed)
        return words.removesuffix(" turn=1,0,0,0")


def check_drawing(drawing: Drawing, where: str) -> Drawing:
    """The drawing with a `turn` of unit length; ValueError if it is not sound."""
    numbers = drawing.background, drawing.up, drawing.turn
    sound = drawing.blend in ("display", "light", "linear") and [len(values) for values in numbers] == [3, 3, 4]
    sound = sound and all(np.isfinite(values).all() and max(map(abs, values)) < LARGEST_NUMBER for values in numbers)
    length = float(np.linalg.norm(drawing.turn)) if sound else 0.0
    if not sound or min(drawing.background) < 0 or max(drawing.background) > 1 or not any(drawing.up) or length < 1e-6:
        raise ValueError(f"{where}: does not say how to draw it: {shown(drawing.comment)}")
    return replace(drawing, turn=tuple(value / length for value in drawing.turn))


def read_drawing(path: Path | str) -> Drawing | None:
    """The comment of a .ply that says how to draw it; None for those of other tools."""
    with open_regular(path) as file:
        header = file.read(HEADER).split(b"end_header")[0].decode("ascii", "replace")
    comment = next((line for line in header.split("\n") if line.startswith(f"comment {_MARK} ")), None)
    if comment is None:
        return None
    parts = {"turn": "1,0,0,0"} | dict(word.split("=", 1) for word in comment.split()[2:] if "=" in word)
    try:
        background, up, turn = (
            tuple(float(value) for value in parts[name].split(",")) for name in ("background", "up", "turn")
        )
        blend = parts["blend"]
    except (KeyError, ValueError):
        words = shown(comment.removeprefix("comment "))
        raise ValueError(f"{path}: its header does not say how to draw it: {words}") from None
    return check_drawing(Drawing(blend, background, up, turn), f"{path}: its header")


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
    rest = sum(name.startswith("f_rest_") for name in names)
    bases = 1 + rest // 3
    if rest % 3 or bases not in BASES or any(f"f_rest_{i}" not in names for i in range(rest)):
        raise ValueError(f"{path}: {rest} properties f_rest_*, expected 0, 9, 24 or 45, numbered from 0")

    def columns(*wanted: str) -> np.ndarray:
        with np.errstate(over="ignore"):  # caught by check_splats
            return np.stack([table[name] for name in wanted], axis=-1).astype(np.float32)

    harmonics = np.empty((len(table), bases, 3), dtype=np.float32)
    harmonics[:, 0] = columns(*colour)
    if rest:
        by_channel = columns(*(f"f_rest_{i}" for i in range(rest))).reshape(len(table), 3, bases - 1)
        harmonics[:, 1:] = by_channel.transpose(0, 2, 1)
    splats = Splats(columns("x", "y", "z"), columns(*scale), columns(*rotation), columns("opacity")[:, 0], harmonics)
    return check_splats(splats, path)


def check_splats(splats: Splats, path: Path | str) -> Splats:
    """The splats with unit rotations; ValueError if there are none, or one has NaN, infinity, an absurd number or no
    rotation. Opacities alone may be infinite, as logits of bytes 0 and 255 are in files of other tools."""
    splats = replace(splats, opacities=_finite(splats.opacities))
    if not len(splats):
        raise ValueError(f"{path}: it holds no splats")
    count = len(splats)
    rest = splats.harmonics[:, 1:].transpose(0, 2, 1)
    for names, values in (
        (("x", "y", "z"), splats.means),
        (tuple(f"scale_{i}" for i in range(3)), splats.log_scales),
        (tuple(f"rot_{i}" for i in range(4)), splats.rotations),
        (("opacity",), splats.opacities[:, None]),
        (tuple(f"f_dc_{i}" for i in range(3)), splats.harmonics[:, 0]),
        (tuple(f"f_rest_{i}" for i in range(rest[0].size)), rest.reshape(count, -1)),
    ):
        bad = ~(np.abs(values) < LARGEST_NUMBER)  # NaN too
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"{path}: splat {row}: {names[column]} is {values[row, column]:g}")
    norm = np.linalg.norm(splats.rotations.astype(np.float64), axis=1, keepdims=True)
    if not norm.min() > 0:
        raise ValueError(f"{path}: splat {int(np.argmin(norm))}: its rotation is zero")
    return replace(splats, rotations=(splats.rotations / norm).astype(np.float32))


def _finite(logits: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(logits), np.copysign(_SOLID, logits), logits).astype(np.float32)


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


@dataclass(frozen=True)
class Element:
    """A part of a .ply: `fields` are (name, type) of its properties, as the header says them."""

    name: str
    count: int
    fields: list[tuple[str, str]]

    def layout(self, order: str = "<") -> np.dtype:
        """One row, in this byte order; ValueError for lists and unknown types."""
        for _, kind in self.fields:
            if kind not in TYPES:
                raise ValueError(f"a {self.name} has a property of type {kind:.20}")
        return np.dtype([(name, order + TYPES[kind]) for name, kind in self.fields])


def read_header(data: bytes) -> tuple[str, list[Element], int]:
    """Format, elements, and where the rows begin."""
    if not data.startswith(b"ply"):
        raise ValueError("it does not begin with 'ply'")
    if b"end_header" not in data[:HEADER]:
        raise ValueError("its header has no end")
    end = data.index(b"end_header", 0, HEADER)
    lines = data[:end].decode("ascii").split("\n")
    start = data.index(b"\n", end) + 1
    if lines[0].strip() != "ply":
        raise ValueError("it does not begin with 'ply'")
    form, elements = "", list[Element]()
    for words in (line.split() for line in lines[1:]):
        if words[:1] == ["format"]:
            form = words[1]
        elif words[:1] == ["element"]:
            elements.append(Element(words[1], int(words[2]), []))
            if elements[-1].count < 0:
                raise ValueError(f"it claims {elements[-1].count} of {words[1]:.20}")
        elif words[:1] == ["property"] and elements:
            elements[-1].fields.append((words[2], words[1]))
    return form, elements, start


def _vertices(data: bytes) -> np.ndarray:
    """The vertices as a structured array; any order of columns, little- and big-endian, ascii."""
    form, elements, start = read_header(data)
    if not elements or elements[0].name != "vertex":
        raise ValueError("the vertices do not come first")
    count, fields = elements[0].count, elements[0].fields
    elements[0].layout()
    if not {"x", "y", "z"} <= {name for name, _ in fields}:
        raise ValueError("it has no x, y, z")
    if form == "ascii":
        rows = [line.split() for line in data[start:].decode("ascii").split("\n") if line.strip()][:count]
        if len(rows) < count or any(len(row) < len(fields) for row in rows):
            raise ValueError("it is truncated")
        table = np.empty(count, dtype=elements[0].layout())
        values = np.array([row[: len(fields)] for row in rows], dtype=np.float64).reshape(count, len(fields))
        for i, (name, _) in enumerate(fields):
            table[name] = values[:, i]
        return table
    order = {"binary_little_endian": "<", "binary_big_endian": ">"}.get(form)
    if order is None:
        raise ValueError(f"the format {form:.30} is not known")
    layout = elements[0].layout(order)
    if start + count * layout.itemsize > len(data):
        left = len(data) - start
        raise ValueError(f"it is truncated: {count} points of {layout.itemsize} bytes do not fit into {left}")
    return np.frombuffer(data, dtype=layout, count=count, offset=start)
