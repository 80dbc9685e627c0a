"""The picture with depth that comes with the package."""

from __future__ import annotations

from dofnerf.studio.rgbd import built_in_picture


def test_the_built_in_picture_has_depth():
    picture = built_in_picture()
    assert picture.image.shape == (*picture.disparity.shape, 3)
    far, near = picture.disparity_range()
    assert near > 2 * far > 0
    assert not picture.holes.any()
