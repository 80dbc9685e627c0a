"""Where a scene came from, so that a run can find it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from dofnerf.scenes.protocol import ReadOptions

PACKAGED = "demo"  # in place of a path, which is always absolute: the scene that comes with the package


@dataclass(frozen=True)
class Origin:
    """The absolute `path` of the scene's folder or file (or PACKAGED), its format, and how it was read."""

    path: str
    format: str = "auto"
    options: ReadOptions = field(default_factory=ReadOptions)
