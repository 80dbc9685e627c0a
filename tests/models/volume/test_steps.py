"""Single steps against a model that already knows the truth: their loss must be nothing, patch by patch and ray by
ray."""

import numpy as np
import pytest
import torch
from tiny_world import FAR, NEAR, OnlyLens, config, scene

from dofnerf.models import NotFinite
from dofnerf.models.data import training_data
from dofnerf.models.volume import Concentrated, Shaded
from dofnerf.models.volume.rays import choose_space
from dofnerf.models.volume.steps import VolumeSteps
from dofnerf.optics import LearnedLens
from dofnerf.train.lens_search import SmallView, in_focus_mask


class Truth:
    """The tiny world as a model: one opaque sample where a ray meets it."""

    def __init__(self, world):
        self.space = choose_space([world.camera(i) for i in world.train], world.near, world.far)

    def places(self, shape, generator=None, device="cpu"):
        return (torch.zeros(shape),)

    def shade(self, rays, generator=None, behind=False, places=None):
        colour, depth = torch.zeros(*rays.shape, 3), torch.zeros(rays.shape)
        for z, card in ((-FAR, False), (-NEAR, True)):
            t = (z - rays.origins[..., 2]) / rays.directions[..., 2]
            x, y = (rays.origins + t[..., None] * rays.directions)[..., :2].unbind(-1)
            here = (x.abs() < 0.35) & (y.abs() < 0.3) if card else torch.ones_like(x, dtype=torch.bool)
            waves = 0.5 + 0.3 * torch.sin(x * (14 if card else 5)) * torch.cos(y * (11 if card else 6))
            tint = torch.tensor([1.0, 0.6, 0.3] if card else [0.4, 0.8, 1.0])
            colour = torch.where(here[..., None], waves[..., None] * tint, colour)
            depth = torch.where(here, t, depth)
        full = torch.full_like(depth, 100.0)[..., None]
        return [Shaded(colour[..., None, :], full, torch.ones_like(full), depth[..., None])]

    def __call__(self, rays, generator=None, places=None):
        (shaded,) = self.shade(rays)
        depth = shaded.depth[..., 0]
        return (
            Concentrated(shaded.colour[..., 0, :], torch.ones_like(depth), depth, 1 / depth, torch.zeros_like(depth)),
        )


def knowing(world, photos="given", **changes):
    """Steps that know field and lens."""
    lenses = [world.lens(i) for i in world.train]
    lens = LearnedLens(
        len(lenses), world.near, world.far, 8.0,
        aperture=[lens.aperture for lens in lenses], focus_disparity=[1 / lens.focus_depth for lens in lenses],
    )  # fmt: skip
    return VolumeSteps(
        training_data(world, photos, torch.device("cpu")), Truth(world), OnlyLens(lens), config(**changes)
    )


def test_a_patch_loses_nothing_where_no_light_is_missing():
    steps = knowing(scene(size=(30, 36)))
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(40):
        outcome = steps("patches", generator)
        assert float(outcome.error) < 1e-6
        assert outcome.rays == 16 * 16 and outcome.photos.shape == (1,)
        seen.add(int(outcome.photos))
    assert seen == {0, 1, 2, 3}


def test_random_rays_meet_sharp_photos():
    steps = knowing(scene(size=(30, 36)), photos="sharp")
    assert float(steps("pinhole", torch.Generator().manual_seed(0)).error) < 1e-6


def test_lens_rays_mean_what_scatter_means_and_their_noise_is_no_loss():
    steps = knowing(scene(size=(30, 36)), noise_free=True)
    generator = torch.Generator().manual_seed(0)
    outcomes = [steps("lens rays", generator) for _ in range(300)]
    losses, errors = [float(o.loss.detach()) for o in outcomes], [float(o.error) for o in outcomes]
    # Scatter and true rays differ at the card's silhouette only; the rest of the error is noise, which the loss leaves
    # out.
    assert abs(np.mean(losses)) < 0.7 * np.mean(errors)
    outcome = steps("lens rays", generator)
    outcome.loss.backward()
    assert bool(torch.isfinite(steps.lens.raw_aperture.grad).all())


def test_pixels_called_sharp_are():
    world, which = scene(size=(30, 36)), 1  # focused on the wall
    steps = knowing(world)
    sharp, photo = torch.from_numpy(world.sharp(which)), torch.from_numpy(world.photo(which))
    mask = in_focus_mask(SmallView(sharp, torch.from_numpy(1 / world.depth(which)), photo, 1.0), steps.lens, which) > 0
    assert 0.3 < float(mask.float().mean()) < 0.95
    assert float((sharp - photo)[mask].abs().mean()) < 0.005 < float((sharp - photo)[~mask].abs().max())


def test_rays_to_pixels_in_focus_are_all_used_however_few_there_are():
    steps = knowing(scene(size=(30, 36)), in_focus=0.5)
    steps.in_focus = torch.zeros(4, 15, 18, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    assert steps("lens rays", generator).rays == 96  # none is in focus: any pixels
    steps.in_focus[2, 14, 17] = 1
    pixels = steps._pixels_in_focus(generator, 50)
    assert set(pixels.photo.tolist()) == {2}
    assert set(pixels.row.tolist()) == {28, 29} and set(pixels.column.tolist()) == {34, 35}
    assert steps("lens rays", generator).rays == 96


def test_photos_without_blur_are_learned_by_random_rays():
    steps = knowing(scene(size=(30, 36)), photos="sharp", in_focus=0.5)
    with torch.no_grad():
        steps.lens.raw_aperture[1:] -= 5.0
    generator = torch.Generator().manual_seed(0)
    outcomes = [steps("patches", generator) for _ in range(30)]
    assert {int(one.through_lens) for one in outcomes if one.through_lens is not None} == {0}
    plain = [one for one in outcomes if one.through_lens is None]
    assert all(one.rays == 96 and float(one.error) < 1e-6 for one in plain) and len(plain) > 15


def test_nonsense_from_the_field_is_named():
    steps = knowing(scene())
    broken = steps.model.shade
    steps.model.shade = lambda *a, **k: [one._replace(colour=one.colour * float("nan")) for one in broken(*a, **k)]
    for stage in ("pinhole", "patches", "lens rays"):
        with pytest.raises(NotFinite):
            steps(stage, torch.Generator().manual_seed(0))
