"""What quantising costs: bytes and decibels; and the joined script of the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unpacked import unpacked

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.raster import Gaussians, Style
from dofnerf.optics import Lens
from dofnerf.web import HERE, fill
from dofnerf.web.walk_page import Walk, bundle, packed_scene, page

COUNT = 20_000


@pytest.fixture(scope="module")
def model() -> SplatModel:
    """Gaussians on the surfaces of the packaged scene, as uneven as trained ones: their harmonics have the spread that
    training gives them."""
    points, rng = scenes.demo().points, np.random.default_rng(0)
    chosen = rng.integers(0, len(points.xyz), COUNT)
    xyz = points.xyz[chosen] + rng.normal(0, 0.01, (COUNT, 3))
    scales = np.log(rng.lognormal(-4.2, 0.7, (COUNT, 3)))
    harmonics = rng.laplace(0, 0.045, (COUNT, 9, 3)) * [1.0, 0.8, 0.8]
    harmonics[:, :, 1:] += harmonics[:, :, :1]
    harmonics[:, 0] = (points.rgb[chosen] / 255 - 0.5) / 0.2821 + rng.normal(0, 0.2, (COUNT, 3))
    arrays = xyz, scales, rng.normal(size=(COUNT, 4)), rng.normal(1, 2, COUNT), harmonics
    gaussians = Gaussians(*(torch.from_numpy(array).float() for array in arrays))
    return SplatModel(gaussians, Style(), torch.tensor([0.2, 0.3, 0.4]))


def test_sixty_thousand_gaussians_take_three_megabytes_and_look_the_same(model):
    splats, background = model.splats()
    data = packed_scene(splats, background, 0.01, False, 2.2, 2.2)
    whole = len(page({"title": "x"}, np.zeros((426, 640, 3), np.uint8), data))
    assert whole + (60_000 - COUNT) * len(data) / COUNT * 4 / 3 < 3_000_000
    again = SplatModel(unpacked(data), model.style, model.background)
    error = []
    for i in (0, 12):
        camera = scenes.demo().camera(i)
        error.append(float((again.view(camera).image - model.view(camera).image).clamp(-1, 1).square().mean()))
    noise = np.mean(error)
    photo = 10**-3.0  # a very good model's mean squared error: 30 dB
    assert 10 * np.log10((photo + noise) / photo) < 0.1


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_any_scale_an_outlier_and_one_gaussian(model, scale):
    splats, background = model.splats()
    means = splats.means[:50] * scale
    means[7] *= 1e4
    few = type(splats)(means, splats.log_scales[:50] + np.log(scale), *(part[:50] for part in
        (splats.rotations, splats.opacities, splats.harmonics)))  # fmt: skip
    found = unpacked(packed_scene(few, background, 0.01 * scale, False, 2.2, 2.2))
    order = [int(np.argmin(np.linalg.norm(found.means.numpy() - mean, axis=1))) for mean in means]
    near = np.arange(50) != 7
    error = np.linalg.norm(found.means.numpy()[order] - means, axis=1)[near]
    assert error.max() < 1e-3 * scale
    one = type(splats)(
        *(getattr(few, name)[:1] for name in ("means", "log_scales", "rotations", "opacities", "harmonics"))
    )
    np.testing.assert_allclose(
        unpacked(packed_scene(one, background, 0.01, False, 2.2, 2.2)).means, one.means, rtol=1e-4
    )


def test_a_template_is_filled_once_whatever_names_say():
    assert fill("<b>@title@</b>@script@", title="@scene@@script@", script="run") == "<b>@scene@@script@</b>run"
    odd = page(
        {"title": "@scene@@script@</script>", "photos": ["@policy@</script><script>"]},
        np.zeros((2, 2, 3), np.uint8),
        b"x",
    )
    facts = odd.split('id="facts">')[1].split("</script>")[0]
    assert json.loads(facts)["photos"] == ["@policy@</script><script>"]
    assert odd.count('<script type="module">') == 1 and "@scene@@script@&lt;/script&gt;" in odd


def test_every_module_of_the_page_is_used_and_short_lines():
    script = bundle("app") + bundle("space")
    for path in (HERE / "walk").glob("*.js"):
        assert f"const ${path.stem} = " in script
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120, path
    assert "import " not in script.replace("importScripts", "") and "http" not in script.replace("https", "")


def test_a_sensor_of_36_mm_is_along_the_longer_side():
    """f/2.8 says the same of a camera held either way."""
    wide = Camera(np.eye(4)[:3], 500.0, 500.0, 180.0, 120.0, 360, 240)
    upright = Camera(np.eye(4)[:3], 500.0, 500.0, 120.0, 180.0, 240, 360)
    told = [Walk("", (), one, Lens(5.0), (0.1, 1.0), 5.0, (0, 1, 0)).facts()["mm"] for one in (wide, upright)]
    assert told == pytest.approx([50 / 500 * (360 * 240) ** 0.5] * 2)


def test_a_camera_is_told_as_the_page_needs_it():
    from dofnerf.web.walk_page import opening

    camera = Camera(np.eye(4)[:3], 100.0, 100.0, 60.0, 40.0, 120, 80)
    assert opening(5.0, camera) == pytest.approx(opening(10.0, camera.resized(240, 160)))
