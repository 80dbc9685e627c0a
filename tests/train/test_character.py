"""The character of a lens: how it weighs the opening, and that it is found again in pictures by a known one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_world import QUIET, InMemory, scene

from dofnerf.camera import Camera, moved, zoomed
from dofnerf.cli import main
from dofnerf.files import read_image
from dofnerf.models.data import Setting, training_data
from dofnerf.models.splat.blurs import as_lit, points_of_parts, sub_apertures
from dofnerf.models.splat.model import begin_splats
from dofnerf.optics import Lens
from dofnerf.optics.shapes import DISC, Blades, RealLens, part_weights
from dofnerf.scenes import Frame, Scene
from dofnerf.train import Run, character, checkpoint, loop, preset, train
from dofnerf.train.character import fit_character
from dofnerf.train.learner import Learner
from dofnerf.train.loop import NullRecorder

WIDTH, HEIGHT, FOCAL, NEAR, FAR = 96, 64, 60.0, 2.0, 6.0
TRUTH = RealLens(6, 0.0, 1.0, (0.5, 0.0), 0.3, rotation=math.radians(20))

FEW = {"splats": 200, "pinhole_steps": 2, "lens_steps": 2, "sub_aperture_steps": 2, "degree": 0}


def grid(side=401):
    """Points evenly over a square around the lens, and which of them lie on it."""
    x = torch.linspace(-1, 1, side, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(x, x, indexing="xy"), dim=-1)
    return points, points.norm(dim=-1) <= 1


def test_a_cats_eye_has_the_area_of_two_circles():
    """The lens that two circles of radius 1 at distance d have in common: 2 acos(d/2) − d/2 √(4 − d²)."""
    points, _ = grid()
    for angle in (0.0, 0.4, 0.9):
        shift = 1.5 * angle
        open_ = RealLens(cats_eye=1.5).weight(points, torch.tensor([angle, 0.0]))
        wanted = 2 * math.acos(shift / 2) - shift / 2 * math.sqrt(4 - shift**2)
        assert float(open_.mean()) * 4 == pytest.approx(wanted, rel=0.01)
    # What is seen at the right loses the side of the opening that is at the right, behind a rim in front of it.
    weight = RealLens(cats_eye=1.5).weight(torch.tensor([[0.9, 0.0], [-0.9, 0.0]]), torch.tensor([0.5, 0.0]))
    assert weight.tolist() == [0.0, 1.0]


def test_a_profile_moves_light_and_keeps_its_sum():
    points, inside = grid()
    for profile in ((0.5, 0.0), (-0.5, 0.2)):
        weight = RealLens(profile=profile).weight(points, torch.zeros(2))[inside]
        assert float(weight.mean()) == pytest.approx(1.0, abs=0.02)
        rim, middle = weight[points[inside].norm(dim=-1) > 0.9].mean(), weight[points[inside].norm(dim=-1) < 0.1].mean()
        assert (rim > middle) == (profile[0] > 0)


def test_blades_are_the_polygons_and_round_to_a_disc():
    points, _ = grid(201)
    polygon = Blades(5, rotation=0.3).weight(points, torch.zeros(2))
    assert torch.equal(RealLens(5, rotation=0.3).weight(points, torch.zeros(2)), polygon)
    assert torch.allclose(
        RealLens(5, 1.0, rotation=0.3).weight(points, torch.zeros(2)), DISC.weight(points, torch.zeros(2))
    )


def test_weights_of_parts_are_means_over_them():
    """Interpolated over the picture, and against single directions."""
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(7, 5, 2, generator=generator) * 1.4 - 0.7
    camera = Camera(np.eye(4)[:3], FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
    tangents = torch.from_numpy(camera.tangents()).float()
    found = part_weights(RealLens(cats_eye=1.0, profile=(0.3, 0.1)), points, tangents)
    assert found.shape == (7, HEIGHT, WIDTH)
    for row, column in ((0, 0), (HEIGHT - 1, WIDTH - 1)):
        alone = RealLens(cats_eye=1.0, profile=(0.3, 0.1)).weight(points, tangents[row, column]).mean(1)
        assert torch.allclose(found[:, row, column], alone, atol=1e-5)


def test_a_pupil_is_a_camera_that_moved_along_its_axis():
    """A cat's eye, from a camera at the diaphragm, and from one before it whose focal length keeps the focal plane in
    place: a ray meets the two at places of the lens that differ by the distance times its slope."""
    learner, data = world(None)
    camera, radius, focus = data.cameras[0], 0.3, FAR
    ahead = 0.5 * radius
    other = zoomed(moved(camera, np.zeros(3), ahead * camera.forward), (focus - ahead) / focus)

    def picture(camera, distance, pupil):
        shape = RealLens(cats_eye=1.0, pupil=pupil)
        lens = Lens(radius * camera.fx, focus_disparity=1 / distance, shape=shape)
        with torch.no_grad():
            return learner.model.picture(camera, lens, degree=0, parts=217).image

    true = picture(camera, focus, 0.0)
    off, without = ((picture(other, focus - ahead, p) - true)[8:-8, 8:-8].square().mean() for p in (0.5, 0.0))
    assert off < 0.1 * without


@pytest.mark.parametrize(
    "shape", [RealLens(profile=(0.5, 0.1)), RealLens(profile=(-0.5, 0.0)), RealLens(6, rotation=0.3)]
)
def test_few_parts_have_the_variance_of_the_lens(shape):
    """Against points all over it; parts of a disc are up to 20 % off."""
    points, inside = grid()
    weight = shape.weight(points, torch.zeros(2))[inside]
    true = float((weight * points[inside].square().sum(-1)).sum() / weight.sum() / 2)
    for count in (4, 8, 61):
        spread = points_of_parts(count, 0.1)
        shares = part_weights(shape, spread, torch.zeros(1, 1, 2)).flatten()
        parts = as_lit(sub_apertures(count, 0.1), shape, spread)
        second = [(part.x**2 + part.y**2) / 2 + part.radius**2 / 4 for part in parts]
        assert float(shares @ torch.tensor(second) / shares.sum()) == pytest.approx(true, rel=0.07)


def world(shape, noise=0.004):
    """Cards of coloured noise at three depths, photographed through a lens of that shape; and the true learner."""
    rng, places = np.random.default_rng(0), []
    cameras = [
        Camera(np.eye(4)[:3] + 0.1 * i * np.eye(3, 4, 3), FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
        for i in range(3)
    ]
    for depth, columns in ((NEAR, (-10, 40)), (3.0, (36, 70)), (FAR, (60, WIDTH + 10))):
        pixels = np.stack(np.meshgrid(np.arange(*columns, 3) + 1.0, np.arange(-9, HEIGHT + 9, 3) + 1.0), -1).reshape(
            -1, 2
        )
        places.append(
            (cameras[0].unproject(pixels, np.full(len(pixels), depth)), np.full(len(pixels), 1.8 * depth / FOCAL))
        )
    points, sizes = (torch.from_numpy(np.concatenate(part)).float() for part in zip(*places, strict=True))
    colours = torch.from_numpy(rng.choice([0.05, 0.3, 0.95], (len(points), 3))).float()
    model = begin_splats(points, colours, sizes, 0, 2.2)
    with torch.no_grad():
        model.opacity_logits.fill_(4.0)
    aperture, frames = 30.0, []
    for i, camera in enumerate(cameras):
        lens = Lens(aperture, focus_disparity=1 / (NEAR if i % 2 else FAR), shape=shape)
        with torch.no_grad():
            image = model.picture(camera, lens, degree=0, parts=217, turn=0.3).image.numpy()
        frames.append(
            Frame(f"{i}", camera, InMemory(image + noise * rng.standard_normal(image.shape).astype(np.float32)))
        )
    place = Scene("cards", "test", tuple(frames), NEAR, FAR, (0, 1, 2), ())
    made = preset("fast", "splat").changed({"method": {"splats": 10, "degree": 0}})
    setting = Setting.of(place)
    learner = Learner(made, setting, model)
    with torch.no_grad():
        learner.lens.raw_aperture.copy_(torch.logit(1.04 * aperture / learner.lens.max_aperture).expand(3))
        low, high = learner.lens.focus_range
        focus = torch.tensor([1 / FAR, 1 / NEAR, 1 / FAR])
        learner.lens.raw_focus.copy_(torch.logit((focus - low) / (high - low)))
    return learner, training_data(place, "given", torch.device("cpu"))


def test_a_known_character_is_found_again(monkeypatch):
    monkeypatch.setattr(character, "_BLADES", (5, 6))
    learner, data = world(replace(TRUTH, pupil=0.0))
    found = fit_character(learner, data)
    assert found.pays and found.shape.blades == 6
    assert found.shape.cats_eye == pytest.approx(1.0, rel=0.1)
    assert found.shape.profile[0] == pytest.approx(0.5, rel=0.1)
    turn = math.degrees(found.shape.rotation - TRUTH.rotation) % 60
    assert min(turn, 60 - turn) < 4
    assert found.factor == pytest.approx(1 / 1.04, rel=0.02) and abs(found.shape.pupil) < 0.1


def test_a_cats_eye_is_found_where_cameras_stand_between_its_circles(monkeypatch):
    monkeypatch.setattr(character, "_BLADES", ())
    shape = replace(TRUTH, blades=0, rotation=0.0)
    learner, data = world(shape)
    found = fit_character(learner, data)
    assert found.pays and found.shape.cats_eye == pytest.approx(shape.cats_eye, rel=0.1)
    assert found.shape.pupil == pytest.approx(shape.pupil, abs=0.1)


def test_a_disc_stays_one(monkeypatch):
    monkeypatch.setattr(character, "_BLADES", (6,))
    learner, data = world(None)
    assert not fit_character(learner, data).pays


class Blocks:
    """A fit whose trials are as good as their number of blades says: `errors` of the blocks, by number."""

    def __init__(self, errors):
        self.errors = errors

    def refined(self, trial, which, rounds=5):
        return trial

    def error(self, trial):
        return 0.0

    def blocks(self, trial):
        return self.errors[trial.blades]


def test_blades_stay_until_another_number_is_clearly_better():
    noise = torch.randn(6, 200, generator=torch.Generator().manual_seed(0))
    numbers = (0, 5, 6, 7, 8, 9)
    alike = {one: 1.0 + 0.1 * noise[k] for k, one in enumerate(numbers)}
    clear = alike | {7: alike[7] - 0.5}
    round_, six = (character.Trial(np.zeros(8), blades) for blades in (0, 6))
    for errors, now, wanted in ((alike, round_, 0), (alike, six, 6), (clear, round_, 7), (clear, six, 7)):
        assert character.with_blades(Blocks(errors), round_, now).blades == wanted


def test_cameras_are_adjusted_to_what_is_seen_through_the_lens_as_it_is():
    learner, data = world(TRUTH)
    learner.progress.step = learner.config.method.total

    def off(shape):
        learner.lens.shape = shape
        with torch.no_grad():
            shown = loop._as_photo(learner, 0, 1.0, data.cameras[0]).image
        return float((shown - data.photos[0]).square().mean())

    assert off(TRUTH) < 0.2 * off(None)


def test_a_run_keeps_its_character_and_renders_by_it():
    learner, _ = world(TRUTH)
    learner.lens.shape = TRUTH
    learner.progress.step = learner.config.method.total
    again = checkpoint.unpack(checkpoint.pack(learner))
    assert again.lens.shape.tensor().tolist() == pytest.approx(TRUTH.tensor().tolist())
    run = Run(again)
    assert run.lenses[0].shape == again.lens.shape and run.optics.shape == again.lens.shape


def test_your_lens_is_offered_where_pictures_are_taken(tmp_path, monkeypatch):
    run = train(scene(), preset("fast", "splat").changed({"method": FEW}), out=tmp_path / "run", keep=QUIET)
    camera, opening = run.views[0].camera, 3.0
    monkeypatch.chdir(tmp_path)
    shot = ["render", "run", "--view", "0", "--aperture", str(opening), "--focus", str(NEAR), "--shape", "learned"]
    assert main([*shot, "--out", "none.png"]) == 2  # nothing was learned yet
    run.lens.shape = TRUTH
    (tmp_path / "run" / checkpoint.FILE).write_bytes(checkpoint.pack(run.learner))
    assert main([*shot, "--out", "yours.png"]) == 0
    wanted = run.render(camera, opening, NEAR, TRUTH).image.clamp(0, 1).numpy()
    assert np.abs(read_image("yours.png") - wanted).max() < 0.6 / 255
    single = ["export", "run", "--html", "--single-view", "--view", "0", "--shape", "learned", "--out", "one.html"]
    assert main(single) == 0 and '"Your lens"' in (tmp_path / "one.html").read_text(encoding="utf-8")
    assert main(["export", "run", "--html", "--out", "scene.html"]) == 0
    page = (tmp_path / "scene.html").read_text(encoding="utf-8")
    assert '"Your lens"' in page and '"character":[1.0,0.5,0.0,0.3]' in page.replace(", ", ",").replace('": ', '":')


def test_a_character_that_is_dropped_takes_its_apertures_along(monkeypatch):
    run = train(scene(), preset("fast", "splat").changed({"method": FEW}), keep=QUIET)
    before, looks = run.lens.aperture.clone(), iter([(1.2, 1.0, 0.5), (1.2, 1 / 1.2, 1.0)])  # factors, error after it

    def fit(*_):
        factor, disc_factor, after = next(looks)
        return character.Found(TRUTH, factor, disc_factor, 1.0, after)

    monkeypatch.setattr(loop, "fit_character", fit)
    loop.find_character(run.learner, None, NullRecorder())
    torch.testing.assert_close(run.lens.shape.tensor(), TRUTH.tensor())
    torch.testing.assert_close(run.lens.aperture, 1.2 * before)
    loop.find_character(run.learner, None, NullRecorder())
    assert run.lens.shape is None
    torch.testing.assert_close(run.lens.aperture, before)
