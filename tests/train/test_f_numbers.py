"""What EXIF says about the lens: read from real files, shared by --share-aperture exif, and written beside what was
learned."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_world import QUIET, config, scene

from dofnerf import scenes
from dofnerf.files import write_image
from dofnerf.models.data import Setting, aperture_groups, f_numbers
from dofnerf.optics import LearnedLens
from dofnerf.scenes.exif import Exif
from dofnerf.scenes.source import PictureFile
from dofnerf.train import train
from dofnerf.train.photos.exposure import ExposureConfig, PhotoExposure
from dofnerf.train.photos.lens import PhotoLens
from dofnerf.train.scale import photo_optics, scale_by_exif

F_NUMBER = 0x829D
NAMED = (1.8, 4.0, None, 1.8, 4.0)  # photo 3 is held out


@pytest.fixture
def folder(tmp_path):
    """The tiny world on disk, its photos as JPEG with (or without) an f-number in EXIF."""
    root = tmp_path / "scene"
    scenes.write_transforms(scene(), root)
    words = (root / "transforms.json").read_text()
    for path, value in zip(sorted((root / "images").glob("*.png")), NAMED, strict=True):
        exif = Image.Exif()
        if value is not None:
            exif.get_ifd(0x8769)[F_NUMBER] = value
        with Image.open(path) as picture:
            picture.save(path.with_suffix(".jpg"), exif=exif, quality=95)
        path.unlink()
        words = words.replace(f"images/{path.name}", f"images/{path.stem}.jpg")
    (root / "transforms.json").write_text(words)
    return root


def lens_rows(run):
    with open(run.folder / "lens.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_photos_of_one_f_number_share_an_aperture(folder, tmp_path):
    world = scenes.load(folder, hold_out=(3,))
    assert f_numbers(world) == [1.8, 4.0, None, 4.0]
    run = train(
        world, config((2, 3, 2), share_aperture="exif", search=False, refits=()), out=tmp_path / "run", keep=QUIET
    )
    rows = lens_rows(run)
    assert [row["f_number_exif"] for row in rows] == ["1.8", "4.0", "", "4.0"]
    aperture = np.array([float(row["aperture"]) for row in rows])
    assert aperture[1] == aperture[3]
    assert len(set(aperture)) == 3, "photos of another f-number, and those that name none, have their own"
    assert len({row["focus_depth"] for row in rows}) == 4
    for row, focal in zip(rows, run.setting.focal, strict=True):
        assert float(row["lens_radius"]) == pytest.approx(float(row["aperture"]) / focal)


def test_smaller_photos_keep_the_f_number(folder):
    assert f_numbers(scenes.load(folder, width=12, hold_out=(3,))) == [1.8, 4.0, None, 4.0]
    # Smaller copies have no EXIF; the photo of the same name that they were made from has.
    world = scenes.load(folder, hold_out=(3,))
    copies = [PictureFile(folder / "images_2" / f"{Path(frame.name).stem}.png", 12, 10) for frame in world.frames]
    for i, copy in enumerate(copies):
        write_image(copy.path, scenes.load(folder, width=12).photo(i))
    frames = tuple(replace(frame, photo=copy) for frame, copy in zip(world.frames, copies, strict=True))
    assert f_numbers(replace(world, frames=frames)) == [1.8, 4.0, None, 4.0]


def test_exposures_and_focal_lengths_are_those_of_the_files(folder, tmp_path):
    """A transforms.json as others write it says nothing of EXIF: the photos do."""
    for i, path in enumerate(sorted((folder / "images").glob("*.jpg"))):
        exif = Image.Exif()
        exif.get_ifd(0x8769).update({F_NUMBER: 4.0, 0x829A: 0.01 * 2**i, 0x8827: 200, 0x920A: 35.0})
        with Image.open(path) as picture:
            picture.save(path, exif=exif, quality=95)
    world = scenes.load(folder)
    setting = Setting.of(world)
    assert setting.focal_mm == (35.0,) * 4
    stops = PhotoExposure.make(ExposureConfig(exposure=True), setting).log_gain.detach()[:, 1] / math.log(2)
    np.testing.assert_allclose(stops - stops[0], [i - world.train[0] for i in world.train], atol=1e-5)
    words = scenes.describe(world) + scenes.describe_photos(world)
    assert "f/4 (5), exposure differs by up to 4.0 stops" in words
    assert "f/4, 1/100 s, ISO 200" in words and "f/4, 1/50 s, ISO 200" in words
    assert scenes.load(scenes.write_transforms(world, tmp_path / "copy")).exif(1) == world.exif(1)


def test_without_exif_the_column_is_empty(tmp_path):
    run = train(scene(), config((2, 2, 0), search=False), out=tmp_path / "run", keep=QUIET)
    assert [row["f_number_exif"] for row in lens_rows(run)] == [""] * 4


def test_an_f_number_of_nothing_is_none(folder):
    path = folder / "images" / "view-0.jpg"
    exif = Image.Exif()
    exif.get_ifd(0x8769)[F_NUMBER] = 0.0
    with Image.open(path) as picture:
        picture.load()
        picture.save(path, exif=exif)
    world = scenes.load(folder, hold_out=(3,))
    assert f_numbers(world)[0] is None
    assert len(set(aperture_groups(world, "exif"))) == 3


def test_the_scale_is_where_learned_apertures_match_exif():
    """Lens radii by EXIF are 25 mm / (2 · 2.5) = 5 mm; one photo is off by 10 %, one is sharp, one does not say."""
    world = scene()
    told = [Exif(f_number=2.5, focal_length=25.0)] * 3 + [None, None]
    frames = tuple(replace(frame, exif=one) for frame, one in zip(world.frames, told, strict=True))
    setting = Setting.of(replace(world, frames=frames, train=(0, 1, 2, 3, 4), test=()))
    assert setting.focal_mm == (25.0, 25.0, 25.0, None, None)
    far, near = setting.disparities
    radii = np.array([1.0, 1.1, 1.0, 2.0, 1e-4]) * 2 / (near - far) / setting.focal[0]  # of two pixels of blur
    lens = LearnedLens(5, 1 / near, 1 / far, aperture=list(radii * setting.focal))
    found = photo_optics(setting, lens)
    assert found.scale.metres == pytest.approx(0.005 / radii[0], rel=1e-4)
    assert found.scale.spread == pytest.approx(0.0, abs=1e-4) and found.scale.by == "EXIF"
    assert found.radius == pytest.approx((radii[0] + radii[1]) / 2, rel=1e-4)
    assert found.sensor_width == pytest.approx(25 * setting.size[0] / setting.focal[0])
    words = "1 scene unit = 0.52 m by EXIF, photos differ by 5.7 %"
    assert scale_by_exif([500.0, 520.0, 560.0]).describe() == words
    # What the scene itself says counts more; without a lens nothing else is known.
    measured = photo_optics(replace(setting, metres=2.0), None)
    assert measured.scale.metres == 2 and measured.radius is None
    assert photo_optics(setting, None).scale is None


@pytest.mark.parametrize("size", [(20, 24), (24, 20)])
def test_a_sensor_is_as_wide_as_the_longer_side_of_a_picture(size):
    """The same camera, held upright: the same sensor; a photo whose EXIF does not say its focal length has the same."""
    world = scene(size=size)
    frames = tuple(
        replace(frame, exif=None if i == 2 else Exif(f_number=2.0, focal_length=35.0))
        for i, frame in enumerate(world.frames)
    )
    setting = Setting.of(replace(world, frames=frames))
    assert setting.size == size[::-1]
    found = photo_optics(setting, None)
    assert found.sensor_width == pytest.approx(35 * 24 / 28)
    assert found.focal_mm == pytest.approx((35.0,) * 4)
    assert photo_optics(setting, None, sensor_width=12.0).focal_mm == pytest.approx((12 * 28 / 24,) * 4)
    assert photo_optics(replace(setting, focal_mm=()), None).focal_mm == pytest.approx((36 * 28 / 24,) * 4)


def test_apertures_that_are_not_known_give_no_scale():
    setting = replace(Setting.of(scene(test=())), f_numbers=(2.0,) * 5, focal_mm=(24.0,) * 5)
    far, near = setting.disparities
    lens = LearnedLens(5, 1 / near, 1 / far, aperture=[4.0, 4.0, 40.0, 4.0, 4.0])
    known = photo_optics(setting, lens, [True, True, False, True, True])
    assert known.radius == pytest.approx(4.0 / setting.focal[0], rel=1e-4) and known.scale.spread < 1e-4
    assert photo_optics(setting, lens, [False, False, True, False, False]).radius == pytest.approx(10 * known.radius)
    untold = photo_optics(setting, lens, [False] * 5)
    assert untold.radius == pytest.approx(known.radius)  # blurred ones, for want of any
    assert untold.scale is None and photo_optics(setting, lens.learn(aperture=False)).scale is None


def test_the_subjects_distance_is_where_focus_starts_once_metres_are_known():
    world = scene()
    frames = tuple(
        replace(frame, exif=Exif(subject_distance=(1.2, None, 4.0, 2.0, 400.0)[i]))
        for i, frame in enumerate(world.frames)
    )
    world = replace(world, frames=frames, metres=0.5, train=(0, 1, 2, 4), test=(3,))
    setting = Setting.of(world)
    assert setting.focuses == (0.5 / 1.2, None, 0.5 / 4, 0.5 / 400)
    far, near = setting.disparities
    start = PhotoLens.make(config().lens, setting).focus_disparity.tolist()
    assert start[0] == pytest.approx(0.5 / 1.2) and start[1] == pytest.approx((far + near) / 2, rel=1e-3)
    assert start[3] == pytest.approx(0.5 / 400, rel=1e-3)  # beyond what is seen
    assert Setting.of(replace(world, metres=None)).focuses == ()
