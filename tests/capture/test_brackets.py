"""Focus brackets: found by features, times or sub-folders; one pose each, and a focal length for each photo."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFilter
from small_photos import FOCAL, place

from dofnerf.capture import CaptureOptions, capture
from dofnerf.capture.brackets import find_brackets, is_one_burst, is_one_place
from dofnerf.capture.inputs import list_files
from dofnerf.files.pictures import to_bytes
from dofnerf.scenes import describe
from dofnerf.scenes.exif import read_exif
from oracles.poses import align
from painted import BOARD, paint

BREATHES = 1.03


def focused(camera, near):
    """The painted world with the wall, or the board, a little blurred."""
    sharp = Image.fromarray(to_bytes(paint(camera)))
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    pixels = np.stack([columns.ravel(), rows.ravel()], axis=-1)
    way = camera.unproject(pixels, np.ones(len(pixels))) - camera.position
    at = camera.position + way * ((-BOARD - camera.position[2]) / way[:, 2])[:, None]
    board = ((np.abs(at[:, 0]) < 0.5) & (np.abs(at[:, 1]) < 0.4)).reshape(rows.shape)
    soft = sharp.filter(ImageFilter.GaussianBlur(1.0))
    return np.where((board == near)[..., None], np.asarray(sharp), np.asarray(soft))


def test_capture_of_brackets(tmp_path):
    if importlib.util.find_spec("pycolmap") is None:
        pytest.skip("needs pycolmap: pip install 'dofnerf[capture]'")
    cameras = []
    (tmp_path / "photos").mkdir()
    for i in range(5):
        for near in (True, False):
            one = place(i)
            one = replace(one, fx=one.fx * BREATHES, fy=one.fy * BREATHES) if near else one
            cameras.append(one)
            exif = Image.Exif()
            exif.get_ifd(0x8769)[0x9003] = f"2026:11:18 05:{10 + i}:0{int(near)}"
            Image.fromarray(focused(one, near)).save(tmp_path / "photos" / f"{i}{'ba'[near]}.png", exif=exif)
    scene = capture(tmp_path / "photos", tmp_path / "scene", CaptureOptions(attempts=1, hold_every=4))
    assert [len(views) for views in scene.brackets().values()] == [2] * 5 and len(scene) == 10
    assert "5 focus brackets of 2 photos" in describe(scene)
    for one, other in scene.brackets().values():
        np.testing.assert_allclose(scene.camera(one).camera_to_world, scene.camera(other).camera_to_world, atol=1e-9)
    assert scene.test == (8, 9)  # the fifth place, whole
    found, true = (np.stack([c.position for c in some]) for some in ([f.camera for f in scene.frames], cameras))
    scale, turn, shift = align(found, true)
    off = np.linalg.norm(scale * found @ turn.T + shift - true, axis=1)
    assert off.max() < 0.02 * np.linalg.norm(np.ptp(true, axis=0))
    longer = [scene.camera(a).fx / scene.camera(b).fx for a, b in scene.brackets().values()]
    assert np.median(longer) == pytest.approx(BREATHES, abs=0.006)
    assert scene.camera(1).fx == pytest.approx(FOCAL, rel=0.03)


def test_one_place_or_two():
    rng = np.random.default_rng(0)
    features, depth = rng.uniform(-400, 400, (80, 2)), rng.uniform(2, 5, 80)
    noise = rng.normal(0, 0.3, (80, 2))
    breathing = 1.04 * features + (3, -2) + noise
    assert is_one_place(features, breathing, 800)
    breathing[:10] += 50  # wrong matches
    assert is_one_place(features, breathing, 800)
    moved = features + np.stack([20 / depth, 0 * depth], axis=1) + noise  # parallax of 2 to 10 pixels
    assert not is_one_place(features, moved, 800)
    assert not is_one_place(features, features + 40, 800) and not is_one_place(features, 1.3 * features, 800)
    assert not is_one_place(features[:10], features[:10], 800) and not is_one_place(0 * features, 0 * features, 800)


def test_brackets_are_linked_photos_and_sub_folders():
    linked = {("a", "b"), ("b", "c"), ("x", "y")}
    pairs = [("a", "b"), ("b", "c"), ("a", "x"), ("x", "y")]
    found = find_brackets(list("abcxyz"), pairs, {}, lambda one, other: (one, other) in linked)
    assert found == [["a", "b", "c"], ["x", "y"]]
    placed = find_brackets(list("abcxyz"), pairs, dict.fromkeys("az", "1") | {"b": "2"}, lambda one, other: True)
    assert placed == [["a", "z"], ["x", "y"]]
    early, late = ({"camera": "M", "taken": taken} for taken in (100.0, 200.0))
    assert not is_one_burst(early, late) and is_one_burst(early, early | {"taken": 101.5})
    assert not is_one_burst(early, early | {"camera": "N"}) and is_one_burst(early, late | {"taken": None})


def test_sub_folders_are_places(tmp_path):
    for folder, names in {"one": ("1.jpg", "2.jpg"), "two": ("3.jpg",), "masks": ("1.jpg",)}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    found = list_files(tmp_path)
    assert [(path.name, place) for path, place in found.places.items()] == [
        ("1.jpg", "one"),
        ("2.jpg", "one"),
        ("3.jpg", "two"),
    ]
    (tmp_path / "two" / "1.jpg").touch()
    with pytest.raises(ValueError, match="two of its sub-folders hold a photo called 1"):
        list_files(tmp_path)


def test_when_a_photo_was_taken(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(0x8769).update({0x9003: "1970:01:02 00:00:01", 0x9291: "25"})
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert read_exif(tmp_path / "a.jpg").taken == 86401.25
    exif.get_ifd(0x8769)[0x9003] = "yesterday"
    Image.new("RGB", (8, 8)).save(tmp_path / "b.jpg", exif=exif)
    assert read_exif(tmp_path / "b.jpg").taken is None
