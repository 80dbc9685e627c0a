"""Spaces: everything that a camera sees lies in the cube; spacing there and back."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch

from cameras_around import around, facing_forward, look_at
from dofnerf.models.volume.rays import Space, camera_rays, choose_space


def test_chosen_from_the_cameras():
    assert choose_space(facing_forward(5), 1, 10).kind == "forward"
    assert choose_space(around(6), 2, 6).kind == "general"
    assert choose_space(around(1), 2, 6).kind == "forward"
    outwards = [look_at((0, 0, 0.1), (math.sin(a), 0, math.cos(a))) for a in range(6)]
    assert choose_space(outwards, 1, 100).kind == "general"
    walking_in = [look_at((0, 0, -z), (0, 0, -50)) for z in range(10)]
    assert choose_space(walking_in, 1, 60).kind == "general"
    assert choose_space(around(6), 2, 6, "forward").kind == "forward"
    assert choose_space(facing_forward(3), 2, 6, "general").kind == "general"


@pytest.mark.parametrize("far", [6.0, 300.0, math.inf])
@pytest.mark.parametrize("cameras", [facing_forward(5), around(7)], ids=["forward", "general"])
def test_all_that_is_seen_lies_in_the_cube(cameras, far):
    space = choose_space(cameras, 1.5, far)
    for camera in cameras:
        s = torch.linspace(0, 1, 20).expand(camera.height, camera.width, 20)
        cube = space.warp(camera_rays(camera).at(space.depth_of(s)))
        assert cube.abs().max() <= 1
        assert torch.isfinite(cube).all()


def test_forward_keeps_lines_straight_and_uses_the_cube():
    cameras = facing_forward(5)
    space = choose_space(cameras, 1.5, 20)
    cubes = torch.cat(
        [space.warp(camera_rays(c).at(space.depth_of(torch.linspace(0, 1, 9).expand(10, 12, 9)))) for c in cameras]
    )
    assert (cubes.reshape(-1, 3).amax(0) > 0.8).all()
    assert (cubes.reshape(-1, 3).amin(0) < -0.8).all()
    a, b, c = cubes[..., 0, :], cubes[..., 4, :], cubes[..., 8, :]
    across = torch.linalg.cross(b - a, c - a).norm(dim=-1) / (c - a).norm(dim=-1)
    assert across.max() < 1e-4


def test_general_is_the_world_near_the_centre_and_bounded_far_away():
    space = choose_space(around(8), 2, math.inf)
    middle = torch.tensor([[0.1, 0.2, -0.3], [0.5, 0.0, 0.1]])
    a, b = space.warp(middle)
    torch.testing.assert_close((a - b) * 2 * space.unit, middle[0] - middle[1], rtol=1e-4, atol=1e-4)
    far = space.warp(torch.tensor([[0.0, 0.0, 1e6]]))
    torch.testing.assert_close(far, torch.tensor([[0.0, 0.0, 1.0]]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["forward", "general"])
def test_spacing(kind):
    space = choose_space(around(4), 1.5, 60, kind)
    s = torch.linspace(0, 1, 33)
    depth = space.depth_of(s)
    torch.testing.assert_close(depth[[0, -1]], torch.tensor([1.5, 60.0]), rtol=1e-4, atol=0)
    assert (depth.diff() > 0).all()
    inverse = 1 / (depth + space.offset)  # falls in equal steps
    torch.testing.assert_close((inverse[0] - inverse) / (inverse[0] - inverse[-1]), s, atol=1e-5, rtol=0)
    if kind == "forward":
        np.testing.assert_allclose((1 / depth).diff(), float((1 / depth).diff()[0]), rtol=1e-2)


@pytest.mark.parametrize("kind", ["forward", "general"])
def test_gradients_and_a_copy_from_plain_numbers(kind):
    space = choose_space(facing_forward(4), 1, 10, kind)
    points = torch.rand(5, 3, dtype=torch.float64) - torch.tensor([0.5, 0.5, 3.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(space.warp, (points.requires_grad_(),))
    assert Space(**asdict(space)) == space


@pytest.mark.parametrize("bad", [((), 1, 2, "auto"), (3, 2, 1, "auto"), (3, 0, 1, "auto"), (3, 1, 2, "ndc")])
def test_bad_input(bad):
    count, near, far, kind = bad
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        choose_space(around(count) if count else [], near, far, kind)
