"""Places of a scene are found in its photos, and tell where the cameras were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_splats import camera as turned_camera
from small_splats import random_gaussians

from dofnerf.camera import motion, moved
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.start.bundle import adjusted
from dofnerf.train.displacement import places, sightings, tracks_of
from dofnerf.train.registration import Target

PHOTOS = 8


@pytest.fixture(scope="module")
def world():
    """A model, where its photos were taken from, the photos, about how deep it is, and its range of disparities."""
    torch.manual_seed(0)
    small = turned_camera()
    middle = small.resized(4 * small.width, 4 * small.height)
    model = SplatModel(random_gaussians(small, 400))
    disparity = model.view(middle).disparity
    depth = float(1 / disparity.median())
    rng = np.random.default_rng(0)
    true = [moved(middle, 0.02 * rng.normal(size=3), 0.15 * depth * rng.normal(size=3)) for _ in range(PHOTOS)]
    return model, true, [model.view(camera).image for camera in true], depth, float(disparity.max() - disparity.min())


def _seen(model, cameras, photos, span, masks=None):
    points = np.concatenate([places(model.view(camera), camera, 120, (k,)) for k, camera in enumerate(cameras)])
    masks = masks or [None] * len(photos)
    found = [
        sightings(Target(photo, 2.2, mask), model.view(camera), camera, points, span)
        for camera, photo, mask in zip(cameras, photos, masks, strict=True)
    ]
    return points, np.stack(found, axis=1)


def _found(model, cameras, photos, span):
    points, (used, held) = _seen(model, cameras, photos, span)
    return adjusted(cameras, tracks_of(points, used), 1.0, judges=tracks_of(points, held))


def _errors(cameras, true):
    """Root mean squares of turns and shifts, from the mean motion on."""
    parts = zip(*(motion(a, b) for a, b in zip(true, cameras, strict=True)), strict=True)
    return [float(np.sqrt(((part - part.mean(0)) ** 2).sum(1).mean())) for part in map(np.array, parts)]


def _off(true, depth):
    rng = np.random.default_rng(1)
    return [moved(camera, *(rng.normal(size=(2, 3)) * [[0.002], [0.002 * depth]])) for camera in true]


def test_places_are_found_where_the_true_camera_sees_them(world):
    model, true, photos, depth, span = world
    given = _off(true, depth)
    points, (used, _) = _seen(model, given, photos, span)
    for k, camera in enumerate(given):
        sure = used[k, :, 2] ** 2 + used[k, :, 4] ** 2 > np.median((used[k, :, 2:] ** 2).sum(-1))
        before, after = camera.project(points[sure])[0], used[k, sure, :2]
        truth = true[k].project(points[sure])[0]
        assert np.median(np.linalg.norm(after - truth, axis=1)) < 0.3 * np.median(
            np.linalg.norm(before - truth, axis=1)
        )


def test_cameras_that_are_off_are_found_again(world):
    model, true, photos, depth, span = world
    given = _off(true, depth)
    found, _, words = _found(model, given, photos, span)
    assert "cameras moved" in words
    for was, now in zip(_errors(given, true), _errors(found, true), strict=True):
        assert now < 0.5 * was


def test_cameras_that_are_right_stay(world):
    """Photos with noise, of which there is something to fit."""
    model, true, photos, _, span = world
    torch.manual_seed(1)
    noisy = [photo + 0.03 * torch.randn_like(photo) for photo in photos]
    found, _, words = _found(model, true, noisy, span)
    assert not words
    assert found == true


def test_what_is_masked_or_behind_is_not_seen(world):
    model, true, photos, _, span = world
    half = torch.ones(photos[0].shape[:2])
    half[:, : half.shape[1] // 2] = 0.0
    points, found = _seen(model, true, photos, span, [half] * PHOTOS)
    seen = found[..., 2:].any(-1)
    assert seen.any()
    for k, camera in enumerate(true):
        assert camera.project(points)[0][seen[:, k].any(0), 0].min() >= half.shape[1] // 2
    behind = true[0].position - true[0].forward
    assert not sightings(Target(photos[0], 2.2), model.view(true[0]), true[0], behind[None], span)[..., 2:].any()
