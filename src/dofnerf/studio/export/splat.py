"""Splats as .splat: `--splat`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.splat import write_splat
from dofnerf.studio.export import register
from dofnerf.studio.export.splat_kind import SplatKind


@register
class SplatRowsFile(SplatKind):
    """One .splat."""

    name = "splat"
    about = "Splats as .splat, for simple web viewers: 32 bytes each, one colour from every side."
    suffixes = (".splat",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_splat(path, splats)
