"""A scene of Gaussians, sharp and through a lens in three ways."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import torch
from small_splats import camera, random_gaussians, through_points

from dofnerf.camera import Camera
from dofnerf.models.splat.blurs import sub_apertures
from dofnerf.models.splat.model import SplatModel, likely_value
from dofnerf.models.splat.raster import Gaussians, Style, from_colour
from dofnerf.optics import Blades, Lens

AHEAD = Camera(np.eye(3, 4), 60.0, 60.0, 24.0, 16.0, 48, 32)


def wall(depth: float, left: float, right: float, colour, spacing: float = 0.5) -> Gaussians:
    """Round, opaque Gaussians side by side at one depth of AHEAD, from pixel column `left` to `right`; spacing in
    pixels."""
    x, y = np.meshgrid(np.arange(left, right, spacing), np.arange(-8, 40, spacing))
    pixels = np.stack([x.ravel(), y.ravel()], axis=-1)
    means = torch.from_numpy(AHEAD.unproject(pixels, np.full(len(pixels), depth))).float()
    count = len(means)
    return Gaussians(
        means,
        torch.full((count, 3), np.log(0.5 * depth / 60.0)),
        torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(count, 1),
        torch.full((count,), 2.0),
        from_colour(torch.tensor(colour)).expand(count, 1, 3).clone(),
    )


@pytest.fixture(scope="module")
def model():
    """A red wall on the left at depth 1.5 before a blue one at depth 6."""
    both = zip(wall(1.5, -8, 24, [0.9, 0.1, 0.1]), wall(6.0, -8, 56, [0.1, 0.2, 0.8]), strict=True)
    return SplatModel(Gaussians(*(torch.cat(parts) for parts in both)))


def test_sharp(model):
    view = model.picture(AHEAD)
    torch.testing.assert_close(
        view.image[4:-4, 2:20], torch.tensor([0.9, 0.1, 0.1]).expand(24, 18, 3), atol=0.02, rtol=0
    )
    torch.testing.assert_close(1 / view.disparity[4:-4, 2:20], torch.full((24, 18), 1.5), atol=0.03, rtol=0)
    torch.testing.assert_close(
        view.image[4:-4, 28:44], torch.tensor([0.1, 0.2, 0.8]).expand(24, 16, 3), atol=0.02, rtol=0
    )
    assert (view.alpha[4:-4, 2:44] > 0.99).all()


@pytest.mark.parametrize(("share", "wanted"), [(0.2, 0.3), (0.8, 0.7), (0.0, 0.3), (1.0, 0.7), (0.5, 0.5)])
def test_likely_value_of_two(share, wanted):
    values, weights = torch.tensor([0.3, 0.7], dtype=torch.float64), torch.tensor([1 - share, share]).double()
    moments = [(weights * values**power).sum() for power in (1, 2, 3)]
    assert float(likely_value(*moments)) == pytest.approx(wanted, abs=0.005)


def test_surface_is_what_a_pixel_mostly_shows_not_the_mean(model):
    near = wall(1.5, -8, 24, [0.9, 0.1, 0.1])
    haze = near._replace(opacity_logits=torch.full_like(near.opacity_logits, -3.5))
    hazy = SplatModel(
        Gaussians(*(torch.cat(parts) for parts in zip(haze, wall(6.0, -8, 56, [0.1, 0.2, 0.8]), strict=True)))
    )
    view = hazy.view(AHEAD)
    inside = slice(4, -4), slice(2, 20)
    mean, surface = 1 / view.disparity[inside], 1 / hazy.surface(AHEAD, view)[inside]
    assert float(mean.max()) < 4  # between both
    torch.testing.assert_close(surface, torch.full_like(surface, 6.0), atol=0.6, rtol=0)
    whole = 1 / model.surface(AHEAD, model.view(AHEAD))[inside]
    torch.testing.assert_close(whole, torch.full_like(whole, 1.5), atol=0.03, rtol=0)


@pytest.mark.parametrize("blur", ["gaussian", "scatter"])
def test_aperture_zero_is_the_sharp_view(model, blur):
    torch.testing.assert_close(
        model.picture(AHEAD, Lens(0.0, focus_disparity=0.3), blur).image,
        model.picture(AHEAD).image,
        atol=1e-6,
        rtol=1e-5,
    )


@pytest.mark.parametrize("blur", ["none", "gaussian", "scatter"])
def test_columns_are_those_of_the_whole_picture(model, blur):
    lens = () if blur == "none" else (Lens(12.0, focus_disparity=0.3), blur)
    whole = model.picture(AHEAD, *lens, parts=4)
    for first, last in ((0, 16), (16, 48), (13, 21)):
        part = model.picture(AHEAD, *lens, parts=4, columns=(first, last))
        for found, wanted in zip(part, whole, strict=True):
            torch.testing.assert_close(found, wanted[:, first:last], atol=1e-5, rtol=0)


def test_error_shares_of_columns_add_up(model):
    error, lens = torch.rand(32, 48, generator=torch.Generator().manual_seed(0)), Lens(6.0, focus_disparity=0.3)
    parts = [model.error_share(AHEAD, lens, error[:, a:b], a) for a, b in ((0, 8), (8, 48), (48, 48))]
    torch.testing.assert_close(sum(parts), model.error_share(AHEAD, lens, error), atol=1e-5, rtol=1e-4)


def test_a_sharp_edge_hides_the_blur_behind_it(model):
    """Focused on the near wall, a real lens shows its edge sharp. So does blur per Gaussian; scatter lets the far wall
    in."""
    lens = Lens(8.0, focus_disparity=1 / 1.5)
    exact = through_points(model, AHEAD, lens, 16)
    error = {
        blur: (model.picture(AHEAD, lens, blur).image - exact)[6:-6, 6:-6].abs().mean()
        for blur in ("gaussian", "scatter")
    }
    assert error["gaussian"] < 0.1 * error["scatter"]


def test_an_edge_out_of_focus_softens(model):
    """Focused on the far wall, the near one's edge turns half transparent over about the width of its blur."""
    lens = Lens(8.0, focus_disparity=1 / 6)
    exact = through_points(model, AHEAD, lens, 16)
    images = exact, model.picture(AHEAD, lens).image, model.picture(AHEAD).image
    soft = [((image[16, :, 0] > 0.2) & (image[16, :, 0] < 0.8)).sum() for image in images]
    assert (
        soft[2] <= 2 < soft[1] <= soft[0]
    )  # per Gaussian it is steeper: alphas of opaque ones upon each other do not add


