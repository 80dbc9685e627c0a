"""Splats packed small, for other tools: `--compressed-ply`, `--sog`, `--splat`, `--spz`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.compressed_ply import write_compressed_ply
from dofnerf.files.splats.sog import write_sog
from dofnerf.files.splats.splat import write_splat
from dofnerf.files.splats.spz import write_spz
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


@register
class SogFile(SplatKind):
    """One .sog."""

    name = "sog"
    about = "Splats as SOG, for PlayCanvas and SuperSplat's viewer: the smallest."
    suffixes = (".sog",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_sog(path, splats, drawing)


@register
class SplatRowsFile(SplatKind):
    """One .splat."""

    name = "splat"
    about = "Splats as .splat, for simple web viewers: 32 bytes each, one colour from every side."
    suffixes = (".splat",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_splat(path, splats)


@register
class SpzFile(SplatKind):
    """One .spz."""

    name = "spz"
    about = "Splats as SPZ, a tenth of the size of a .ply: for viewers on phones and the web."
    suffixes = (".spz",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_spz(path, splats, drawing)
