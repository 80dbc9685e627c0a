"""The compressed .ply of SuperSplat: chunks of 256 splats with the range of each value, and 16 bytes a splat within it.

Positions and log scales have 11, 10 and 11 bits, colours and opacity 8, rotations three parts of 10 bits and the place
of the largest; harmonics above degree 0 have 8 bits for −4 … 4.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dofnerf.files.guard import read_bytes
from dofnerf.files.outputs import atomic
from dofnerf.files.ply import BASES, Drawing, Element, Splats, read_drawing, read_header
from dofnerf.files.splats import (
    C0,
    SplatFormat,
    packed_quaternions,
    register,
    rounded,
    to_logits,
    to_opacities,
    unpacked_quaternions,
)

CHUNK = 256
RANGES = [
    f"{end}_{name}" for part in ("xyz", ("scale_x", "scale_y", "scale_z"), "rgb") for end in ("min", "max")
    for name in part
]  # fmt: skip
WORDS = ["packed_position", "packed_rotation", "packed_scale", "packed_color"]


@register
class CompressedPly(SplatFormat):
    """Also of earlier versions, in which colours have no range of their own."""

    name = "compressed .ply"
    suffixes = (".ply",)

    def detects(self, head: bytes) -> bool:
        return b"element chunk" in head

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        tables = _tables(read_bytes(path))
        chunks, rows = tables["chunk"], tables["vertex"]
        count = len(rows)
        if len(chunks) * CHUNK < count:
            raise ValueError(f"{len(chunks)} chunks for {count} splats")
        of = np.arange(count) // CHUNK

        def within(unit: np.ndarray, names: list[str]) -> np.ndarray:
            low, high = (np.stack([chunks[f"{end}_{name}"][of] for name in names], 1) for end in ("min", "max"))
            return low * (1 - unit) + high * unit

        place, turn, size, colour = (rows[name].astype(np.int64) for name in WORDS)
        bytes_ = np.stack([colour >> shift & 255 for shift in (24, 16, 8, 0)], 1) / 255
        parts = np.stack([turn >> shift & 1023 for shift in (20, 10, 0)], 1) / 1023
        rgb = within(bytes_[:, :3], list("rgb")) if "min_r" in (chunks.dtype.names or ()) else bytes_[:, :3]
        rest = tables.get("sh")
        kinds = 0 if rest is None else len(rest.dtype.names or ())
        if 1 + kinds // 3 not in BASES or kinds % 3 or (rest is not None and len(rest) < count):
            raise ValueError(f"{kinds} harmonics above degree 0, or not one for each splat")
        harmonics = np.zeros((count, 1 + kinds // 3, 3), np.float32)
        harmonics[:, 0] = (rgb - 0.5) / C0
        if rest is not None and kinds:
            values = np.stack([rest[f"f_rest_{i}"][:count] for i in range(kinds)], 1).astype(np.float32)
            unit = np.where(values == 0, 0.0, np.where(values == 255, 1.0, (values + 0.5) / 256))
            harmonics[:, 1:] = ((unit - 0.5) * 8).reshape(count, 3, kinds // 3).transpose(0, 2, 1)
        splats = Splats(
            within(_thirds(place), list("xyz")).astype(np.float32),
            within(_thirds(size), ["scale_x", "scale_y", "scale_z"]).astype(np.float32),
            unpacked_quaternions((parts - 0.5) * 2**0.5, turn >> 30),
            to_logits(bytes_[:, 3]),
            harmonics,
        )
        return splats, read_drawing(path)


def write_compressed_ply(path: Path, splats: Splats, drawing: Drawing | None = None) -> None:
    """Write splats along a curve through the scene, so that those of a chunk are near each other."""
    count, order = len(splats), _along_a_curve(splats.means)
    chunks = -(-count // CHUNK)
    whole = order[np.minimum(np.arange(chunks * CHUNK), count - 1)].reshape(chunks, CHUNK)  # the last chunk filled up
    columns = (splats.means, np.clip(splats.log_scales, -20, 20), splats.harmonics[:, 0] * C0 + 0.5)
    table, units = np.empty(chunks, [(name, "<f4") for name in RANGES]), []
    for values, names in zip(columns, ("xyz", ("scale_x", "scale_y", "scale_z"), "rgb"), strict=True):
        values = values[whole].astype(np.float64)
        low, high = values.min(1), values.max(1)
        for i, name in enumerate(names):
            table[f"min_{name}"], table[f"max_{name}"] = low[:, i], high[:, i]
        unit = (values - low[:, None]) / np.maximum(high - low, 1e-30)[:, None]
        units.append(unit.reshape(-1, 3)[:count])
    parts, largest = packed_quaternions(splats.rotations[order])
    turned = rounded((parts / 2**0.5 + 0.5) * 1023, 1023)
    solid = np.maximum(rounded(to_opacities(splats.opacities[order]) * 255, 255), 1)  # readers take the logit of it
    rgb = rounded(units[2] * 255, 255)
    rows = np.empty(count, [(name, "<u4") for name in WORDS])
    rows["packed_position"], rows["packed_scale"] = _packed(units[0]), _packed(units[1])
    rows["packed_rotation"] = largest << 30 | turned[:, 0] << 20 | turned[:, 1] << 10 | turned[:, 2]
    rows["packed_color"] = rgb[:, 0] << 24 | rgb[:, 1] << 16 | rgb[:, 2] << 8 | solid
    rest = splats.harmonics[order, 1:].transpose(0, 2, 1).reshape(count, -1)
    kept = np.clip(np.floor((rest / 8 + 0.5) * 256), 0, 255).astype(np.uint8)
    lines = ["ply", "format binary_little_endian 1.0", *([] if drawing is None else [f"comment {drawing.comment}"])]
    lines += [f"element chunk {chunks}", *(f"property float {name}" for name in RANGES)]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in WORDS)]
    if rest.shape[1]:
        lines += [f"element sh {count}", *(f"property uchar f_rest_{i}" for i in range(rest.shape[1]))]
    header = "\n".join([*lines, "end_header", ""]).encode("ascii")
    with atomic(path) as temporary:
        temporary.write_bytes(header + table.tobytes() + rows.tobytes() + kept.tobytes())


def _tables(data: bytes) -> dict[str, np.ndarray]:
    """The rows of each element, as far as the file is long enough."""
    form, elements, start = read_header(data)
    if form != "binary_little_endian":
        raise ValueError(f"the format {form:.30} is not known for compressed splats")
    tables = {}
    for element in elements:
        layout = element.layout()
        if start + element.count * layout.itemsize > len(data):
            raise ValueError(f"it is truncated: {element.count} of {element.name:.20} do not fit")
        tables[element.name] = np.frombuffer(data, layout, element.count, start)
        start += element.count * layout.itemsize
    _check_columns(elements)
    return tables


def _check_columns(elements: list[Element]) -> None:
    found = {element.name: dict(element.fields) for element in elements}
    for element, names, kinds in (("chunk", RANGES[:12], "float float32"), ("vertex", WORDS, "uint uint32")):
        for name in names:
            if found.get(element, {}).get(name) not in kinds.split():
                raise ValueError(f"the property {name} of {element} is missing, or of another type")


def _thirds(packed: np.ndarray) -> np.ndarray:
    return np.stack([(packed >> 21 & 2047) / 2047, (packed >> 11 & 1023) / 1023, (packed & 2047) / 2047], 1)


def _packed(unit: np.ndarray) -> np.ndarray:
    x, y, z = (rounded(unit[:, i] * high, high) for i, high in enumerate((2047, 1023, 2047)))
    return x << 21 | y << 11 | z


def _along_a_curve(means: np.ndarray) -> np.ndarray:
    """The order of points along a Morton curve."""
    low, high = means.min(0).astype(np.float64), means.max(0).astype(np.float64)
    cells = rounded((means - low) / np.maximum(high - low, 1e-30) * 1023, 1023)
    code = np.zeros(len(means), np.int64)
    for bit in range(10):
        for axis in range(3):
            code |= (cells[:, axis] >> bit & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable")
