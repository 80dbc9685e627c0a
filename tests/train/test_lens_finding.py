"""The lens: found by search, moved only where it was seen, learned by gradients from where it starts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_world import FAR, LENS, NEAR, blur, config, scene

from dofnerf.models.base import BLURS
from dofnerf.optics import Lens, scatter, to_display, to_linear
from dofnerf.train import lens_search, train
from dofnerf.train.lens_search import LensSearch, SmallView
from dofnerf.train.photos.lens import LensConfig, PhotoLens
from dofnerf.train.row_adam import RowAdam


def lens_of(count, **changes):
    return PhotoLens(count, 1.6, 7.5, max_radius=8.0, **changes)


def search_lens(lens, views, everywhere=True, unresolved_only=False, **changes):
    LensSearch(lens, views, LensConfig(**changes)).run(everywhere, unresolved_only)


def views(world, scale=1.0):
    tensor = torch.from_numpy
    return [
        SmallView(tensor(world.sharp(i)), tensor(1 / world.depth(i)), tensor(world.photo(i)), scale)
        for i in world.train
    ]


def test_search_finds_each_photos_lens_from_the_true_scene():
    world = scene(6, size=(30, 36), test=())
    lens = lens_of(6)
    search_lens(lens, views(world))
    assert lens.aperture.detach().numpy() == pytest.approx(9.0, rel=0.2)
    focus = lens.focus_disparity.detach().numpy()
    assert focus[::2] == pytest.approx(1 / NEAR, abs=0.04)
    assert focus[1::2] == pytest.approx(1 / FAR, abs=0.04)


def test_search_again_nearby_does_better_or_stays():
    world = scene(6, size=(30, 36), test=())
    lens, seen = lens_of(6, aperture=7.0, focus_disparity=[1 / LENS[i % 2].focus_depth for i in range(6)]), views(world)
    before = np.abs(lens.aperture.detach().numpy() - 9).mean()
    search_lens(lens, seen, everywhere=False)
    assert np.abs(lens.aperture.detach().numpy() - 9).mean() < before


def test_photos_that_share_an_aperture_agree_and_keep_their_own_focus():
    world = scene(6, size=(30, 36), test=())
    lens = lens_of(6, groups=[0, 0, 0, 0, 1, 1])
    search_lens(lens, views(world))
    aperture, focus = lens.aperture.detach(), lens.focus_depth.detach()
    assert bool((aperture[:4] == aperture[0]).all())
    assert bool((focus[::2] < 3).all() & (focus[1::2] > 4).all())


def plain_and_telling(world, wide):
    """Views of which the odd ones show one flat colour, so that any lens explains them; photos blurred by `wide`
    apertures."""
    seen = []
    for i, view in enumerate(views(world)):
        sharp = torch.full_like(view.sharp, 0.4) if i % 2 else view.sharp
        radius = wide[i] * (1 / LENS[i % 2].focus_depth - view.disparity)
        blurred = to_display(scatter(to_linear(sharp, 2.2), radius, light=1), 2.2)
        seen.append(SmallView(sharp + 0.01, view.disparity, blurred, 1.0))  # no field is perfect
    return seen


def test_a_photo_that_tells_nothing_of_its_lens_takes_the_aperture_of_all():
    seen, lens, alone = plain_and_telling(scene(6, size=(30, 36), test=()), 6 * [9.0]), lens_of(6), lens_of(6)
    search_lens(alone, seen, common_aperture=False)
    assert bool((alone.largest_radius[1::2] < BLURS).all())
    search_lens(lens, seen)
    assert lens.aperture.detach().numpy() == pytest.approx(9.0, rel=0.2)


def test_a_photo_that_clearly_has_another_lens_keeps_it():
    seen, lens = plain_and_telling(scene(6, size=(30, 36), test=()), [9.0, 9.0, 0.0, 9.0, 9.0, 9.0]), lens_of(6)
    search_lens(lens, seen)
    assert float(lens.largest_radius[2].detach()) < BLURS  # this one is sharp from front to back
    assert lens.aperture.detach().numpy()[[0, 4]] == pytest.approx(9.0, rel=0.2)


def test_shallow_and_sharp_photos_in_turn_each_keep_what_they_have():
    """The paper's Fig. 9: no aperture in between, which would be wrong for all."""
    seen = []
    for i, view in enumerate(views(scene(6, size=(30, 36), test=()))):
        field = to_display(
            scatter(to_linear(view.sharp, 2.2), torch.full_like(view.disparity, 0.8), light=1), 2.2
        )  # not sharp yet
        seen.append(SmallView(field, view.disparity, view.sharp if i % 2 else view.photo, 1.0))
    lens = lens_of(6)
    search_lens(lens, seen)
    assert bool((lens.largest_radius[1::2] < BLURS).all())
    assert bool((lens.aperture[::2] > 5).all())


def test_sharp_photos_get_no_lens_though_blur_helps_a_noisy_field_a_little(monkeypatch):
    world = scene(3, size=(30, 36), test=())
    dice = torch.Generator().manual_seed(0)
    seen = []
    for view in views(world):
        photo = view.sharp
        waves = torch.sin(torch.arange(photo.shape[1]) / 3)[:, None]  # what no lens explains
        noisy = photo + 0.05 * waves + 0.004 * torch.randn(photo.shape, generator=dice)
        seen.append(SmallView(noisy, view.disparity, photo, 1.0))
    credulous, lens = lens_of(3), lens_of(3)
    search_lens(lens, seen)
    assert bool((lens.largest_radius < BLURS).all())
    monkeypatch.setattr(lens_search, "_WORTH", 0.0)
    search_lens(credulous, seen)
    assert bool((credulous.largest_radius > BLURS).any())


