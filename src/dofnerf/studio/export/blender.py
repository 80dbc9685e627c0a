"""Cameras, lenses, photos and points for Blender: `--blender`.

A folder with cameras.py, which builds the scene when Blender runs it; where the module `bpy` is installed,
cameras.blend is written, too. z is up, and a unit is a metre where the scale is known, or else a scene unit.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import write_image
from dofnerf.files.guard import read_bytes
from dofnerf.files.outputs import write_text
from dofnerf.files.ply import write_ply
from dofnerf.files.splats.turning import matrix, turn_between
from dofnerf.optics import Lens
from dofnerf.process import WITHOUT_FOLDER
from dofnerf.scenes import Viewpoint, plain_stems
from dofnerf.studio.export import Job, Kind, register

SCRIPT, BLEND, POINTS, PHOTOS = "cameras.py", "cameras.blend", "points.ply", "photos"
FARTHEST = 1e5  # where a lens is focused that is focused at infinity
MINUTES = 5
UP = np.array([0.0, 0.0, 1.0])


@register
class BlenderFolder(Kind):
    """blender/cameras.py, points.ply and photos/."""

    name = "blender"
    about = (
        "A folder for Blender: cameras.py builds every photo's camera with its lens, focus, f-stop and photo, and the "
        "scene's points; where bpy is installed, also cameras.blend."
    )
    of_files = False

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        return job.out / "blender" / SCRIPT

    def check(self, job: Job, view: Viewpoint | None) -> None:
        if not job.source.views:
            raise ValueError(
                f"{job.source.path}: the run has no cameras.json (it was trained by an older version); train it again"
            )
        script = self.target(job, view)
        if script.exists() and b"Made by dofnerf export" not in read_bytes(script):
            raise ValueError(f"{script}: is there, and was not made by dofnerf export; give another --out")

    def write(self, job: Job, view: Viewpoint | None) -> str:
        from dofnerf.studio.export.ply import seen_points
        from dofnerf.studio.view import known_photos

        source, script, flags = job.source, self.target(job, view), job.config.lens
        scale = flags.scale(source.optics)
        unit, sensor = 1.0 if scale is None else scale.metres, flags.sensor(source.optics)
        turn = matrix(turn_between(source.upward, UP))
        photos = known_photos(None, source)
        entries = []
        for stem, one in zip(plain_stems([view.name for view in source.views]), source.views, strict=True):
            entry = camera_entry(one.camera, source.learned.get(one.name), unit, sensor, turn)
            if one.name in photos:
                entry["photo"] = f"{PHOTOS}/{stem}.png"
                write_image(script.parent / entry["photo"], photos[one.name])
            entries.append({"name": stem} | entry)
        points = seen_points(source)
        write_ply(script.parent / POINTS, points)
        first = source.views[0].camera
        facts = {
            "width": first.width, "height": first.height, "pixel_aspect": first.fx / first.fy, "points": POINTS,
            "place": (unit * turn).tolist(), "radius": unit * _spacing(points.xyz), "cameras": entries,
        }  # fmt: skip
        template = (Path(__file__).parents[1] / "blender_script.py").read_text(encoding="utf-8")
        words = "real units" if scale is not None else "scene units"
        write_text(script, template.replace("FACTS: dict = {}", f"FACTS = json.loads({json.dumps(facts)!r})"))
        made = f"{len(entries)} cameras, {len(photos)} photos, {len(points):,} points, in {words}"
        return made + (f"; {BLEND}" if _run(script) else "")

    def hint(self, job: Job, view: Viewpoint | None) -> str:
        return f"open     blender --python {self.target(job, view)}"


def camera_entry(camera: Camera, lens: Lens | None, unit: float, sensor: float, turn: np.ndarray) -> dict[str, Any]:
    """A camera as Blender has it, which looks along −z with y up, as ours do. `unit`: metres, or Blender's units, in a
    scene unit; `sensor`: its longer side in millimetres; `turn` (3, 3) makes z up.

    Blender's lens has the radius focal length / 2N, in metres of its own; ours has aperture / focal length in pixels,
    in scene units. So where the scale is known N is the true f-number; where not, it is that of the same picture.
    """
    pose = np.eye(4)
    pose[:3, :3] = turn @ camera.camera_to_world[:, :3]
    pose[:3, 3] = unit * (turn @ camera.position)
    sensor *= camera.width / max(camera.width, camera.height)
    focal = camera.fx / camera.width * sensor
    entry: dict[str, Any] = {
        "matrix": pose.tolist(), "focal": focal, "sensor": sensor,
        "shift": [0.5 - camera.cx / camera.width, (camera.cy - camera.height / 2) / camera.width],
    }  # fmt: skip
    if lens is not None and lens.aperture > 0:
        depth = float(lens.focus_depth)
        radius = unit * float(lens.aperture) / camera.fx
        entry |= {"focus": min(unit * depth, FARTHEST) if math.isfinite(depth) else FARTHEST}
        entry |= {"fstop": focal / 1000 / (2 * radius)}
    return entry


def _spacing(points: np.ndarray) -> float:
    """A radius at which neighbouring points nearly touch."""
    from scipy.spatial import cKDTree

    some = points[:: max(1, len(points) // 5000)]
    distance, _ = cKDTree(points).query(some, k=2)
    return float(np.median(distance[:, 1]))


def _run(script: Path) -> bool:
    """Whether bpy is here and wrote the .blend; in a process of its own, for bpy changes the one it is in."""
    if importlib.util.find_spec("bpy") is None:
        return False
    code = WITHOUT_FOLDER + "import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"  # nor what lies beside it
    command = [sys.executable, "-c", code, str(script), "--save", str(script.with_name(BLEND))]
    done = subprocess.run(command, capture_output=True, timeout=60 * MINUTES, check=False)
    return done.returncode == 0 and script.with_name(BLEND).is_file()
