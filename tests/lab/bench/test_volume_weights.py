"""The measures of K_volume, on rays whose answer is known by hand."""

import numpy as np
import pytest

from dofnerf.lab.bench.work import _near_depth, _near_largest


def test_light_near_the_heaviest_sample_and_near_the_mean_depth():
    weights = np.array([[0.0, 0.1, 0.6, 0.2, 0.1], [0.5, 0.0, 0.0, 0.0, 0.5]])
    assert _near_largest(weights) == pytest.approx([0.9, 0.5])
    disparity = np.array([[1.0, 0.52, 0.5, 0.48, 0.1], [1.0, 0.8, 0.6, 0.4, 0.0]])
    # Means: 0.458 and 0.5. Within 0.05 of the first lie the samples at 0.5 and 0.48; of the second, none.
    assert _near_depth(weights, disparity, span=1.0) == pytest.approx([0.8, 0.0])
