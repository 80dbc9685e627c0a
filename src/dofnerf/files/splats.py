"""Gaussian splats as .ply, in the layout of 3D Gaussian Splatting, which its viewers and tools write and read.

One vertex a splat: x y z, normals nx ny nz (zero), colour as spherical harmonics (f_dc_0 … 2, then f_rest_* channel by
channel: all of red, all of green, all of blue), opacity (a logit), scale_0 … 2 (logarithms), rot_0 … 3 (a quaternion w,
x, y, z). A colour is 0.5 + Σ harmonics · basis, in display values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dofnerf.files.guard import LARGEST_NUMBER, first_line
from dofnerf.files.ply import read_comments, read_vertices, write_vertices

CONSTANT = 0.28209479177387814  # the basis function of degree 0: colour = 0.5 + CONSTANT · f_dc
HIGHEST_DEGREE = 3
_MARK = "dofnerf"
_WITHOUT_HARMONICS = ("x", "y", "z", "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")


@dataclass(frozen=True)
class Splats:
    """N Gaussians, float32: `means` (N, 3), `log_scales` (N, 3), `rotations` (N, 4) as w, x, y, z, `opacities` (N,) as
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
        bases = [(degree + 1) ** 2 for degree in range(HIGHEST_DEGREE + 1)]
        if self.harmonics.shape[:1] + self.harmonics.shape[2:] != (count, 3) or self.harmonics.shape[1] not in bases:
            raise ValueError(
                f"splats: harmonics has shape {self.harmonics.shape}, expected ({count}, 1 | 4 | 9 | 16, 3)"
            )

    def __len__(self) -> int:
        return len(self.means)

    @property
    def degree(self) -> int:
        """The degree of the spherical harmonics, 0 to 3."""
        return round(self.harmonics.shape[1] ** 0.5) - 1


@dataclass(frozen=True)
class Drawing:
    """How splats are meant to be drawn, which their layout cannot say; a comment in the header of our own files does.

    `blend`: colours mix as "display" values or as "light"; `background` (red, green, blue) lies behind them; `up` is
    up.
    """

    blend: str
    background: tuple[float, ...]
    up: tuple[float, ...]

    @property
    def comment(self) -> str:
        parts = {"blend": self.blend, "background": _listed(self.background), "up": _listed(self.up)}
        return " ".join((_MARK, *(f"{name}={value}" for name, value in parts.items())))


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.6g}" for value in values)


def read_drawing(path: Path | str) -> Drawing | None:
    """What a .ply says of it; None for those of other tools."""
    for comment in read_comments(Path(path)):
        if comment.startswith(f"{_MARK} "):
            parts = dict(word.split("=", 1) for word in comment.split()[1:] if "=" in word)
            try:
                numbers = [tuple(float(value) for value in parts[name].split(",")) for name in ("background", "up")]
                sound = parts["blend"] in ("display", "light") and all(
                    len(three) == 3 and np.isfinite(three).all() for three in numbers
                )
            except (KeyError, ValueError):
                sound = False
            if not sound or min(numbers[0]) < 0 or max(numbers[0]) > 1 or not np.any(numbers[1]):
                raise ValueError(f"{path}: its header does not say how to draw it: {comment:.80}")
            return Drawing(parts["blend"], *numbers)
    return None


def write_splats(path: Path | str, splats: Splats, drawing: Drawing | None = None) -> None:
    """Write binary little-endian .ply; degree 0 has no f_rest. `drawing` becomes a comment, which other tools pass
    over."""
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
    table = np.empty(len(splats), dtype=[(name, "<f4") for name, _ in columns])
    for name, values in columns:
        table[name] = values
    write_vertices(Path(path), table, [] if drawing is None else [drawing.comment])


def read_splats(path: Path | str) -> Splats:
    """The splats of a .ply from any tool: columns in any order, others ignored, degree 0 to 3; rotations come back
    unit."""
    path = Path(path)
    data = path.read_bytes()
    try:
        table = read_vertices(data)
    except (ValueError, KeyError, IndexError, OverflowError, TypeError, MemoryError) as error:
        raise ValueError(f"{path}: not a .ply of splats that can be read ({first_line(error)})") from None
    names = set(table.dtype.names or ())
    missing = [name for name in (*_WITHOUT_HARMONICS, "f_dc_0", "f_dc_1", "f_dc_2") if name not in names]
    if missing:
        what = "points, not splats" if {"opacity", "scale_0", "rot_0"} <= set(missing) else "splats"
        raise ValueError(f"{path}: a .ply of {what}: the property {missing[0]} is missing")
    if not len(table):
        raise ValueError(f"{path}: it holds no splats")
    rest = sum(name.startswith("f_rest_") for name in names)
    bases = 1 + rest // 3
    if rest % 3 or bases not in (1, 4, 9, 16) or any(f"f_rest_{i}" not in names for i in range(rest)):
        raise ValueError(f"{path}: {rest} properties f_rest_*, expected 0, 9, 24 or 45, numbered from 0")

    def columns(*wanted: str) -> np.ndarray:
        with np.errstate(over="ignore"):  # caught here
            values = np.stack([table[name] for name in wanted], axis=-1).astype(np.float32)
        bad = ~(np.abs(values) < LARGEST_NUMBER)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"{path}: splat {row}: {wanted[column]} is {values[row, column]:g}")
        return values

    rotations = columns(*(f"rot_{i}" for i in range(4)))
    norm = np.linalg.norm(rotations.astype(np.float64), axis=1, keepdims=True)
    if not norm.min() > 0:
        raise ValueError(f"{path}: splat {int(np.argmin(norm))}: its rotation is zero")
    harmonics = np.empty((len(table), bases, 3), dtype=np.float32)
    harmonics[:, 0] = columns("f_dc_0", "f_dc_1", "f_dc_2")
    if rest:
        by_channel = columns(*(f"f_rest_{i}" for i in range(rest))).reshape(len(table), 3, bases - 1)
        harmonics[:, 1:] = by_channel.transpose(0, 2, 1)
    return Splats(
        means=columns("x", "y", "z"),
        log_scales=columns("scale_0", "scale_1", "scale_2"),
        rotations=(rotations / norm).astype(np.float32),
        opacities=columns("opacity")[:, 0],
        harmonics=harmonics,
    )