def test_more_parts_are_nearer_to_a_real_lens(model):
    off = {}
    for focus in (1.5, 6.0):
        lens = Lens(8.0, focus_disparity=1 / focus)
        exact = through_points(model, AHEAD, lens, 256)
        off[focus] = [
            (model.picture(AHEAD, lens, parts=n).image - exact)[6:-6, 6:-6].square().mean() for n in (1, 4, 16)
        ]
    assert max(off[1.5]) < 1e-7  # of what is in focus, all parts see the same
    assert off[6.0][2] < 0.5 * off[6.0][1] < 0.25 * off[6.0][0]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 7, 8, 11, 12, 16, 19, 24, 28])
def test_parts_of_a_lens_together_are_the_lens(count):
    """A disc of radius 1 has its centroid in the middle and the variance 1/4 along each axis."""
    parts = sub_apertures(count, turn=0.13)
    assert len(parts) == count
    x, y, radius = torch.tensor(parts).double().T
    assert abs(x.mean()) < 1e-6
    assert abs(y.mean()) < 1e-6
    for squares in ((x * x + radius * radius / 4).mean(), (y * y + radius * radius / 4).mean()):
        assert float(squares) == pytest.approx(0.25, abs=1e-6)
    assert abs((x * y).mean()) < 1e-6


