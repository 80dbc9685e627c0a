"""A folder of photos, or a video, → a scene: poses by pycolmap, EXIF, undistorted photos, sparse points.

scene = capture("photos", "scene")          # dofnerf capture photos --out scene; also as dofnerf.capture(…)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from dofnerf.capture.pipeline import CaptureOptions
    from dofnerf.files.progress import Progress
    from dofnerf.scenes import Scene

__all__ = ["CaptureOptions", "capture"]


def capture(
    photos: Path | str, out: Path | str, options: CaptureOptions | None = None, progress: Progress | None = None
) -> Scene:
    """Make a scene in the folder `out` from a folder of photos or a video; returns it as loaded from there."""
    from dofnerf.capture.pipeline import make_scene

    return make_scene(photos, out, options, progress)


def __getattr__(name: str) -> Any:
    """The options, imported when first used: `dofnerf` itself imports this package."""
    if name != "CaptureOptions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dofnerf.capture.pipeline import CaptureOptions

    return CaptureOptions