def test_a_photo_without_a_lens_is_looked_at_anew():
    world = scene(2, size=(30, 36), test=())
    lens = lens_of(2, aperture=0.3)
    search_lens(lens, views(world), everywhere=False)
    assert lens.aperture.detach().numpy() == pytest.approx(9.0, rel=0.2)


def test_where_only_the_unresolved_are_looked_at_the_others_keep_what_they_have_and_give_the_common_aperture():
    seen = plain_and_telling(scene(6, size=(30, 36), test=()), 6 * [9.0])
    lens = lens_of(6, aperture=[8.0, 0.02, 0.02, 8.5, 7.0, 8.0], focus_disparity=[0.4, 0.3, 0.3, 0.2, 0.4, 0.2])
    before = lens.aperture.detach().clone(), lens.focus_disparity.detach().clone()
    search_lens(lens, seen, everywhere=False, unresolved_only=True)
    after, kept = (lens.aperture.detach(), lens.focus_disparity.detach()), [0, 3, 4, 5]
    assert all(torch.allclose(one[kept], other[kept], rtol=1e-4) for one, other in zip(before, after, strict=True))
    assert float(after[0][1]) == pytest.approx(8.0, rel=1e-3)  # it shows one flat colour: the median of the others
    assert float(after[0][2]) == pytest.approx(9.0, rel=0.2)  # it tells by itself
    assert float(after[1][2]) == pytest.approx(1 / NEAR, abs=0.04)


@pytest.mark.parametrize("refit_all, unresolved, looks", [(True, False, 2), (False, False, 1), (False, True, 2)])
def test_a_second_search_for_the_unresolved_alone_is_skipped_where_none_is(monkeypatch, refit_all, unresolved, looks):
    found = []

    def search(self, everywhere, unresolved_only):
        found.append(unresolved_only)
        with torch.no_grad():
            self.lens.raw_aperture.fill_(0.0)
            self.lens.raw_aperture[0] = -9.0 if unresolved else 0.0

    monkeypatch.setattr(LensSearch, "run", search)
    train(scene(4, size=(20, 24), test=()), config((1, 4, 0), refits=(0.5,), refit_all=refit_all, lens_rate=1e-6))
    assert len(found) == looks and all(only == (i == 1 and not refit_all) for i, only in enumerate(found))


@pytest.mark.parametrize("which", ["aperture", "focus"])
def test_search_leaves_alone_what_is_not_learned(which):
    world = scene(6, size=(20, 24), test=())
    lens = lens_of(6)
    before = {name: value.detach().clone() for name, value in lens.named_parameters()}
    search_lens(lens, views(world), **{f"learn_{which}": False})
    assert torch.allclose(before[f"raw_{which}"], getattr(lens, f"raw_{which}"), atol=1e-4)


def test_apertures_scale_with_the_size_of_the_pictures():
    world = scene(6, size=(30, 36), test=())
    halved = lens_of(6)
    search_lens(halved, views(world, scale=0.5))  # as if the photos were twice as large: the lens is, too
    assert halved.aperture.detach().numpy() == pytest.approx(18.0, rel=0.2)


def test_with_all_rows_it_is_adam():
    lens, twin = lens_of(3), lens_of(3)
    ours, theirs = RowAdam(lens), torch.optim.Adam(twin.parameters(), lr=0.05, betas=(0.9, 0.98), eps=1e-12)
    for step in range(5):
        for made in (lens, twin):
            made.zero_grad()
            (made.aperture * torch.tensor([1.0, -2.0, 0.3]) + (made.focus_disparity - 0.3 * step) ** 2).sum().backward()
        ours.step(None, 0.05)
        theirs.step()
    for a, b in zip(lens.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_photos_that_were_not_seen_do_not_move():
    lens = lens_of(4, groups=[0, 0, 1, 1])
    adam = RowAdam(lens)
    for photo in (0, 2):
        (lens.aperture[photo] + lens.focus_disparity[photo]).backward()
        adam.step(torch.tensor([photo]), 0.05)
    kept = lens.raw_focus.detach().clone(), lens.raw_aperture.detach().clone()
    (lens.aperture[0] + lens.focus_disparity[0]).backward()
    adam.step(torch.tensor([0]), 0.05)
    moved_focus, moved_aperture = lens.raw_focus != kept[0], lens.raw_aperture != kept[1]
    assert moved_focus.tolist() == [True, False, False, False]
    assert moved_aperture.tolist() == [True, False]


@pytest.mark.parametrize("disparity", [0.0, 1 / 1.6 + 0.05])
def test_search_finds_a_focus_beyond_what_is_seen(disparity):
    world = scene(4, size=(30, 36), test=())
    truth = Lens(9.0, focus_disparity=disparity)
    seen = [
        replace(view, photo=torch.from_numpy(blur(world.sharp(i), world.depth(i), truth)))
        for i, view in enumerate(views(world))
    ]
    lens = lens_of(4)
    search_lens(lens, seen)
    assert lens.focus_disparity.detach().numpy() == pytest.approx(disparity, abs=0.03)
    assert lens.aperture.detach().numpy() == pytest.approx(9.0, rel=0.2)
