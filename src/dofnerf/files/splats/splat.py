"""The .splat of web viewers: 32 bytes a splat and no header. Position and size as floats, colour, opacity and rotation
as bytes; no harmonics above degree 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dofnerf.files.guard import read_bytes
from dofnerf.files.outputs import atomic
from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats import C0, SplatFormat, register, rounded, to_logits, to_opacities

ROW = np.dtype([("place", "<f4", 3), ("size", "<f4", 3), ("colour", "u1", 4), ("turn", "u1", 4)])


@register
class SplatRows(SplatFormat):
    """Which way is up is not said; −y, as in 3D Gaussian Splatting, is usual."""

    name = ".splat"
    suffixes = (".splat",)

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        data = read_bytes(path)
        if len(data) % ROW.itemsize:
            raise ValueError(f"{len(data)} bytes are not a whole number of splats of {ROW.itemsize}")
        rows = np.frombuffer(data, ROW)
        if not (rows["size"] >= 0).all():
            raise ValueError("a splat has a negative size")
        turn = rows["turn"].astype(np.float32) / 128 - 1
        turn[~turn.any(1)] = (1, 0, 0, 0)  # as viewers show it
        colour = rows["colour"].astype(np.float32) / 255
        sizes = np.log(np.maximum(rows["size"].astype(np.float64), 1e-30)).astype(np.float32)
        harmonics = ((colour[:, :3] - 0.5) / C0)[:, None]
        return Splats(rows["place"].copy(), sizes, turn, to_logits(colour[:, 3]), harmonics), None


def write_splat(path: Path, splats: Splats) -> None:
    """Write the base colour, which is clipped to 0 … 1; harmonics above degree 0 are lost."""
    rows = np.empty(len(splats), ROW)
    rows["place"], rows["size"] = splats.means, np.exp(splats.log_scales)
    rows["colour"][:, :3] = rounded((splats.harmonics[:, 0] * C0 + 0.5) * 255, 255)
    rows["colour"][:, 3] = rounded(to_opacities(splats.opacities) * 255, 255)
    turn = splats.rotations / np.linalg.norm(splats.rotations, axis=1, keepdims=True)
    rows["turn"] = rounded(turn * 128 + 128, 255)
    with atomic(path) as temporary:
        temporary.write_bytes(rows.tobytes())
