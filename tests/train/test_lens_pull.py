"""Apertures are drawn to each other while they learn, the less the more one differs."""

import math

import pytest
import torch
from tiny_world import config, scene

from dofnerf.optics import LearnedLens
from dofnerf.train import train
from dofnerf.train.losses import aperture_consistency
from dofnerf.train.losses.aperture_consistency import aperture_consistency_loss


def lens_of(apertures, **changes):
    return LearnedLens(len(apertures), 1.6, 7.5, max_radius=16.0, aperture=apertures, **changes)


def pull(lens, photo):
    """How the price of photo's aperture grows with that aperture's logarithm."""
    (slope,) = torch.autograd.grad(aperture_consistency_loss(lens, torch.tensor([photo])), lens.raw_aperture)
    share = lens.aperture.detach() / lens.max_aperture
    return float((slope / (1 - share))[photo])  # raw is the logit


def test_the_pull_is_towards_the_median_and_grows_like_a_spring():
    lens = lens_of([10.0, 10.0, 10.0, 10.3, 9.7])
    assert pull(lens, 0) == pytest.approx(0.0, abs=1e-6)
    assert pull(lens, 3) == pytest.approx(math.log(1.03), rel=0.05)
    assert pull(lens, 4) == pytest.approx(math.log(0.97), rel=0.05)


def test_the_more_an_aperture_differs_the_less_it_is_pulled():
    lens = lens_of([10.0, 10.0, 10.0, 12.0, 30.0])
    spring = math.log(30 / 10) / math.log(12 / 10)
    assert 0 < pull(lens, 4) < pull(lens, 3) / 2 < spring * pull(lens, 3) / 10


def test_photos_that_blur_nothing_neither_pull_nor_are_pulled():
    lens = lens_of([10.0, 0.1, 0.1, 0.1, 11.0, 11.0])
    assert pull(lens, 1) == 0.0
    assert pull(lens, 0) == pytest.approx(math.log(10 / 11), rel=0.4)  # to the median of 10, 11 and 11
    assert aperture_consistency_loss(lens_of([0.1, 0.1]), torch.tensor([0])).item() == 0.0


def test_two_kinds_of_photos_meet_in_the_middle():
    lens = lens_of([10.0, 10.0, 12.0, 12.0])
    assert pull(lens, 0) == pytest.approx(-pull(lens, 2), rel=1e-3) and pull(lens, 0) < 0


def test_an_aperture_of_nothing_has_a_gradient_all_the_same():
    lens = lens_of([10.0, 12.0, 12.0])
    with torch.no_grad():
        lens.raw_aperture[0] = -200.0
    (slope,) = torch.autograd.grad(aperture_consistency_loss(lens, torch.tensor([0, 1])), lens.raw_aperture)
    assert bool(torch.isfinite(slope).all())


def test_training_heeds_it():
    def spread(weight):
        run = train(scene(), config((2, 8, 0), search=False, lens_rate=0.2, in_focus=0.0, aperture_consistency=weight))
        return float(run.lens.aperture.detach().log().std())

    assert spread(10.0) < spread(0.0) / 2


def test_where_it_is_known_who_shares_an_aperture_nothing_pulls(monkeypatch):
    def refuse(*given):
        raise AssertionError("nobody should ask")

    monkeypatch.setattr(aperture_consistency, "aperture_consistency_loss", refuse)
    train(scene(), config((1, 3, 0), search=False, share_aperture="all", aperture_consistency=10.0))


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
def test_a_pull_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="aperture_consistency must be 0 or more"):
        config(aperture_consistency=wrong)
