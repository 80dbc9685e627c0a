"""Disparity from a trained run, the third of the sources of `synth blur`."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import plates
import pytest
import torch
from tiny_world import config, scene

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.lab.synth.disparity import DisparityConfig, disparities, surface_disparity
from dofnerf.optics.layers import Layers
from dofnerf.train import Run, train


def test_a_run_gives_the_disparity_of_every_camera(tmp_path):
    world = scene()
    train(world, config((3, 0, 0)), out=tmp_path / "run")
    found, words = disparities(world, DisparityConfig(disparity="run", run=tmp_path / "run"), tmp_path)
    assert "run" in words
    for i in range(len(world)):
        assert found(i).shape == (world.size[1], world.size[0])
        assert (found(i) >= 1 / world.far - 1e-6).all() and (found(i) <= 1 / world.near + 1e-6).all()


def test_the_surface_is_where_half_of_the_light_is_absorbed():
    """A wall, a pane and a leaf before it: the leaf hides half; pane and leaf together do; neither."""
    alpha = torch.tensor([[[1.0, 1.0, 1.0]], [[0.4, 0.4, 0.3]], [[0.6, 0.3, 0.2]]])
    disparity = torch.tensor([0.25, 0.5, 1.0])[:, None, None].expand_as(alpha)
    layers = Layers(alpha[..., None].expand(*alpha.shape, 3), alpha, disparity)
    model = SimpleNamespace(layers=lambda camera, count: (None, layers))
    assert surface_disparity(SimpleNamespace(model=model), None).tolist() == [[1.0, 0.5, 0.25]]


def test_no_run(tmp_path):
    with pytest.raises(OSError, match="there is no run"):
        disparities(scene(), DisparityConfig(disparity="run", run=tmp_path), tmp_path)


def test_a_scene_without_depth_is_trained_first(tmp_path, capsys):
    source = plates.write(tmp_path / "in", depth_maps=False)
    command = ["synth", "blur", str(source), "--blur", "2", "--layers", "1", "--depth-steps", "0.002"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "a run trained on the sharp photos" in said and "blur of neighbouring photos differs by" in said
    made = scenes.load(tmp_path / "out")
    expected = 1 / surface_disparity(Run.load(tmp_path / "out/depth-run"), made.camera(1))
    np.testing.assert_allclose(made.depth(1), expected, rtol=1e-5)


def test_blur_by_the_depth_of_a_run(tmp_path):
    source = plates.write(tmp_path / "in")
    world = scenes.load(source)
    train(replace(world, near=1.5, far=5.0), config((2, 0, 0)), out=tmp_path / "run")
    flags = ["--disparity", "run", "--run", str(tmp_path / "run"), "--blur", "2", "--layers", "1"]
    assert main(["synth", "blur", str(source), *flags, "--out", str(tmp_path / "out")]) == 0
    assert len(scenes.load(tmp_path / "out")) == len(world)
