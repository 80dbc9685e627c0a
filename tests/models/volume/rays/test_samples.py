"""Samples along rays: against NumPy, and the laws of stratified and importance sampling."""

import numpy as np
import pytest
import torch

from cameras_around import around, facing_forward
from dofnerf.models.volume.rays import camera_rays, choose_space, guided, importance, merge, samples_between, stratified
from dofnerf.models.volume.rays.samples import interpolate


def test_stratified_is_sorted_and_even():
    edges = stratified((500,), 16, torch.Generator().manual_seed(0))
    assert edges.shape == (500, 17)
    assert (edges.diff(dim=-1) >= 0).all()
    assert (edges[:, 0] == 0).all()
    assert (edges[:, -1] == 1).all()
    torch.testing.assert_close(edges.mean(0), torch.linspace(0, 1, 17), atol=5e-3, rtol=0)
    torch.testing.assert_close(stratified((2,), 4)[1], torch.linspace(0, 1, 5))


def test_interpolate_is_numpys():
    xs, ys = torch.rand(6, 9).sort(-1).values, torch.rand(6, 9)
    x = torch.rand(6, 20) * 1.2 - 0.1
    expected = np.stack([np.interp(x[i], xs[i], ys[i]) for i in range(6)])
    np.testing.assert_allclose(interpolate(x, xs, ys), expected, atol=1e-6)


def test_importance_follows_the_weights():
    edges = torch.linspace(0, 1, 11).expand(3, 11)
    weights = torch.zeros(3, 10)
    weights[0, 4] = 1.0
    weights[1, 2] = weights[1, 7] = 0.5
    found = importance(edges, weights, 200, torch.Generator().manual_seed(0))
    assert (found.diff(dim=-1) >= 0).all()
    middle = (found[:, 1:] + found[:, :-1]) / 2
    assert ((middle[0] > 0.3) & (middle[0] < 0.6)).float().mean() > 0.97
    near, far = (middle[1] > 0.1) & (middle[1] < 0.4), (middle[1] > 0.6) & (middle[1] < 0.9)
    assert abs(float(near.float().mean() - far.float().mean())) < 0.03
    torch.testing.assert_close(found[2], torch.linspace(0, 1, 201), atol=4e-3, rtol=0)  # no weight at all: even


def test_merge_keeps_all_edges_sorted():
    a, b = stratified((4,), 5), stratified((4,), 3, torch.Generator().manual_seed(0))
    both = merge(a, b)
    assert both.shape == (4, 5 + 3)
    assert (both.diff(dim=-1) >= 0).all()


def test_distances_add_up_to_the_ray():
    camera = around(1)[0]
    space = choose_space(around(5), 2, 9)
    rays = camera_rays(camera)
    samples = samples_between(
        rays, stratified((camera.height, camera.width), 13, torch.Generator().manual_seed(1)), space
    )
    torch.testing.assert_close(samples.distance.sum(-1) * space.unit, rays.norms * 7, rtol=1e-4, atol=0)
    torch.testing.assert_close(samples.points, rays.at(samples.depth))


@pytest.mark.parametrize("cameras", [around(5), facing_forward(4)], ids=["general", "forward"])
def test_guided_twins_agree(cameras):
    space = choose_space(cameras, 1.5, 9)
    grid = torch.relu(torch.randn(12, 12, 12)) * 3
    rays = camera_rays(cameras[1]).reshape(-1)
    slow, fast = (
        guided(rays, space, grid, stratified(rays.shape, 20, torch.Generator().manual_seed(3)), 32, backend)
        for backend in ("reference", "cpu")
    )
    assert (fast.diff(dim=-1) >= 0).all()
    # A point on the border between two cells may fall either way; nearly all must agree.
    assert ((slow - fast).abs().amax(-1) < 1e-4).float().mean() > 0.9
    torch.testing.assert_close(
        guided(rays, space, 0 * grid, stratified(rays.shape, 20)), torch.linspace(0, 1, 21).expand(len(slow), 21)
    )


def test_guided_looks_where_the_grid_is_dense():
    cameras = facing_forward(4)
    space = choose_space(cameras, 1.5, 9)
    rays = camera_rays(cameras[0]).reshape(-1)
    grid = torch.zeros(32, 32, 32)
    grid[:, :, 10:12] = 50.0
    edges = guided(rays, space, grid, stratified(rays.shape, 24))
    z = space.warp(samples_between(rays, edges, space).points)[..., 2]
    wanted = (z > 10 / 16 - 1 - 0.07) & (z < 12 / 16 - 1 + 0.07)
    assert wanted.float().mean() > 0.8
