"""The .ply of 3D Gaussian Splatting and most tools after it; written by `files.ply.write_splats`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats, read_drawing, read_splats
from dofnerf.files.splats import SplatFormat, register


@register
class PlainPly(SplatFormat):
    """One vertex a splat."""

    name = ".ply of splats"
    suffixes = (".ply",)

    def detects(self, head: bytes) -> bool:
        return b"element chunk" not in head

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        return read_splats(path), read_drawing(path)
