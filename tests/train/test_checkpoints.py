"""Runs on disk: what a folder holds, exact resumption after every kind of stop, and files that are not what they should
be."""

import ast
import csv
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tiny_world import QUIET, config, scene

from dofnerf import scenes
from dofnerf.models.volume import steps
from dofnerf.scenes import read_cameras
from dofnerf.train import Diverged, KeepConfig, Run, checkpoint, folder, loop, train, trainer

HERE = Path(__file__).parent
STOPS = {"by SIGKILL": 6, "by Ctrl-C": 9, "by SIGTERM": 5, "in a write": 7}  # after these steps
PROGRAM = """
import os, signal, sys
from pathlib import Path
from dofnerf.train import KeepConfig, folder, train
from tiny_world import config, scene
def half(self, data):
    write(self, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
def stop(self, learner, outcome):
    watch(self, learner, outcome)
    if learner.progress.step == at:
        if how == "in a write":
            Path.write_bytes = half
        else:
            kind = {"by Ctrl-C": signal.SIGINT, "by SIGTERM": signal.SIGTERM}.get(how, signal.SIGKILL)
            os.kill(os.getpid(), kind)
ended, world = {}, scene()
train(world, config((1, 1, 1), search=False))  # loads the kernels, once for all that come
watch, write, folder.Recorder.watch = folder.Recorder.watch, Path.write_bytes, stop
for how, at in eval(sys.argv[1]).items():
    child = os.fork()
    if not child:
        try:
            train(world, config(), out=Path(sys.argv[2]) / how, keep=KeepConfig(checkpoint_minutes=0, log_steps=5))
        except KeyboardInterrupt:
            os._exit(130)
        os._exit(0)
    ended[how] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(ended)
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, whole):
    """Runs that were stopped in the middle, each in a process of its own: the folder, and how each process ended."""
    out = tmp_path_factory.mktemp("stopped")
    path = os.pathsep.join([*sys.path, str(HERE), str(HERE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, repr(STOPS), str(out)],
        check=False, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, ast.literal_eval(done.stdout)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    return train(scene(), config(), out=out, keep=QUIET)


@pytest.mark.parametrize(("how", "at"), STOPS.items())
def test_a_stopped_run_ends_as_if_it_had_not(stopped, whole, at, how):
    out, ended = stopped[0] / how, stopped[1]
    politely = how in ("by Ctrl-C", "by SIGTERM")
    assert ended[how] == (130 if politely else -signal.SIGKILL)
    left = Run.load(out).learner.progress.step
    assert left == (at if politely else at - 1)
    assert bool(list(out.glob(".checkpoint.dofnerf-*"))) == (how == "in a write")
    run = train(scene(), config(), out=out, resume=True, keep=QUIET)
    assert not list(out.glob(".checkpoint.dofnerf-*"))
    found, wanted = run.learner.tensors(), whole.learner.tensors()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_the_folder_explains_itself(whole):
    assert {path.name for path in whole.folder.iterdir()} == {
        "README.txt", "cameras.json", "checkpoint.safetensors", "config.json", "lens.csv", "log.txt", "previews",
    }  # fmt: skip
    words = json.loads((whole.folder / "config.json").read_text())
    assert words["config"]["method"]["pinhole_steps"] == 4
    kept = read_cameras(whole.folder / "cameras.json")
    assert [view.name for view in kept if view.held_out] == ["view-3"] and len(kept) == 5
    with open(whole.folder / "lens.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["photo"] for row in rows] == list(whole.setting.photos)
    assert float(rows[0]["K"]) == pytest.approx(2 * float(rows[0]["aperture"]))
    assert "step 11  lens rays" in (whole.folder / "log.txt").read_text()
    assert [path.name for path in (whole.folder / "previews").iterdir()] == ["step-000011.png"]


def test_loading_gives_the_same_run(whole):
    camera = scene().camera(1)
    for path in (whole.folder, str(whole.folder / "checkpoint.safetensors")):
        run = Run.load(path)
        assert run.config == whole.config and run.setting == whole.setting
        assert torch.equal(run.render(camera).image, whole.render(camera).image)


def test_resuming_a_finished_run_changes_nothing(whole):
    before = (whole.folder / "checkpoint.safetensors").read_bytes()
    run = train(scene(), config(), out=whole.folder, resume=True, keep=QUIET)
    assert (whole.folder / "checkpoint.safetensors").read_bytes() == before
    assert run.learner.progress.step == 11


def test_a_folder_in_use_is_left_alone(whole, tmp_path):
    with pytest.raises(ValueError, match="--resume"):
        train(scene(), config(), out=whole.folder)
    with pytest.raises(ValueError, match=r"another pinhole_steps \(4, now 5\)"):
        train(scene(), config((5, 4, 3)), out=whole.folder, resume=True)
    with pytest.raises(ValueError, match="the scene has changed since the run was started: photos"):
        train(scene(count=6), config(), out=whole.folder, resume=True)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match="something else"):
        train(scene(), config(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("bombed",)


def damaged(packed):
    """Ways in which a checkpoint can be wrong."""
    length = int.from_bytes(packed[:8], "little")
    words = json.loads(json.loads(packed[8 : 8 + length])["__metadata__"]["dofnerf"])
    tensors = safetensors.torch.load(packed)

    def again(tensors, **changes):
        return safetensors.torch.save(tensors, {"dofnerf": json.dumps({**words, **changes})})

    own = words["config"]["method"]
    huge = {**words["config"], "method": {**own, "field": {**own["field"], "log2_size": 24, "finest": 4096}}}
    yield "empty", b""
    yield "cut", packed[: len(packed) // 2]
    yield "header cut", packed[: length // 2]
    yield "noise", bytes(range(256)) * 40
    yield "pickle", pickle.dumps(Bomb())
    yield "foreign", safetensors.torch.save({"x": torch.zeros(3)})
    yield "another format", again(tensors, format="dofnerf run 99")
    yield "huge", again(tensors, config=huge)
    yield "unknown quantity", again(tensors, config={**words["config"], "quantities": {"charm": {}}})
    yield "other field", again(tensors, config={**words["config"], "field": "clay"})
    yield "unknown entry", again(tensors, config={**words["config"], "surprise": 1})
    yield "wrong type", again(tensors, config={**words["config"], "seed": "one"})
    yield "no photos", again(tensors, setting={**words["setting"], "photos": []})
    yield "tensor missing", again({k: v for k, v in tensors.items() if k != "generator"})
    yield "moments missing", again({k: v for k, v in tensors.items() if not k.startswith("lens_adam")})
    yield "no moments", again({k: v for k, v in tensors.items() if not k.startswith("adam")})
    yield "wrong shape", again({**tensors, "lens.raw_focus": torch.zeros(9)})
    yield "not a dictionary", again(tensors, progress=[1, 2])
    yield "another number in the words", again(tensors, progress={**words["progress"], "seconds": 12345.0})
    yield "checksums of nothing", again(tensors, sha256=3)
    bare = {
        key: value for key, value in words.items() if not key.startswith("sha256")
    }  # as before there were checksums

    def unsummed(tensors, **changes):
        return safetensors.torch.save(tensors, {"dofnerf": json.dumps({**bare, **changes})})

    setting = words["setting"]
    yield "digits", unsummed(tensors, progress={**words["progress"], "seconds": 10**400})
    yield "digits of the config", unsummed(tensors, config={**words["config"], "light": 10**400})
    yield "disparity 0", unsummed(tensors, setting={**setting, "disparities": [0.0, 0.0]})
    yield "focal 0", unsummed(tensors, setting={**setting, "focal": [0.0] * len(setting["focal"])})
    yield "groups", unsummed({**tensors, "lens.groups": tensors["lens.groups"] + 99})
    yield "size", unsummed(tensors, setting={**setting, "size": [0, 10**9]})


def test_damaged_and_foreign_files_give_one_line(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, packed in damaged((whole.folder / "checkpoint.safetensors").read_bytes()):
        (tmp_path / "checkpoint.safetensors").write_bytes(packed)
        line = ""
        try:
            Run.load(tmp_path)
        except ValueError as error:
            line = str(error)
        assert "checkpoint.safetensors: " in line and "\n" not in line and len(line) < 400, name
    assert not (tmp_path / "bombed").exists()
    with pytest.raises(FileNotFoundError, match="no run"):
        Run.load(tmp_path / "nowhere")


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_absurd_numbers_are_refused_and_the_tensor_is_named(whole, tmp_path, summed, value):
    packed = (whole.folder / "checkpoint.safetensors").read_bytes()
    header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
    words = json.loads(header["__metadata__"]["dofnerf"])
    tensors = safetensors.torch.load(packed)
    if not summed:
        words.pop("sha256"), words.pop("sha256_of_words")
    for name in ("model.background", "lens.raw_focus", "adam.0.exp_avg"):
        name = name if name in tensors else next(key for key in tensors if key.startswith(name.split(".")[0]))
        changed = tensors[name].clone()
        changed.reshape(-1)[-1] = value
        bad = safetensors.torch.save({**tensors, name: changed}, {"dofnerf": json.dumps(words)})
        (tmp_path / "checkpoint.safetensors").write_bytes(bad)
        with pytest.raises(ValueError, match=rf"checkpoint.safetensors: .*{name} (differs|holds)") as caught:
            Run.load(tmp_path)
        assert len(str(caught.value).splitlines()) == 1


def test_one_flipped_bit_anywhere_is_noticed(whole, tmp_path):
    packed = (whole.folder / "checkpoint.safetensors").read_bytes()
    for i in range(200):
        at = int(len(packed) * (i + 0.5) / 200)
        bad = bytearray(packed)
        bad[at] ^= 1 << i % 8
        (tmp_path / "checkpoint.safetensors").write_bytes(bad)
        with pytest.raises(ValueError, match=r"checkpoint\.safetensors: "):
            Run.load(tmp_path)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    out = tmp_path / "run"
    train(scene(), config((4, 0, 0)), out=out, keep=QUIET)
    before = (out / "checkpoint.safetensors").read_bytes()

    def full(self, data):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(out / checkpoint.FILE, b"new")
    assert (out / "checkpoint.safetensors").read_bytes() == before
    assert not list(out.glob(".checkpoint.dofnerf-*"))


def test_a_place_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        train(scene(), config((2, 0, 0)), out=tmp_path / "file" / "run")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if not os.access(closed, os.W_OK):
        with pytest.raises(PermissionError):
            train(scene(), config((2, 0, 0)), out=closed / "run")


def poison(monkeypatch, at):
    """Let the loss be NaN in the steps `at` (counted over all calls)."""
    real, calls = steps.VolumeSteps.__call__, iter(range(10**6))

    def broken(self, stage, generator):
        outcome = real(self, stage, generator)
        return outcome._replace(loss=outcome.loss * float("nan")) if next(calls) in at else outcome

    monkeypatch.setattr(steps.VolumeSteps, "__call__", broken)


@pytest.mark.parametrize("on_disk", [True, False])
def test_nan_is_recovered_once(tmp_path, monkeypatch, capsys, on_disk):
    poison(monkeypatch, {6})
    out = tmp_path / "run" if on_disk else None
    run = train(
        scene(), config((8, 4, 0), search=False), out=out, keep=replace(QUIET, checkpoint_minutes=1e-9), quiet=False
    )
    assert run.learner.progress.step == 12 and run.learner.progress.recoveries == 1
    assert "step 6: the loss is not a number; going on from step 6 at half the rates" in capsys.readouterr().err
    assert run.learner.healthy()


def test_nan_twice_stops_with_the_last_good_checkpoint(tmp_path, monkeypatch):
    poison(monkeypatch, {6, 9})
    with pytest.raises(Diverged, match="broke down again at step 8"):
        train(
            scene(), config((8, 4, 0), search=False), out=tmp_path / "run", keep=replace(QUIET, checkpoint_minutes=1e-9)
        )
    assert Run.load(tmp_path / "run").learner.healthy()


def test_a_poisoned_field_is_noticed_before_it_is_kept(tmp_path, monkeypatch):
    real = loop.one_step

    def broken(learner, steps):
        outcome = real(learner, steps)
        if learner.progress.step == 3 and not learner.progress.recoveries:
            next(learner.model.parameters()).data[0] = float("nan")
        return outcome

    monkeypatch.setattr(loop, "one_step", broken)
    run = train(scene(), config((5, 0, 0)), out=tmp_path / "run", keep=KeepConfig(checkpoint_minutes=0))
    assert run.learner.progress.recoveries == 1 and run.learner.healthy()


def test_a_checkpoint_costs_little_time(whole):
    begun = time.monotonic()
    checkpoint.unpack(checkpoint.pack(whole.learner))
    assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_a_scene_without_points_is_resumed_with_those_that_were_triangulated(tmp_path, monkeypatch):
    """The field learns from their depth: without them, another run would come out."""
    bare = scenes.demo(width=126)
    frames = tuple(replace(frame, seen=None, seen_error=None, bounds=None) for frame in bare.frames)
    bare = replace(bare, frames=frames, points=None, range_from="cameras")
    made = config((2, 2, 1), search=False, refits=())
    whole = train(bare, made, out=tmp_path / "whole", keep=QUIET).learner.tensors()

    def stop(self, learner, outcome):
        if learner.progress.step == 3:
            self.keep(learner)
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(folder.Recorder, "watch", stop)
        train(bare, made, out=tmp_path / "stopped", keep=QUIET)
    resumed = train(bare, made, out=tmp_path / "stopped", keep=QUIET, resume=True).learner.tensors()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_checkpoint_of_when_cameras_were_settled_loads(monkeypatch):
    run = train(scene(), config((1, 1, 0), search=False).changed({"pose": {"refine_poses": True}}), keep=QUIET)
    tensors = run.learner.tensors()
    with monkeypatch.context() as patched:
        patched.setattr(type(run.learner), "tensors", lambda _: tensors | {"pose.settled": torch.tensor(True)})
        packed = checkpoint.pack(run.learner)
    assert set(checkpoint.unpack(packed).tensors()) == set(tensors)


def test_a_range_that_another_machine_measures_a_little_differently_is_the_kept_one(tmp_path, monkeypatch):
    """Points make the difference: with them the scene is read as training begins with it."""
    made = config((1, 1, 0), search=False).changed({"method": {"depth_weight": 0.5}})
    bare = replace(scene(points=True), range_from="cameras")
    train(bare, made, out=tmp_path / "run", keep=QUIET)
    near, far = bare.near * (1 - 1e-7), bare.far * (1 + 1e-7)
    measured = replace(bare, near=near, far=far, range_from="points")
    monkeypatch.setattr(trainer, "_prepared", lambda *_: (measured, []))
    train(bare, made, out=tmp_path / "run", keep=QUIET, resume=True)
