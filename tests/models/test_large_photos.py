"""Large photos are read once: what only needs a small picture is made of a copy that is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from cameras_around import facing_forward
from dofnerf.models.data import training_data
from dofnerf.models.photo_stack import PhotoStack
from dofnerf.models.splat.model import begin_splats
from dofnerf.models.splat.start.views import prepare
from dofnerf.scenes import Frame, PictureFile, Scene
from dofnerf.scenes import scene as scenes
from dofnerf.scenes.source import Resized

SIZE = 90, 60


def wave(width, height, phase=0.0):
    """15 pixels long at full size, (H, W, 3) 0 … 1."""
    across, down = ((np.arange(count) + 0.5) / count * whole for count, whole in ((width, SIZE[0]), (height, SIZE[1])))
    values = 0.5 + 0.2 * np.sin(2 * np.pi * across / 15 + phase) + 0.2 * np.cos(2 * np.pi * down / 15)[:, None]
    return np.repeat(values[..., None], 3, axis=-1).astype(np.float32)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """Four photos of which copies of 30 × 20 pixels are kept, and a cache that holds one photo."""
    monkeypatch.setattr(scenes, "_COPY", 30 * 20)
    monkeypatch.setattr(scenes, "CACHE_BYTES", 1)
    frames = []
    for i, camera in enumerate(facing_forward(4, SIZE[::-1], focal=80.0)):
        Image.fromarray(np.rint(255 * wave(*SIZE, i)).astype(np.uint8)).save(tmp_path / f"{i}.png")
        frames.append(Frame(f"{i}.png", camera, PictureFile(tmp_path / f"{i}.png", *SIZE)))
    return Scene("waves", "test", tuple(frames), 2.0, 6.0, (0, 1, 3), (2,))


@pytest.fixture
def reads(monkeypatch):
    """How often each file is read."""
    counts = Counter()
    real = PictureFile.load_compact

    def load(self):
        counts[self.path.name] += 1
        return real(self)

    monkeypatch.setattr(PictureFile, "load_compact", load)
    return counts


def test_each_photo_is_read_once(scene, reads):
    data = training_data(scene, "given", torch.device("cpu"))
    assert reads == {"0.png": 1, "1.png": 1, "3.png": 1}
    assert np.array_equal(data.photos[2].numpy(), scene.photo(3)) and len(data.copies) == 3


def test_a_small_picture_of_a_large_photo_is_what_it_shows(scene, reads):
    for i in scene.train:
        np.testing.assert_allclose(scene.shrunk(i, 24, 16)[2:-2, 2:-2], wave(24, 16, i)[2:-2, 2:-2], atol=0.06)
    views = prepare(replace(scene, near=1.5), pixels=24 * 16)  # a scene with another range knows the copies, too
    np.testing.assert_array_equal(views.photos, np.stack([scene.shrunk(i, 24, 16) for i in scene.train]))
    assert set(reads.values()) == {1} and len(reads) == 3
    assert scene.shrunk(0, 45, 30).shape == (30, 45, 3) and reads["0.png"] == 2  # more than the copy has


def test_steps_shrink_the_copies(scene, monkeypatch):
    data = training_data(scene, "given", torch.device("cpu"))
    whole = [data.shrunk(k, 45, 30) for k in range(3)]
    np.testing.assert_allclose(whole[1][3:-3, 3:-3], wave(45, 30, 1)[3:-3, 3:-3], atol=0.03)
    monkeypatch.setattr(PhotoStack, "__getitem__", None)  # no whole photo is looked at
    for k, i in enumerate(scene.train):
        np.testing.assert_allclose(data.shrunk(k, 24, 16)[2:-2, 2:-2], wave(24, 16, i)[2:-2, 2:-2], atol=0.06)


def test_photos_of_usual_size_have_no_copies(scene, monkeypatch):
    monkeypatch.setattr(scenes, "_COPY", SIZE[0] * SIZE[1] // 3)
    assert training_data(scene, "given", torch.device("cpu")).copies == ()


def test_bytes_and_floats_shrink_to_the_same(scene):
    """A resized photo is made of the file's bytes; by the floats that they stand for it is the same to the bit."""
    file = scene.frames[0].photo
    for width, height in ((90, 60), (60, 40), (45, 30), (31, 20)):
        whole = type("Floats", (), {"load": lambda self: file.load()})()
        np.testing.assert_array_equal(Resized(file, width, height).load(), Resized(whole, width, height).load())


def test_what_photos_can_tell_follows_gaussians_that_move():
    """How fine photos show a Gaussian is remembered; moved by whatever way, it is as for a new model."""
    camera = facing_forward(1, (20, 30), focal=25.0)[0]
    photos = torch.tensor([[0.0, 0.0, 0.0, 12.0], [0.3, 0.1, 0.0, 12.0]])
    chance = torch.Generator().manual_seed(0)
    points = torch.rand(50, 3, generator=chance) - torch.tensor([0.5, 0.5, 4.0])
    model = begin_splats(points, torch.rand(50, 3, generator=chance), torch.full((50,), 0.01), 0, 2.2, 1.0, photos)
    first = model.seen_by(camera).log_scales
    assert torch.equal(first, model.seen_by(camera).log_scales)
    model.means.data += 1.5
    fresh = begin_splats(points + 1.5, points, torch.full((50,), 0.01), 0, 2.2, 1.0, photos)
    assert torch.equal(model.seen_by(camera).log_scales, fresh.seen_by(camera).log_scales)
    assert not torch.equal(first, model.seen_by(camera).log_scales)
