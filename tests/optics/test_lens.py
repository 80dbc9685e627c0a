"""The lens formulas against arithmetic done by hand and against ray geometry."""

import math

import pytest
import torch

from dofnerf.optics import lens as thin_lens
from dofnerf.optics.lens import aperture_from_f_number, coc_radius, f_number_from_aperture
from oracles.thin_lens import approximation_error, coc_radius_exact


def test_sign_and_size():
    depth = torch.tensor([1.0, 2.0, 4.0, math.inf])
    torch.testing.assert_close(coc_radius(depth, 8.0, 0.5), torch.tensor([-4.0, 0.0, 2.0, 4.0]))


def test_infinity_focus_blurs_only_what_is_near():
    torch.testing.assert_close(coc_radius(torch.tensor([2.0, math.inf]), 10.0, 0.0), torch.tensor([-5.0, 0.0]))


def test_exact_form_is_a_cone_of_light_cut_by_the_sensor():
    """A 50 mm f/2 lens at 1 m, by similar triangles behind the lens (Gauss: 1/h + 1/v = 1/f), all in millimetres."""
    f, number, focus, pitch = 50.0, 2.0, 1000.0, 0.006
    radius = f / (2 * number)
    for depth in (500.0, 1500.0, 8000.0):
        sensor, image = 1 / (1 / f - 1 / focus), 1 / (1 / f - 1 / depth)
        blur_px = radius * (sensor - image) / image / pitch
        aperture = f / pitch * radius
        exact = coc_radius_exact(depth, aperture, focus, f)
        assert exact == pytest.approx(blur_px, rel=1e-9)
        approximate = float(coc_radius(torch.tensor(depth, dtype=torch.float64), aperture, 1 / focus))
        assert 1 - approximate / exact == pytest.approx(approximation_error(focus, f))
        with_image_distance = coc_radius(torch.tensor(depth, dtype=torch.float64), sensor / pitch * radius, 1 / focus)
        assert float(with_image_distance) == pytest.approx(blur_px, rel=1e-9)


def test_f_number_there_and_back():
    focal_px = thin_lens.focal_length_pixels(35.0, 36.0, 504)
    assert focal_px == pytest.approx(490.0)
    aperture = aperture_from_f_number(4.0, 35.0, focal_px)
    assert aperture == pytest.approx(490 * 0.035 / 8)
    assert f_number_from_aperture(aperture, 35.0, focal_px) == pytest.approx(4.0)
    assert f_number_from_aperture(0.0, 35.0, focal_px) == math.inf


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_bad_depth_names_the_pixel(bad):
    depth = torch.ones(3, 4)
    depth[1, 2] = bad
    with pytest.raises(ValueError, match=r"positive.*\(1, 2\)"):
        coc_radius(depth, 1.0, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: coc_radius(torch.ones(2), -1.0, 1.0),
        lambda: coc_radius(torch.ones(2), 1.0, math.nan),
        lambda: aperture_from_f_number(0, 50, 500),
        lambda: thin_lens.focal_length_pixels(50, 0, 500),
        lambda: f_number_from_aperture(-1, 50, 500),
    ],
)
def test_bad_lens_values(call):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        call()