def test_the_more_parts_the_more_a_point_is_blurred_to_a_disc():
    """By what is left of each frequency, averaged over directions: a disc leaves 2 J₁(x) / x."""
    x = np.linspace(0.3, 12, 80)
    disc = 2 * scipy.special.j1(x) / x
    off = []
    for count in (1, 4, 8, 16, 32, 64):
        left = np.zeros((len(x), 16), complex)
        for part in sub_apertures(count):
            for k, turn in enumerate(np.linspace(0, 2 * np.pi, 16, endpoint=False)):
                away = part.x * np.cos(turn) + part.y * np.sin(turn)
                left[:, k] += np.exp(-1j * x * away - part.radius**2 * x**2 / 8) / count
        off.append(float(np.sqrt((np.abs(left - disc[:, None]) ** 2).mean())))
    assert all(more < 0.75 * fewer for fewer, more in pairwise(off))
    assert off[0] > 0.08 and off[-1] < 0.005


def test_gradients_reach_the_lens_in_every_way():
    seen_by = camera()
    model = SplatModel(random_gaussians(seen_by, 60), background=torch.tensor([0.2, 0.3, 0.4]))
    for way in ("gaussian", "scatter", "parts"):
        lens = torch.tensor([6.0, 0.3], requires_grad=True)
        shot = Lens(lens[0], shape=Blades(5), focus_disparity=lens[1])
        image = model.picture(seen_by, shot, *(("gaussian", 3, 4) if way == "parts" else (way,))).image
        model.zero_grad()
        image.square().sum().backward()
        assert torch.isfinite(lens.grad).all()
        assert (lens.grad != 0).all()
        assert all(torch.isfinite(p.grad).all() and p.grad.any() for p in model.parameters())


def test_background_shows_where_nothing_is():
    seen_by = camera()
    model = SplatModel(random_gaussians(seen_by, 5), Style(light=1.0), torch.tensor([0.2, 0.3, 0.4]))
    view = model.picture(seen_by, Lens(2.0, focus_disparity=0.3))
    empty = view.alpha == 0
    assert empty.any()
    torch.testing.assert_close(view.image[empty], model.background.expand(int(empty.sum()), 3))


def test_a_model_comes_back_from_its_state():
    seen_by = camera()
    model = SplatModel(random_gaussians(seen_by, 20), background=torch.tensor([0.2, 0.3, 0.4]))
    other = SplatModel(random_gaussians(seen_by, 20, seed=7))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.picture(seen_by).image, model.picture(seen_by).image)


def test_nothing_is_finer_than_the_photos_could_tell():
    photo = camera(40, 32)
    # Needles: trained, each looks as wide as a pixel's low-pass filter makes it.
    needles = random_gaussians(photo, 60)
    needles = needles._replace(log_scales=needles.log_scales + torch.tensor([0.0, -4.0, -4.0]))
    seen_from = torch.tensor([[*photo.position, photo.fx]])
    plain, ours = SplatModel(needles), SplatModel(needles, seen_from=seen_from)
    assert torch.equal(ours.view(photo).image, plain.view(photo).image)
    assert torch.equal(ours.view(photo.resized(20, 16)).image, plain.view(photo.resized(20, 16)).image)

    def off(model, large):
        """Of a picture that is four times as large, and made smaller again."""
        shown = model.view(large).image.reshape(32, 4, 40, 4, 3).mean((1, 3))
        return float((shown - plain.view(photo).image).square().mean().sqrt())

    large = photo.resized(160, 128)
    assert off(ours, large) < 0.3 * off(plain, large)


def test_a_nearer_camera_sees_needles_as_wide_as_a_photo_does():
    photo = camera(64, 48)
    needle = random_gaussians(photo, 1)
    ahead = torch.from_numpy(photo.position + 4.0 * photo.forward).float()
    scales = torch.log(torch.tensor([[0.3, 1e-4, 1e-4]]))
    needle = needle._replace(means=ahead[None], log_scales=scales, opacity_logits=torch.tensor([3.0]))
    model = SplatModel(needle, seen_from=torch.tensor([[*photo.position, photo.fx]]))
    near = replace(photo, camera_to_world=photo.camera_to_world.copy())
    near.camera_to_world[:, 3] += (ahead.numpy() - photo.position) / 2
    covered = [float(model.view(one).alpha.sum()) for one in (photo, near)]
    assert covered[1] == pytest.approx(4 * covered[0], rel=0.1)  # twice as near: four times the area
