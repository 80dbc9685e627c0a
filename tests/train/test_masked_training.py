"""What is masked costs nothing: photos spoilt there train exactly as if spoilt otherwise, and the lens is found."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_world import InMemory, config, scene

from dofnerf.evaluate.scores import held_out_psnr, score_view
from dofnerf.models.data import training_data
from dofnerf.models.losses import gradient_loss, residual
from dofnerf.scenes.masks import with_masks
from dofnerf.train import preset, train

HOLE = np.s_[5:13, 8:16]


def spoilt(colour, size=(24, 30)):
    """The tiny world with something of that colour in every photo, which masks leave out."""
    world, frames = scene(6, size=size), []
    mask = np.ones(size, bool)
    mask[HOLE] = False
    for frame in world.frames:
        photo, sharp = (source.load().copy() for source in (frame.photo, frame.sharp))
        photo[HOLE], sharp[HOLE] = colour, colour
        frames.append(replace(frame, photo=InMemory(photo), sharp=InMemory(sharp), mask=InMemory(mask)))
    return replace(world, frames=tuple(with_masks(frames)))


def trained(world, field, steps):
    if field == "splat":
        counts = dict(zip(("pinhole_steps", "lens_steps", "sub_aperture_steps"), steps, strict=True))
        own = preset("fast").changed({"method": {**counts, "splats": 300}, "lens": {"max_radius": 8.0}})
    return train(world, own if field == "splat" else config(steps=steps, field=field))


@pytest.mark.parametrize(("field", "steps"), [("splat", (20, 20, 10)), ("hash", (4, 4, 3))])
def test_training_does_not_see_what_is_masked(field, steps):
    runs = [trained(spoilt(colour), field, steps) for colour in (0.0, (1.0, 0.0, 1.0))]
    one, other = (run.learner.tensors() for run in runs)
    assert all(torch.equal(one[name], other[name]) for name in one)
    worlds = [spoilt(colour) for colour in (0.0, (1.0, 0.0, 1.0))]
    scores = [
        score_view(run, world, 3, lambda a, b: float(np.abs(a - b).mean()))
        for run, world in zip(runs, worlds, strict=True)
    ]
    assert scores[0] == scores[1] and not isinstance(scores[0].ssim, str)
    assert held_out_psnr(runs[0], worlds[0]) == pytest.approx(scores[0].psnr)


def test_training_with_masks_is_as_good_elsewhere():
    steps = (60, 60, 20)
    masked, clean = trained(spoilt(0.0), "splat", steps), trained(scene(6, size=(24, 30)), "splat", steps)
    world = replace(scene(6, size=(24, 30)), frames=tuple(
        replace(frame, mask=one.mask) for frame, one in zip(scene(6, size=(24, 30)).frames, spoilt(0.0).frames,
        strict=True)
    ))  # fmt: skip
    assert held_out_psnr(masked, world) > held_out_psnr(clean, world) - 1.0


def test_losses_leave_out_masked_pixels():
    generator = torch.Generator().manual_seed(0)
    shown, photo = (torch.rand(7, 8, 3, generator=generator) for _ in range(2))
    mask = (torch.rand(7, 8, generator=generator) > 0.3).float()
    off = residual(shown, photo, mask=mask)
    assert torch.equal(off, torch.where(mask[..., None] > 0, shown - photo, 0.0))
    wild = torch.where(mask[..., None] > 0, off, 100.0)
    total = sum(
        float(((wild[i] - wild[k]) ** 2).sum()) / size
        for size, pairs in (
            (6 * 8 * 3, [((i, j), (i + 1, j)) for i in range(6) for j in range(8)]),
            (7 * 7 * 3, [((i, j), (i, j + 1)) for i in range(7) for j in range(7)]),
        )
        for i, k in pairs
        if mask[i] and mask[k]
    )
    assert float(gradient_loss(wild, mask)) == pytest.approx(total, rel=1e-4)
    assert torch.equal(gradient_loss(off), gradient_loss(off, torch.ones(7, 8)))


def test_masks_of_the_training_data():
    data = training_data(spoilt(0.0), "given", torch.device("cpu"))
    assert data.mask(0).sum() == 24 * 30 - 64 and training_data(scene(), "given", torch.device("cpu")).masks is None
