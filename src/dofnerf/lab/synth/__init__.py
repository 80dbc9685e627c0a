"""Scenes whose lens is known exactly: path-traced, blurred by depth, or averaged from a light field."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dofnerf.scenes import Scene

RECORD = "synth.json"  # in the folder of a scene: which maker made it, with which settings


def fingerprint(scene: Scene) -> str:
    """A digest of cameras, views, points and the photos' files, so that work on two scenes is never mixed."""
    digest = hashlib.sha256(repr((scene.size, scene.near, scene.far, scene.train, scene.test)).encode())
    for frame in scene.frames:
        file, camera = Path(frame.photo.label), frame.camera
        size = file.stat().st_size if file.is_file() else 0
        digest.update(repr((frame.name, file.name, size, camera.fx, camera.fy)).encode())
        digest.update(camera.camera_to_world.tobytes())
    if scene.points is not None:
        digest.update(np.ascontiguousarray(scene.points.xyz).tobytes())
    return digest.hexdigest()[:16]
