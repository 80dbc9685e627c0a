"""Sparse points of a scene with known poses, triangulated from its training photos by pycolmap in a child process.

Sharp photos, true depth and held-out views are not used. Photos have no distortion (a Scene's cameras are pinholes).
Small blurred photos have few features at their own size, so they are enlarged.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dofnerf import process
from dofnerf.files import write_image, write_json
from dofnerf.files.extras import check_installed
from dofnerf.models.splat.start.bundle import NOTHING, Free, Tracks, adjusted, reprojection_errors
from dofnerf.models.splat.start.views import choose_neighbours
from dofnerf.scenes.scene import Points, Scene
from dofnerf.scenes.source import eroded, resize

CHILD = Path(__file__).parent / "triangulate_child.py"
SMALLEST = 64  # pixels of the shorter side; smaller photos have too few features
_ENLARGE = 3.0  # at most
_SMALL, _LARGE = 380_000, 600_000  # pixels: photos are enlarged to the first and reduced to the second
_ALL = 150_000_000  # pixels of all photos together, on disk
_WORST_ERROR = 0.9  # reprojection error in pixels of the enlarged photo
_EXHAUSTIVE, _NEIGHBOURS = 60, 12  # up to 60 photos every pair is matched, beyond that each with its 12 nearest
_PATIENCE = 5  # wall-clock seconds per second of processor time: the machine may be busy
_RIM = 4  # pixels beside a mask in which no features are looked for
_OUT_OF_TIME = getattr(signal, "SIGXCPU", 0) or 1000


@dataclass(frozen=True)
class Effort:
    """Limits of the work: features per photo, SIFT's first octave, seconds of processor time."""

    features: int = 2000
    first_octave: int = 0
    seconds: int = 240


def triangulated(scene: Scene, effort: Effort | None = None, adjust: Free = NOTHING) -> tuple[Scene, str]:
    """`scene` with triangulated points, and for each training photo those that it sees. ValueError says why not.

    Cameras that are off are moved in what `adjust` leaves free (see bundle.py); the words say so, and are empty if none
    was.
    """
    effort = effort or Effort()
    _check(scene)
    with tempfile.TemporaryDirectory(prefix="dofnerf-") as folder:
        scale = _stage(Path(folder), scene, effort)
        found = _run(Path(folder), effort.seconds)
    tracks = Tracks(found["xyz"], found["photo"], found["point"], found["pixels"])
    given = [scene.camera(i) for i in scene.train]
    size = round(scene.size[0] * scale), round(scene.size[1] * scale)
    cameras, words = [camera.resized(*size) for camera in given], ""
    if any(adjust):
        cameras, places, words = adjusted(cameras, tracks, scale, adjust)
        tracks = tracks._replace(points=places)
    poses = [b.resized(a.width, a.height) for a, b in zip(given, cameras, strict=True)]
    error = reprojection_errors(cameras, tracks)
    visible = np.zeros((len(given), len(error)), dtype=bool)
    visible[tracks.photo, tracks.point] = True
    keep = error < _WORST_ERROR
    for camera, seen in zip(poses, visible, strict=True):
        depth = camera.project(tracks.points)[1]
        keep &= ~seen | ((depth > 0.5 * scene.near) & (depth < 2 * scene.far))  # else a wrong match
    points = Points(tracks.points[keep], found["rgb"][keep], error[keep] / scale)
    frames = [replace(frame, seen=None, seen_error=None) for frame in scene.frames]
    for i, camera, seen in zip(scene.train, poses, visible[:, keep], strict=True):
        frames[i] = replace(frames[i], camera=camera, seen=np.flatnonzero(seen))
    return replace(scene, frames=tuple(frames), points=points), words


def _check(scene: Scene) -> None:
    check_installed("pycolmap", "capture")
    width, height = scene.size
    if min(width, height) < SMALLEST:
        raise ValueError(f"photos of {width}×{height} are too small")
    if not (choose_neighbours(tuple(scene.camera(i) for i in scene.train), scene.near, 1) >= 0).any():
        raise ValueError("no two photos show the same from different places")


def _stage(folder: Path, scene: Scene, effort: Effort) -> float:
    """Write the child's input; returns by how much the photos were enlarged."""
    width, height = scene.size
    pixels = width * height
    wanted = min(max(_SMALL, min(pixels, _LARGE)), _ALL // len(scene.train), pixels * _ENLARGE**2)
    scale = (wanted / pixels) ** 0.5
    size = round(width * scale), round(height * scale)
    (folder / "photos").mkdir()
    masked = any(scene.mask(i) is not None for i in scene.train)
    views = []
    for i in scene.train:
        name = f"{i:05d}.ppm"
        photo = (scene.shrunk(i, *size) * 255 + 0.5).astype(np.uint8)
        (folder / "photos" / name).write_bytes(b"P6 %d %d 255\n" % size + photo.tobytes())
        if masked:  # then pycolmap wants one for every photo
            mask = scene.mask(i)
            mask = np.ones(size[::-1], bool) if mask is None else eroded(resize(mask, *size), _RIM)
            write_image(folder / "masks" / f"{name}.png", np.uint8(255) * mask)
        camera = scene.camera(i).resized(*size)
        # COLMAP's axes: x right, y down, looking along +z.
        turn = (camera.camera_to_world[:, :3] * (1, -1, -1)).T
        pose = np.concatenate([turn, -turn @ camera.position[:, None]], axis=1)
        params = [camera.fx, camera.fy, camera.cx, camera.cy]
        views.append({"name": name, "cam_from_world": pose.tolist(), "params": params})
    task: dict[str, Any] = {
        "masked": masked,
        "size": size,
        "features": effort.features,
        "first_octave": effort.first_octave,
        "threads": torch.get_num_threads(),
    }
    write_json(folder / "task.json", {**task, "views": views, "pairs": pairs_to_match(scene)})
    return size[0] / width


def pairs_to_match(scene: Scene) -> list[tuple[int, int]]:
    """The pairs of training photos to match, as indices into `scene.train`."""
    count = len(scene.train)
    if count <= _EXHAUSTIVE:
        return list(combinations(range(count), 2))
    beside = choose_neighbours(tuple(scene.camera(i) for i in scene.train), scene.near, _NEIGHBOURS)
    return sorted({(min(v, n), max(v, n)) for v, row in enumerate(beside.tolist()) for n in row if n >= 0})


def _run(folder: Path, seconds: int) -> dict[str, np.ndarray]:
    """The child's points.npz; ValueError if it fails or exceeds its processor or wall-clock time."""
    command = [sys.executable, str(CHILD), str(folder), str(seconds)]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        )  # fmt: skip
        with process.child(child):
            said = child.communicate(timeout=_PATIENCE * seconds)[1]
    except subprocess.TimeoutExpired:
        raise ValueError(f"not done in {_PATIENCE * seconds} seconds") from None
    if child.returncode == -_OUT_OF_TIME:
        raise ValueError(f"not done in {seconds} seconds of processor time")
    result = folder / "points.npz"
    if child.returncode != 0 or not result.exists():
        last = (said.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"pycolmap failed ({child.returncode}): {last}")
    with np.load(result, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
