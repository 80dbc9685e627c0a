"""Splats as .sog: `--sog`."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats.sog import write_sog
from dofnerf.studio.export import register
from dofnerf.studio.export.splat_kind import SplatKind


@register
class SogFile(SplatKind):
    """One .sog."""

    name = "sog"
    about = "Splats as SOG, for PlayCanvas and SuperSplat's viewer: the smallest."
    suffixes = (".sog",)

    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        write_sog(path, splats, drawing)
