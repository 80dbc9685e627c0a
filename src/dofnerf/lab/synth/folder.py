"""What tells one source scene from another, so that the work of a maker is never mixed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dofnerf.scenes import Scene

RECORD = "synth.json"


def fingerprint(scene: Scene) -> str:
    """Changes when cameras, views, points or the photos' files do."""
    digest = hashlib.sha256(repr((scene.size, scene.near, scene.far, scene.train, scene.test)).encode())
    for frame in scene.frames:
        file = Path(frame.photo.label)
        numbers = (
            frame.name,
            file.name,
            file.stat().st_size if file.is_file() else 0,
            frame.camera.fx,
            frame.camera.fy,
        )
        digest.update(repr(numbers).encode() + frame.camera.camera_to_world.tobytes())
    if scene.points is not None:
        digest.update(np.ascontiguousarray(scene.points.xyz).tobytes())
    return digest.hexdigest()[:16]
