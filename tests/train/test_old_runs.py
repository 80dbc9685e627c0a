"""Runs that 0.1.0 wrote load, render as they did then, and are resumed as finished."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from dofnerf import scenes
from dofnerf.optics import Blades
from dofnerf.optics.shapes import RealLens
from dofnerf.scenes import read_cameras
from dofnerf.train import Run, preset, train
from dofnerf.train.checkpoint import config_from
from dofnerf.train.plain import to_plain

RUNS = Path(__file__).parent / "old_runs"


@pytest.fixture(params=["splat", "hash"])
def old(request):
    folder = RUNS / request.param
    about = json.loads((folder / "expected" / "expected.json").read_text())
    return Run.load(folder), folder / "expected", about


def test_it_renders_as_it_did(old):
    run, expected, about = old
    camera = next(view.camera for view in read_cameras(run.folder / "cameras.json") if view.name == about["photo"])
    sharp = run.render(camera)
    found = {
        "sharp": sharp.image,
        "sharp-disparity": sharp.disparity,
        "sharp-alpha": sharp.alpha,
        "lens": run.render(camera, about["aperture"], about["focus_depth"]).image,
        "wide": run.render(camera, 6.0, 2.0, Blades(count=6), layers=4).image,
    }
    for name, image in found.items():
        # Not to the bit: machines differ in how they add.
        np.testing.assert_allclose(image.numpy(), np.load(expected / f"{name}.npy"), atol=1e-5, err_msg=name)


def test_its_settings_are_those_of_a_run_of_today(old):
    run, _, _ = old
    told = json.loads((run.folder / "config.json").read_text())["config"]
    assert config_from(told) == run.config
    assert run.config.lens.max_radius == told["lens"]["max_radius"]
    own = run.config.method
    if run.config.field == "splat":
        assert (own.sub_aperture_steps, own.gradient_prior) == (
            told["steps"]["lens_ray_steps"], told["field_config"]["edges"],
        )  # fmt: skip
        assert run.config.losses["aperture_consistency"].aperture_consistency == told["lens"]["together"]
    else:
        assert (own.in_focus, own.rate, own.field.levels) == (
            told["lens"]["in_focus"], told["rates"]["rate"], told["field_config"]["levels"],
        )  # fmt: skip
    assert own.total == run.learner.progress.step


def test_its_table_of_photos_is_the_same(old, tmp_path):
    run, expected, _ = old
    run.write_photos(tmp_path / "lens.csv")
    assert (tmp_path / "lens.csv").read_text() == (expected / "lens.csv").read_text()


def test_it_is_resumed(old, tmp_path):
    """A finished run of 0.1.0 is taken up with the same settings, and nothing of it changes."""
    run, _, about = old
    read = {key: tuple(value) if isinstance(value, list) else value for key, value in about["read"].items()}
    assert read.pop("scene") == "demo"
    seed = read.pop("seed")
    scene = scenes.demo(options=scenes.ReadOptions(seed=seed, **read))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint.safetensors").write_bytes((run.folder / "checkpoint.safetensors").read_bytes())
    again = train(scene, run.config, out=folder, resume=True)
    assert again.learner.progress.step == run.config.method.total
    for name, value in run.learner.tensors().items():
        assert torch.equal(value, again.learner.tensors()[name]), name


@pytest.mark.parametrize("name", ["fast", "best"])
def test_a_run_of_before_there_was_a_width_of_blur_has_none(name):
    told = to_plain(preset(name, "splat"))
    del told["method"]["blur_width"], told["method"]["prior_blur"], told["method"]["photos_per_step"]
    found = config_from(told).method
    assert (found.blur_width, found.prior_blur, found.photos_per_step) == (1.0, 0.0, 1)


def test_a_character_of_before_there_was_a_pupil_has_none():
    assert RealLens.of(torch.tensor([6.0, 0.1, 1.2, 0.5, 0.0, 0.3])) == RealLens(
        6, *torch.tensor([0.1, 1.2]).tolist(), (0.5, 0.0), rotation=float(torch.tensor(0.3))
    )
