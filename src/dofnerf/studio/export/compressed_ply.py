"""Splats as SuperSplat's compressed .ply: `--compressed-ply`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.compressed_ply import write_compressed_ply
from dofnerf.studio.export import register
from dofnerf.studio.export.splat_kind import SplatKind


@register
class CompressedPlyFile(SplatKind):
    """One .compressed.ply."""

    name = "compressed-ply"
    about = "Splats as SuperSplat's compressed .ply, a quarter of the size."
    suffixes = (".ply",)
    says_light = True
    ending = "compressed.ply"

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_compressed_ply(path, splats, drawing)
