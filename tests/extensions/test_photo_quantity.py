"""A stranger's per-photo quantity, one file: learned, kept, resumed, in the table, and applied by as-shot renders."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_world import InMemory, scene

from dofnerf import plugins
from dofnerf.cli import main
from dofnerf.files import read_image
from dofnerf.scenes import write_transforms
from dofnerf.train import Run
from dofnerf.train.folder import Recorder
from dofnerf.train.photos import quantities

FILE = Path(__file__).parent / "vignetting.py"
TRUE = 0.8  # of the strength in every other photo; none in the others
FEW = ["--max-radius", "8", "--search-width", "16", "--refits"]
SMALL = ["--field.levels", "4", "--field.log2-size", "10", "--field.finest", "32", "--sampling.samples", "8"]
FLAGS = {
    "splat": ["--pinhole-steps", "60", "--lens-steps", "40", "--sub-aperture-steps", "4", "--splats", "500", *FEW,
              "--no-exposure", "--no-refine-poses", "--no-refine-focal"],
    "hash": ["--field", "hash", "--pinhole-steps", "60", "--lens-steps", "4", "--lens-ray-steps", "30", "--rays", "256",
             "--patch-size", "16", *SMALL, *FEW],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def plugin():
    """As a user sets it; forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, str(FILE))
        yield
    quantities.registered.pop("vignetting", None)
    plugins._loaded.discard(str(FILE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scene of which every other photo has dark corners."""
    world = scene(6, (24, 32), test=(3,))
    rows, columns = np.meshgrid(*((np.arange(n) + 0.5) / n - 0.5 for n in (24, 32)), indexing="ij")
    darker = np.exp(-TRUE * 2 * (rows**2 + columns**2)) ** (1 / 2.2)
    frames = [
        replace(frame, photo=InMemory(frame.photo.load() * (darker[..., None] if i % 2 else 1).astype(np.float32)))
        if i % 2
        else frame
        for i, frame in enumerate(world.frames)
    ]
    path = tmp_path_factory.mktemp("scenes") / "dark-corners"
    write_transforms(replace(world, frames=tuple(frames)), path)
    return path


def run_of(folder, out, field, *more):
    """Trained by the command."""
    assert main(["train", str(folder), "--out", str(out), "--log-steps", "50", *FLAGS[field], *more]) == 0
    return Run.load(out)


@pytest.fixture(scope="module", params=list(FLAGS))
def run(request, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / request.param
    return run_of(folder, out, request.param, "--vignetting"), request.param


def dark(run):
    strength = run.learner.quantities.by_name["vignetting"].strength.detach().numpy()
    return np.array([i % 2 == 1 for i in (0, 1, 2, 4, 5)]), strength


def test_it_is_learned_with_the_scene(run):
    odd, strength = dark(run[0])
    assert strength[odd].min() > strength[~odd].max() + 0.3
    assert strength[odd].mean() - strength[~odd].mean() == pytest.approx(TRUE, rel=0.5)


def test_it_is_in_settings_checkpoint_and_table(run):
    done = run[0]
    words = json.loads((done.folder / "config.json").read_text())
    assert words["config"]["quantities"]["vignetting"]["vignetting"] is True
    assert {"vignetting.strength", "vignetting_adam.strength.count"} <= set(done.learner.tensors())
    with open(done.folder / "lens.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["vignetting"]) for row in rows] == pytest.approx(dark(done)[1].tolist())
    assert list(rows[0])[:2] == ["photo", "aperture"]


def test_renders_as_shot_apply_it_and_others_do_not(run, tmp_path):
    done = run[0]
    flags = ["render", str(done.folder), "--view", "1", "--format", "exr", "--layers", "1"]
    aperture, depth = done.lenses[1].aperture, done.lenses[1].focus_depth
    through = ["--aperture", str(aperture), "--focus", str(depth)]
    assert main([*flags, "--as-shot", "--out", str(tmp_path / "shot.exr")]) == 0
    assert main([*flags, *through, "--out", str(tmp_path / "plain.exr")]) == 0
    shot, plain = (read_image(tmp_path / f"{name}.exr") for name in ("shot", "plain"))
    strength = float(dark(done)[1][1])
    corner, middle = (shot / plain)[0, 0].mean(), (shot / plain)[12, 16].mean()
    assert middle == pytest.approx(1.0, abs=0.02) and strength > 0.2
    assert corner == pytest.approx(np.exp(-strength * 2 * ((0.5 - 0.5 / 24) ** 2 + (0.5 - 0.5 / 32) ** 2)), rel=0.02)


def test_off_it_leaves_nothing_behind(folder, tmp_path):
    done = run_of(folder, tmp_path / "run", "splat", "--steps", "0.01")
    assert "vignetting" not in json.dumps(json.loads((done.folder / "config.json").read_text())["config"])
    assert not any(name.startswith("vignetting") for name in done.learner.tensors())


def test_a_stopped_run_ends_as_if_it_had_not(run, folder, tmp_path, monkeypatch):
    whole, field = run
    watch = Recorder.watch

    def stop(self, learner, outcome):
        watch(self, learner, outcome)
        if learner.progress.step == 63:
            raise KeyboardInterrupt

    flags = ["train", str(folder), "--out", str(tmp_path / "run"), "--log-steps", "50", *FLAGS[field], "--vignetting"]
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "watch", stop)
        patch.setattr(Recorder, "is_due", lambda self, **named: True)
        assert main([*flags]) == 130
    assert main([*flags, "--resume"]) == 0
    found, wanted = Run.load(tmp_path / "run").learner.tensors(), whole.learner.tensors()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
