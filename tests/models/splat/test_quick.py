"""Pictures through a round lens to look at, against those drawn in full."""

import math

import pytest
import torch
from small_splats import awkward_gaussians, camera, random_gaussians

from dofnerf.models import Blur
from dofnerf.models.splat.blurs import Shot, sub_apertures
from dofnerf.models.splat.gaussians import Group, Seen
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.quick import quick_picture
from dofnerf.models.splat.raster import Gaussians, from_colour, project, rasterise_coarse, rasterise_mean
from dofnerf.optics import Lens

BACKGROUND = torch.tensor([0.2, 0.3, 0.4])


def decibel(found, wanted) -> float:
    return -10 * math.log10(float((found.clamp(0, 1) - wanted.clamp(0, 1)).square().mean()) + 1e-20)


@pytest.mark.parametrize("make", [random_gaussians, awkward_gaussians])
def test_without_anything_coarse_it_is_the_mean_of_the_views(make):
    seen_by, lens = camera(), (9.0, 0.3)
    parts = sub_apertures(7)
    views = {part.radius: project(make(seen_by), seen_by, *lens, part.radius) for part in parts}
    seen = [Seen(part, views[part.radius]) for part in parts]
    found = rasterise_coarse([Group(one, [one]) for one in seen], lens, [1e6, 1e6], (37, 29), BACKGROUND)
    drawn = rasterise_mean([one.projected for one in seen], parts, *lens, 37, 29, "reference")
    wanted = drawn.light + (1 - drawn.alpha)[..., None] * BACKGROUND
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(37, 29), (64, 64), (9, 5), (1, 1)])
def test_halved_everything_that_is_wide_is_the_same(size):
    """Also where sizes are odd, and whatever lies before, in and behind the focal plane."""
    seen_by = camera(*size)
    gaussians = random_gaussians(seen_by, 60, pixels=8.0)
    lens, part = (12.0, 0.3), sub_apertures(1)[0]
    one = Seen(part, project(gaussians, seen_by, *lens, part.radius))
    found = rasterise_coarse([Group(one, [one])], lens, [0.5], size, BACKGROUND)
    wanted = rasterise_coarse([Group(one, [one])], lens, [1e6], size, BACKGROUND)
    assert decibel(found, wanted) > 45


@pytest.mark.parametrize("pixels", [1.0, 6.0])
@pytest.mark.parametrize("focus", [0.15, 0.3, 0.5])
@pytest.mark.parametrize("aperture", [4.0, 60.0, 600.0])
def test_it_is_the_picture_in_full(pixels, focus, aperture):
    seen_by = camera(701, 403)
    gaussians = random_gaussians(seen_by, 1500, pixels)
    shot, lens = Shot(SplatModel(gaussians).style, BACKGROUND, 2.2, 12), Lens(aperture, focus_disparity=focus)
    model = SplatModel(gaussians, background=BACKGROUND)
    wanted = model.picture(seen_by, lens, parts=12).image.detach()
    assert decibel(quick_picture(gaussians, seen_by, lens, shot), wanted) > 45


def test_light_sources_out_of_focus():
    """Far brighter than white and before black, the worst case: rims where blurred Gaussians are cut off show."""
    seen_by = camera(701, 403)
    some = random_gaussians(seen_by, 40, 1.0, kinds=1)
    bright = from_colour(torch.full((40, 1, 3), 4.0))
    gaussians = Gaussians(some.means, some.log_scales, some.rotations, torch.full((40,), 4.0), bright)
    model = SplatModel(gaussians)
    for focus in (0.0, 0.3, 0.6):
        lens = Lens(90.0, focus_disparity=focus)
        wanted = model.picture(seen_by, lens, parts=12).image.detach()
        assert decibel(model.view(seen_by, lens, Blur(1)).image, wanted) > 40


def test_a_closed_lens_and_an_empty_scene():
    seen_by = camera(701, 403)
    model = SplatModel(random_gaussians(seen_by, 300, 3.0), background=BACKGROUND)
    closed = model.view(seen_by, Lens(0.0, focus_disparity=0.3), Blur(1))
    torch.testing.assert_close(closed.image, model.view(seen_by).image, atol=1e-4, rtol=0)
    nothing = SplatModel(Gaussians(*(tensor[:0] for tensor in model.gaussians)), background=BACKGROUND)
    away = model.means - 1e3 * torch.from_numpy(seen_by.forward).float()
    behind = SplatModel(model.gaussians._replace(means=away), background=BACKGROUND)
    for one in (nothing, behind):
        image = one.view(seen_by, Lens(60.0, focus_disparity=0.3), Blur(1)).image
        torch.testing.assert_close(image, BACKGROUND.expand(403, 701, 3), atol=1e-5, rtol=0)
