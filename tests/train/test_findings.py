"""What training says of a scene, one line each."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_world import QUIET, InMemory, config, scene

from dofnerf import scenes
from dofnerf.scenes import Points
from dofnerf.train import train
from dofnerf.train.findings import compare_range, findings


def with_points(near, far, count=200):
    """The tiny world (depth 2 to 6) with points on both of its planes, and a depth range that may be wrong."""
    world, rng = scene(), np.random.default_rng(0)
    xyz = np.concatenate([rng.uniform(-0.3, 0.3, (count, 3)) * (1, 1, 0) - (0, 0, depth) for depth in (2.0, 6.0)])
    frames = tuple(replace(frame, seen=np.arange(2 * count)) for frame in world.frames)
    points = Points(xyz, np.zeros((2 * count, 3), np.uint8), np.full(2 * count, 0.5))
    return replace(world, frames=frames, points=points, near=near, far=far)


@pytest.mark.parametrize(("near", "far"), [(3.0, 8.0), (1.6, 4.0), (0.1, 50.0)])
def test_a_wrong_range_is_noticed(near, far):
    said = findings(with_points(near, far))
    assert said[0] == f"depth range {near:g} to {far:g} by the scene's files"
    assert "may be wrong" in said[1] and "sparse points lie at 2.02 to 6.13" in said[1]


def test_a_right_range_is_not():
    assert findings(with_points(1.6, 7.5)) == ["depth range 1.6 to 7.5 by the scene's files"]
    assert findings(scenes.demo()) == ["depth range 1.2 to 9 by the scene's files"]
    world = replace(scene(), range_from="cameras")
    assert findings(world) == [] and compare_range(world, np.full(10, 9.0), "") == ""


def test_brackets_and_masks_are_said_in_the_runs_log(tmp_path):
    world = scene(6)
    mask = np.ones(world.size[::-1], bool)
    mask[:5, :6] = False
    frames = [replace(frame, bracket="one" if i < 3 else None) for i, frame in enumerate(world.frames)]
    frames[1] = replace(frames[1], mask=InMemory(mask))
    train(replace(world, frames=tuple(frames)), config((1, 1, 1)), out=tmp_path / "run", keep=QUIET)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "1 focus bracket of 3 photos" in log and "1 photo has a mask, which leaves out 6.2 % of it" in log
