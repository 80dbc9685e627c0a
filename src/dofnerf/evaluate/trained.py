"""A finished run and the scene that it was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.files.guard import read_json_value
from dofnerf.scenes import Origin, Scene, Viewpoint
from dofnerf.train import Run
from dofnerf.train.checkpoint import FILE
from dofnerf.train.folder import CONFIG
from dofnerf.train.plain import from_plain
from dofnerf.train.run import run_folder

_CLOSE = 1e-4  # in rotations, focal lengths (as a share) and places (as a share of the farthest depth)


def open_trained(folder: Path, scene: Path | None = None) -> tuple[Run, Scene]:
    """The run in a folder, and its scene: the one that it names, or the one at `scene`, with the run's own split."""
    run = open_run(folder)
    assert run.folder is not None
    found = find_scene(run.folder, run.setting.size[0], scene)
    return run, as_trained(run, found)


def open_run(folder: Path) -> Run:
    """A run that has come to its end."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: there is no such run")
    folder = run_folder(folder)
    if folder.is_dir() and not (folder / FILE).is_file():
        raise ValueError(f"{folder}: not a run, for it has no {FILE}; make one by `dofnerf train SCENE --out FOLDER`")
    run = Run.load(folder)
    done, total = run.learner.progress.step, run.config.method.total
    if done < total:
        raise ValueError(
            f"{folder}: the run is unfinished (step {done} of {total}); end it by `dofnerf train … --resume`"
        )
    return run


def find_scene(folder: Path, width: int, given: Path | None = None) -> Scene:
    """The scene that a run's folder names, or the one at `given`, read as the run did; `width` of its photos in px."""
    origin = read_origin(folder)
    if given is not None:
        options = origin.options if origin else scenes.ReadOptions(width=width)
        origin = Origin(str(given), "auto", options)
    if origin is None:
        raise ValueError(f"{folder}: the run does not say where its scene is; name it by --scene")
    try:
        return scenes.load_again(origin)
    except FileNotFoundError as error:
        raise ValueError(f"{folder}: its scene is gone ({error}); say where it is now by --scene") from None


def read_origin(folder: Path) -> Origin | None:
    """What the run's config.json says about its scene, if anything."""
    path = folder / CONFIG
    try:
        found = read_json_value(path)
    except FileNotFoundError:
        return None
    if not isinstance(found, dict) or "scene" not in found:
        return None
    if isinstance(found["scene"], dict) and isinstance(found["scene"].get("options"), dict):
        found["scene"]["options"].pop("use_pycolmap", None)  # an option of 0.1.0
    return from_plain(Origin, found["scene"], f"{path}: scene")


def as_trained(run: Run, scene: Scene) -> Scene:
    """The scene with the run's split and depth range, which may have been measured; refused if it is another scene than
    the run's."""
    where = scene.origin.path if scene.origin else scene.name
    if scene.size != tuple(run.setting.size):
        sizes = "×".join(map(str, scene.size)), "×".join(map(str, run.setting.size))
        raise ValueError(f"{where}: not the scene of this run: its photos are {sizes[0]} pixels, the run's {sizes[1]}")
    numbers = {frame.name: i for i, frame in enumerate(scene.frames)}
    missing = [name for name in run.setting.photos if name not in numbers]
    if missing:
        raise ValueError(f"{where}: not the scene of this run: it has no photo {missing[0]!r}")
    train, test = tuple(numbers[name] for name in run.setting.photos), scene.test
    if run.folder is not None and run.views:
        test = _held_out(run.views, scene, numbers, where)
    far, near = run.setting.disparities
    ends = {"near": 1 / near, "far": 1 / far if far > 0 else math.inf}
    changed = {name: end for name, end in ends.items() if not math.isclose(end, getattr(scene, name))}
    return replace(scene, train=train, test=tuple(i for i in test if i not in set(train)), **changed)  # type: ignore[arg-type]


def _held_out(views: Sequence[Viewpoint], scene: Scene, numbers: Mapping[str, int], where: str) -> tuple[int, ...]:
    """The views that the run held out; refused if the scene's cameras differ from the run's."""
    for view in views:
        if view.name not in numbers:
            if view.held_out:
                raise ValueError(f"{where}: its photo {view.name!r}, which the run held out, is gone; put it back")
        elif not _alike(view.camera, scene.frames[numbers[view.name]].camera, scene.far):
            words = f"made anew since the run was trained: the camera of {view.name!r} differs"
            raise ValueError(f"{where}: {words}; train again, or name the scene as it was by --scene")
    return tuple(numbers[view.name] for view in views if view.held_out)


def _alike(one: Camera, other: Camera, far: float) -> bool:
    turned = np.abs(one.camera_to_world[:, :3] - other.camera_to_world[:, :3]).max()
    moved = np.abs(one.position - other.position).max()
    zoomed = max(abs(one.fx / other.fx - 1), abs(one.fy / other.fy - 1))
    return bool(turned < _CLOSE and moved < _CLOSE * far and zoomed < _CLOSE)
