"""Disparity from a trained run, the third of the sources of `synth blur`."""

from dataclasses import replace

import numpy as np
import plates
import pytest
from tiny_world import config, scene

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.lab.synth.disparity import DisparityConfig, disparities
from dofnerf.train import train


def test_a_run_gives_the_disparity_of_every_camera(tmp_path):
    world = scene()
    run = train(world, config((3, 0, 0)), out=tmp_path / "run")
    found, words = disparities(world, DisparityConfig(disparity="run", run=tmp_path / "run"))
    assert "run" in words
    for i in range(len(world)):
        np.testing.assert_array_equal(found(i), run.model.view(world.camera(i)).disparity)
        assert (found(i) >= 1 / world.far - 1e-6).all() and (found(i) <= 1 / world.near + 1e-6).all()


def test_no_run(tmp_path):
    with pytest.raises(ValueError, match="--run"):
        disparities(scene(), DisparityConfig(disparity="run"))
    with pytest.raises(OSError, match="there is no run"):
        disparities(scene(), DisparityConfig(disparity="run", run=tmp_path))


def test_blur_by_the_depth_of_a_run(tmp_path):
    source = plates.write(tmp_path / "in")
    world = scenes.load(source)
    train(replace(world, near=1.5, far=5.0), config((2, 0, 0)), out=tmp_path / "run")
    flags = ["--disparity", "run", "--run", str(tmp_path / "run"), "--blur", "2", "--layers", "1"]
    assert main(["synth", "blur", str(source), *flags, "--out", str(tmp_path / "out")]) == 0
    assert len(scenes.load(tmp_path / "out")) == len(world)
