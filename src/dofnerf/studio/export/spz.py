"""Splats as .spz: `--spz`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.spz import write_spz
from dofnerf.studio.export import register
from dofnerf.studio.export.splat_kind import SplatKind


@register
class SpzFile(SplatKind):
    """One .spz."""

    name = "spz"
    about = "Splats as SPZ, a tenth of the size of a .ply: for viewers on phones and the web."
    suffixes = (".spz",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_spz(path, splats, drawing)
