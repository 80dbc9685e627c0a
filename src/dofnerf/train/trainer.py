"""What `dofnerf.train.train` does: a scene, a configuration, perhaps a folder; a trained run."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from dofnerf.files.guard import read_bytes
from dofnerf.files.progress import Progress as Bar
from dofnerf.models import method
from dofnerf.models.data import Setting, TrainingData, sparse_points, training_data
from dofnerf.models.splat.start import ENOUGH
from dofnerf.models.splat.start.bundle import Free
from dofnerf.models.splat.start.depth_range import corrected_range, is_too_wide, measured_range
from dofnerf.models.splat.start.triangulation import triangulated
from dofnerf.models.workers import gathered, several
from dofnerf.optics.lens import inverse
from dofnerf.process import Failed, is_empty, keeps, locked
from dofnerf.scenes import Scene
from dofnerf.train import checkpoint
from dofnerf.train.config import TrainConfig
from dofnerf.train.config import preset as preset_of
from dofnerf.train.findings import findings, look_at_range
from dofnerf.train.folder import KeepConfig, Recorder, writer_class
from dofnerf.train.learner import Learner
from dofnerf.train.loop import NullRecorder, learn
from dofnerf.train.plain import to_plain
from dofnerf.train.run import Run, views_of

Device = Literal["auto", "cpu", "cuda"]
_LATER = ("positions", "exposures", "brackets", "focal_mm", "metres", "deep", "linear")  # that older runs do not have
_VIEWS, _LOOK, _EMPTY = 4, 64, 0.01  # views, pixels across, and the mean alpha below which a view shows nothing


def start(
    scene: Scene,
    preset: str | TrainConfig,
    field: str | None,
    out: Path | str | None,
    resume: bool,
    device: Device,
    keep: KeepConfig | None,
    quiet: bool,
) -> Run:
    """See `dofnerf.train.train`."""
    config = preset if isinstance(preset, TrainConfig) else preset_of(preset, field)
    if isinstance(preset, TrainConfig) and field not in (None, preset.field):
        raise ValueError(f"the configuration given is for the field {preset.field!r}, not {field!r}")
    keep, place = keep or KeepConfig(), choose_device(device)
    folder = None if out is None else Path(out)
    if keep.tensorboard:
        writer_class()  # better now than after the photos are loaded
    with gathered(place) as workers, locked(folder) if folder and workers.first else contextlib.nullcontext():
        if workers.count > 1 and not method(config.field).divides:
            raise ValueError(f"the field {config.field!r} trains in one process; start it without torchrun")
        refines = Free(*(name in config.quantities for name in ("pose", "focal")))
        uses_points = method(config.field).uses_points(config)
        if not workers.first:
            scene = _with_points(scene, refines) if uses_points else scene
            data = training_data(scene, config.photos, place, _room_in(folder))
            learner = checkpoint.unpack(workers.tell(b""), place)
            return Run(learn(learner, data, NullRecorder(), workers), folder, views_of(scene))
        kept, said = _kept(place, folder, resume), findings(scene)
        total, was = config.method.total, None if kept is None else kept.progress.step
        with Bar("photos", total, quiet=quiet) as bar, keeps(lambda: _kept_words(folder, was, total)):
            loaded: TrainingData | None = None
            if kept is None:
                loaded = training_data(scene, config.photos, place, _room_in(folder))
                begun, notes = _prepared(scene, refines)
                said += notes
                scene = _as_given(begun, scene)
            else:
                ranged = _with_range(scene, kept.setting)
                # Another machine may measure a range that differs in the last digits: the kept one counts.
                points = _with_points(scene, refines) if uses_points else ranged
                scene = replace(points, near=ranged.near, far=ranged.far)
            setting = Setting.of(scene, config.lens.share_aperture)
            if kept is not None:
                config = _like_before(kept, config)
                _must_match(kept, setting, config, folder)
            if loaded is None:
                data = training_data(scene, config.photos, place, _room_in(folder))
            else:
                data = replace(loaded, points=sparse_points(scene, place))  # which may be new
            bar.update(was or 0, label="start")
            learner = Learner.begin(config, setting, begun, data, place) if kept is None else kept
            if workers.count > 1:
                workers.tell(checkpoint.pack(learner))
            recorder = Recorder(folder, keep, bar, data)
            recorder.kept_step = was
            recorder.describe(learner, scene)
            for words in () if kept else (*said, *learner.model.notes):
                recorder.say(words)
            with keeps(lambda: _kept_words(folder, recorder.kept_step, total)):
                run = Run(learn(learner, data, recorder, workers), folder, views_of(scene))
            if words := look_at_range(scene, run.model):
                recorder.say(words)
            for one in run.learner.quantities.by_name.values():
                if words := one.findings():
                    recorder.say(words)
            _expect_something(run, data)
            return run


def _room_in(folder: Path | None) -> Path | None:
    """The nearest folder that exists: a run's own is made when there is something to keep."""
    while folder is not None and not folder.is_dir():
        folder = folder.absolute().parent
    return folder


