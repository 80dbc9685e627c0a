"""Batches: uniform over the photos, patches that reach every corner, and the mask against brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dofnerf.models.volume.rays import Patch, complete_pixels, patch_places, random_patch, random_pixels
from dofnerf.optics import accumulate


def test_random_pixels_cover_all():
    pixels = random_pixels(torch.tensor([3, 5]), (4, 6), 5000, torch.Generator().manual_seed(0))
    seen = {tuple(row) for row in torch.stack(pixels, -1).tolist()}
    assert seen == {(photo, row, column) for photo in (3, 5) for row in range(4) for column in range(6)}
    assert pixels.centres[0].tolist() == [pixels.column[0] + 0.5, pixels.row[0] + 0.5]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 130), st.integers(1, 130), st.integers(1, 60), st.integers(1, 70))
def test_patches_cover_borders_and_corners(height, width, patch_size, stride):
    tops, lefts = patch_places((height, width), patch_size, stride)
    for places, length in ((tops, height), (lefts, width)):
        side = min(patch_size, length)
        covered = {pixel for place in places for pixel in range(place, place + side)}
        assert covered == set(range(length))


def test_patch_picks_the_same_pixels_as_its_crop():
    picture = torch.arange(20 * 30).reshape(20, 30)
    patch = random_patch(torch.tensor([7]), (20, 30), 8, 4, torch.Generator().manual_seed(2))
    pixels = patch.pixels()
    assert torch.equal(picture[pixels.row, pixels.column].reshape(8, 8), patch.crop(picture))
    assert (pixels.photo == 7).all()
    whole = random_patch(torch.tensor([0]), (20, 30), 48, 16)
    assert (whole.top, whole.left, whole.height, whole.width) == (0, 0, 20, 30)


@pytest.mark.parametrize("place", [(0, 0), (6, 0), (12, 9), (14, 18), (5, 7)])
@pytest.mark.parametrize("radius", [0.0, 0.4, 1.0, 2.3, 4.0])
def test_mask_is_exactly_where_nothing_is_missing(place, radius):
    size = (22, 26)
    patch = Patch(0, *place, 8, 8)
    values, blur = torch.rand(*size, 1), torch.full(size, radius)
    whole = patch.crop(accumulate(values, blur, backend="reference"))
    alone = accumulate(patch.crop(values), patch.crop(blur), backend="reference")
    mask = complete_pixels(patch, size, radius + 1)
    assert torch.allclose(whole[mask], alone[mask], atol=1e-6)
    touched = ((whole - alone).abs() > 1e-6).any(-1)
    assert not (touched & mask).any()
    assert complete_pixels(Patch(0, 0, 0, *size), size, 1e9).all()
    if radius == 2.3 and place == (5, 7):
        assert mask.sum() == 2 * 2
