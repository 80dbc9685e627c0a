"""Weights of photos by what they show sharp."""

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from dofnerf.models.photo_stack import PhotoStack
from dofnerf.models.splat.sharpness import SharpnessWeights


def weights_of(photos, masks=None):
    stacks = (None if one is None else PhotoStack.of(list(one).__getitem__, len(one)) for one in (photos, masks))
    return SharpnessWeights(*stacks).weights


def test_the_sharp_half_of_a_photo_counts_more():
    noise = np.random.default_rng(0).random((40, 80, 3))
    soft = gaussian_filter(noise, (2, 2, 0))
    left, right = noise.copy(), noise.copy()
    left[:, 40:], right[:, :40] = soft[:, 40:], soft[:, :40]
    weights = weights_of(np.stack([left, right]).astype(np.float32))
    assert weights.shape == (2, 40, 80) and float(weights.max()) == 1
    assert (weights[0, :, :30] > 20 * weights[1, :, :30]).all() and (weights[1, :, 50:] > 20 * weights[0, :, 50:]).all()


def test_flat_photos_count_alike():
    weights = weights_of(np.full((2, 8, 9, 3), 0.5, np.float32))
    assert torch.equal(weights, torch.ones(2, 8, 9))