def _kept_words(folder: Path | None, step: int | None, total: int) -> str:
    return "" if folder is None or step is None else f"{folder}, step {step} of {total}"


@torch.no_grad()
def _expect_something(run: Run, data: TrainingData) -> None:
    """Failed if the training photos' own views are empty, or black where the photos are not."""
    for i in range(0, len(data.cameras), max(1, len(data.cameras) // _VIEWS)):
        camera, photo = data.cameras[i], data.photos[i]
        view = run.model.view(camera.resized(min(camera.width, _LOOK)))
        if float(view.alpha.mean()) > _EMPTY and float(view.image.max()) >= _EMPTY * float(photo.max()):
            return
    near, far = (1 / disparity if disparity else math.inf for disparity in reversed(run.setting.disparities))
    raise Failed(
        f"{run.folder or run.setting.scene}: the trained run shows nothing in the views of its own photos; the scene's "
        f"depth range is {near:.4g} to {far:.4g}: check it, the poses and the photos"
    )


def choose_device(name: str) -> torch.device:
    """The device of that name; auto takes CUDA where it works. Each of several processes has a GPU of its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: this machine has no CUDA device that PyTorch can use; use cpu or auto")
    if name == "cuda" and several():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(name)


def _with_range(scene: Scene, setting: Setting) -> Scene:
    """The scene with the depth range of a run that was begun, which may have been measured, widened or narrowed."""
    (far, near), given = setting.disparities, (1 / scene.far, 1 / scene.near)
    changed = (near >= given[1] and far <= given[0]) or is_too_wide(given, (far, near))
    return replace(scene, near=1 / near, far=inverse(far)) if scene.range_from == "cameras" or changed else scene


def _with_points(scene: Scene, refines: Free) -> Scene:
    """The scene with the points that a run began with, also those that were triangulated for it."""
    return _as_given(_prepared(scene, refines)[0], scene)


def _as_given(begun: Scene, given: Scene) -> Scene:
    """A scene as training begins with it, but with its cameras as given."""
    frames = (replace(one, camera=other.camera) for one, other in zip(begun.frames, given.frames, strict=True))
    return replace(begun, frames=tuple(frames))


def _prepared(scene: Scene, refines: Free) -> tuple[Scene, list[str]]:
    """The scene as training begins with it, and sentences about that: a depth range that is more than a guess, and
    cameras that fit the points, in what it `refines`."""
    if scene.range_from == "cameras":
        found, words = measured_range(scene, refines)
        return found, [words]
    scene, words = corrected_range(scene)
    said = [words] if words else []
    if not any(refines) or (scene.points is not None and len(scene.points) >= ENOUGH):
        return scene, said
    try:
        found, words = triangulated(scene, adjust=refines)
    except (ValueError, OSError):
        return scene, said  # the start says why
    return found, [*said, words] if words else said


def _kept(device: torch.device, folder: Path | None, resume: bool) -> Learner | None:
    """The folder's learner, if there is one to go on with; None for a new run."""
    file = None if folder is None else folder / checkpoint.FILE
    if file is None or not file.exists():
        if folder is not None and folder.is_dir() and not is_empty(folder) and not resume:
            raise ValueError(f"{folder}: there is something else in this folder; give a run one of its own")
        return None
    if not resume:
        raise ValueError(f"{folder}: there is a run already; go on with it by --resume, or give another folder")
    return checkpoint.unpack(read_bytes(file), device, str(file))


def _like_before(kept: Learner, config: TrainConfig) -> TrainConfig:
    """Without the photo quantities that the run was begun without: it may be older than they are."""
    known = kept.config.quantities
    return replace(config, quantities={name: one for name, one in config.quantities.items() if name in known})


def _must_match(learner: Learner, setting: Setting, config: TrainConfig, folder: Path | None) -> None:
    """Refuse to go on with a run that was started otherwise. Settings that an older version did not keep are empty."""
    before = {name: value for name, value in to_plain(learner.setting).items() if value or name not in _LATER}
    now = {name: value for name, value in to_plain(setting).items() if name in before}
    for name, kept, asked in (("setting", before, now), ("config", to_plain(learner.config), to_plain(config))):
        different = difference(kept, asked, name)
        if different and name == "setting":
            raise ValueError(
                f"{folder}: the scene has changed since the run was started: {different}; give another --out"
            )
        if different:
            raise ValueError(f"{folder}: the run was started with another {different}; resume it as it was")


def difference(a: object, b: object, name: str) -> str:
    """Where two plain values differ first, by more than rounding, in words; empty if nowhere."""
    if isinstance(a, dict) and isinstance(b, dict):
        return next((found for key in a | b if (found := difference(a.get(key), b.get(key), key))), "")
    return "" if _same(a, b) else f"{name} ({a!r:.60}, now {b!r:.60})"


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b
