"""Photos kept as whole numbers, in memory or in a file: the floats that come back, and what is held meanwhile."""

import numpy as np
import pytest
import torch

from dofnerf.models import photo_stack
from dofnerf.models.photo_stack import PhotoStack


def pictures(levels, count=4):
    rng = np.random.default_rng(0)
    return rng.integers(0, levels + 1, (count, 6, 7, 3)).astype(np.float32) / np.float32(levels)


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(("levels", "bytes_each"), [(255, 1), (65535, 2)])
def test_photos_of_8_and_16_bits_come_back_to_the_bit(monkeypatch, tmp_path, in_file, levels, bytes_each):
    if in_file:
        monkeypatch.setattr(photo_stack, "IN_MEMORY", 10)
    photos = pictures(levels)
    stack = PhotoStack.of(list(photos).__getitem__, 4, "cpu", tmp_path)
    assert stack._values.element_size() == bytes_each and (stack._mapped is not None) == in_file
    assert len(stack) == 4 and stack.size == (6, 7) and stack.device == torch.device("cpu")
    assert np.array_equal(np.stack([photo.numpy() for photo in stack]), photos)
    photo, row, column = torch.tensor([0, 3, 3]), torch.tensor([5, 0, 2]), torch.tensor([6, 1, 2])
    assert np.array_equal(stack.at(photo, row, column).numpy(), photos[photo, row, column])
    assert not list(tmp_path.iterdir())


def test_other_photos_are_rounded_to_16_bits():
    photos = np.random.default_rng(1).random((3, 5, 5, 3)).astype(np.float32)
    photos[0] = np.rint(photos[0] * 255) / np.float32(255)  # the first would fit into bytes
    stack = PhotoStack.of(list(photos).__getitem__, 3)
    assert max(float(np.abs(a.numpy() - b).max()) for a, b in zip(stack, photos, strict=True)) <= 1 / 131070 + 1e-7


def test_a_full_disk_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(photo_stack, "IN_MEMORY", 10)
    monkeypatch.setattr(photo_stack.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 5}))
    with pytest.raises(ValueError, match=r"4 photos of this size need .* use --width or --downscale"):
        PhotoStack.of(list(pictures(255)).__getitem__, 4, "cpu", tmp_path)
