"""LearnedLens: bounds, sharing, switches, read-out."""

import math

import pytest
import torch

from dofnerf import LearnedLens, scatter


def test_starts_where_it_was_told():
    lens = LearnedLens(3, near=1.0, far=10.0, aperture=[1.0, 5.0, 20.0], focus_disparity=[0.2, 0.5, 0.9])
    torch.testing.assert_close(lens.aperture, torch.tensor([1.0, 5.0, 20.0]))
    torch.testing.assert_close(lens.focus_depth, torch.tensor([5.0, 2.0, 1 / 0.9]))


def test_default_start_blurs_a_few_pixels():
    lens = LearnedLens(2, near=2.0, far=math.inf)
    ends = lens.coc_radius(torch.tensor([[2.0, 4.0, 1e9]]), photo=1)
    torch.testing.assert_close(ends, torch.tensor([[-2.5, 0.0, 2.5]]), atol=1e-4, rtol=0)


def test_bounds_hold_for_any_parameter():
    lens = LearnedLens(2, near=1.0, far=5.0, max_radius=12.0)
    with torch.no_grad():
        lens.raw_aperture.copy_(torch.tensor([1e3, -1e3]))
        lens.raw_focus.copy_(torch.tensor([1e3, -1e3]))
    ends = torch.tensor([1.0, 5.0])
    blur = torch.stack([lens.coc_radius(ends, photo=i).abs().max() for i in range(2)])
    assert blur.max().item() == pytest.approx(12.0 * 1.15)  # focused nearer than anything, seen at the far end
    assert lens.aperture.max().item() * (1 - 1 / 5) == pytest.approx(12.0) and lens.aperture.min().item() >= 0
    assert lens.focus_disparity.min().item() == 0 and 1.1 < lens.focus_disparity.max().item() < 1.15


def test_focus_reaches_infinity_or_as_far_beyond_as_the_range_is_wide():
    assert LearnedLens(1, near=1.0, far=2.5).focus_range[0] == 0 and LearnedLens(1, 1.0, math.inf).focus_range[0] == 0
    narrow = LearnedLens(1, near=4.0, far=5.0)
    assert float(narrow.focus_range[0]) == pytest.approx(1 / 5 - (1 / 4 - 1 / 5))


def test_largest_radius_is_that_of_the_end_farther_from_focus():
    lens = LearnedLens(2, near=1.0, far=5.0, aperture=10.0, focus_disparity=[0.3, 0.9])
    torch.testing.assert_close(lens.largest_radius, torch.tensor([10 * (1 - 0.3), 10 * (0.9 - 1 / 5)]))


def test_photos_of_a_group_share_their_aperture():
    lens = LearnedLens(4, near=1.0, far=5.0, aperture=[2.0, 4.0, 6.0, 6.0], groups=[1.8, 1.8, 1.4, 1.4])
    torch.testing.assert_close(lens.aperture, torch.tensor([3.0, 3.0, 6.0, 6.0]))
    lens.aperture[3].backward()
    assert lens.raw_aperture.grad.shape == (2,)
    assert lens.raw_aperture.grad[1] == 0


def test_learn_and_freeze():
    lens = LearnedLens(2, 1.0, 5.0).learn(aperture=False, focus=True)
    lens.coc_radius(torch.full((3, 3), 2.0), photo=0).sum().backward()
    assert lens.raw_aperture.grad is None
    assert lens.raw_focus.grad is not None
    assert lens.learn().raw_aperture.requires_grad


def test_batches_of_photos():
    lens = LearnedLens(3, 1.0, 5.0, aperture=[1.0, 2.0, 3.0], focus_disparity=0.5)
    both = lens.coc_radius(torch.full((2, 4, 5), 1.0), photo=torch.tensor([2, 0]))
    assert both.shape == (2, 4, 5)
    torch.testing.assert_close(both[:, 0, 0], torch.tensor([-1.5, -0.5]))


def test_table_speaks_every_unit():
    lens = LearnedLens(1, near=0.5, far=8.0, aperture=2.14375, focus_disparity=0.5)
    row = lens.table(focal_px=490.0, focal_length_mm=35.0)[0]
    assert row["K"] == pytest.approx(2 * row["aperture"])
    assert row["lens_radius"] == pytest.approx(2.14375 / 490)
    assert row["f_number"] == pytest.approx(4.0, rel=1e-4)
    assert row["focus_depth"] == pytest.approx(2.0, rel=1e-4)


def test_state_survives_a_round_trip():
    lens = LearnedLens(3, 1.0, 5.0, aperture=[1.0, 2.0, 3.0], groups=[0, 1, 2])
    other = LearnedLens(3, 2.0, 50.0, max_radius=7.0)
    other.load_state_dict(lens.state_dict())
    assert torch.equal(lens.aperture, other.aperture)


def test_five_lines_in_somebody_elses_renderer():
    """The README's promise: depth and colour of a foreign renderer, one photo, both parameters come back."""
    torch.manual_seed(0)
    sharp, depth = torch.rand(24, 30, 3), torch.linspace(1.2, 4.5, 30).expand(24, 30)
    with torch.no_grad():
        truth = LearnedLens(1, 1.0, 5.0, aperture=8.0, focus_disparity=0.35)
        photo = scatter(sharp, truth.coc_radius(depth, photo=0))
    lens = LearnedLens(num_photos=1, near=1.0, far=5.0)
    optimizer = torch.optim.Adam(lens.parameters(), lr=0.1)
    for step in range(100):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 100)
        loss = (scatter(sharp, lens.coc_radius(depth, photo=0)) - photo).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert lens.aperture.item() == pytest.approx(8.0, rel=0.01)
    assert lens.focus_disparity.item() == pytest.approx(0.35, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_photos": 0}, "photos"),
        ({"near": 0.0}, "near < far"),
        ({"near": 5.0}, "near < far"),
        ({"far": math.nan}, "near < far"),
        ({"max_radius": -1.0}, "max_radius"),
        ({"aperture": 1e6}, "aperture must start"),
        ({"aperture": math.nan}, "aperture must start"),
        ({"focus_disparity": 3.0}, "focus_disparity must start"),
        ({"focus_disparity": [0.5]}, "one number or 2"),
        ({"groups": [0]}, "groups"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        LearnedLens(**{"num_photos": 2, "near": 1.0, "far": 5.0, **arguments})
