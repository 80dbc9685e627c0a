"""Every format gives the same world: poses, photos, points and protocol."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import small_scenes as small
from PIL import Image

from dofnerf import scenes
from dofnerf.optics import PINHOLE, Lens
from dofnerf.scenes.source import resize


@pytest.mark.parametrize("make", [small.llff, small.transforms, small.colmap, small.triplets])
def test_every_format_gives_the_same_cameras(tmp_path: Path, make) -> None:
    scene = scenes.load(make(tmp_path), mix="auto")
    poses, points = small.world()
    assert len(scene) == small.COUNT and scene.size == (small.WIDTH, small.HEIGHT)
    for i, pose in enumerate(poses):
        np.testing.assert_allclose(scene.camera(i).camera_to_world, pose, atol=1e-9)
        np.testing.assert_allclose(scene.camera(i).project(points)[0], small.pixels(pose, points), atol=1e-8)
        photo = scene.photo(i)
        assert photo.shape == (small.HEIGHT, small.WIDTH, 3) and photo.dtype == np.float32
    assert scene.test == (4,) and scene.train == (0, 1, 2, 3, 5)


def test_formats_are_found_by_looking(tmp_path: Path) -> None:
    makers = {"llff": small.llff, "transforms": small.transforms, "colmap": small.colmap, "triplets": small.triplets}
    makers["lightfield"] = small.lightfield
    for name, make in makers.items():
        root = make(tmp_path / name) if name == "lightfield" else make(_folder(tmp_path / name))
        assert scenes.detect(root) == name
        assert "\n" not in scenes.load(root).describe()
    with pytest.raises(ValueError, match="not a scene"):
        scenes.load(_folder(tmp_path / "empty"))
    with pytest.raises(ValueError, match="unknown format"):
        scenes.load(tmp_path / "llff", format="word")
    with pytest.raises(FileNotFoundError, match="no such scene"):
        scenes.load(tmp_path / "nowhere")


def test_colmap_text_binary_and_points(tmp_path: Path) -> None:
    binary = scenes.load(small.colmap(_folder(tmp_path / "b")))
    text = scenes.load(small.colmap(_folder(tmp_path / "t"), text=True))
    _, points = small.world()
    for scene in (binary, text):
        np.testing.assert_allclose(scene.points.xyz, points, atol=1e-12)
        seen = scene.visible(2)
        assert len(seen.depth) == len(points) and seen.error.max() < 1e-6
        np.testing.assert_allclose(seen.pixels, small.pixels(small.world()[0][2], points), atol=1e-8)
        assert scene.near < seen.depth.min() * 1.1 and scene.far > 0.9 * seen.depth.max()


def test_several_cameras_and_unposed_photos(tmp_path: Path) -> None:
    root = small.colmap(tmp_path, text=True)
    cameras = root / "sparse/0/cameras.txt"
    cameras.write_text(cameras.read_text() + f"2 PINHOLE {small.WIDTH} {small.HEIGHT} 40 41 12 8\n")
    images = root / "sparse/0/images.txt"
    images.write_text(images.read_text().replace(" 1 photo_3", " 2 photo_3"))
    small.picture(root / "images/unposed.png", 0)
    scene = scenes.load(root)
    assert (scene.camera(3).fx, scene.camera(3).fy) == (40, 41) and scene.camera(2).fx == small.FOCAL
    assert "1 of 7 files" in scene.notes[0]


def test_llff_honours_each_focal_length_and_size(tmp_path: Path) -> None:
    root = small.llff(tmp_path, ("images_4",))
    table = np.load(root / "poses_bounds.npy")
    table[:, [4, 9, 14]] *= 4
    table[2, 14] *= 1.1
    np.save(root / "poses_bounds.npy", table)
    scene = scenes.load(root)
    assert scene.camera(1).fx == pytest.approx(small.FOCAL) and scene.camera(2).fx == pytest.approx(1.1 * small.FOCAL)


def test_downscale_makes_missing_sizes_and_leaves_the_folder_alone(tmp_path: Path) -> None:
    root = small.llff(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    scene = scenes.load(root, downscale=2)
    assert scene.size == (12, 8) and scene.photo(0).shape == (8, 12, 3)
    assert scene.camera(0).fx == pytest.approx(small.FOCAL / 2)
    assert sorted(tmp_path.rglob("*")) == before
    scenes.load(root, downscale=2, save_resized=True)
    assert len(list((root / "images_2").iterdir())) == small.COUNT
    again = scenes.load(root, downscale=2)
    assert "images_2" in again.frames[0].photo.label
    np.testing.assert_allclose(again.photo(3), scene.photo(3), atol=0.5 / 255 + 1e-6)
    assert scenes.load(root, width=6).size == (6, 4)
    with pytest.raises(ValueError, match="not enlarged"):
        scenes.load(root, width=48)


def test_resizing_is_in_linear_light_and_does_not_alias() -> None:
    stripes = np.zeros((64, 64, 3), dtype=np.float32)
    stripes[:, ::2] = 1
    grey = resize(stripes, 16, 16)
    np.testing.assert_allclose(grey[4:-4, 4:-4], 0.5 ** (1 / 2.2), atol=0.01)


def _photo(width: int, height: int) -> np.ndarray:
    """What a sensor of that many pixels sees of black and white rings: means of linear light over its pixels."""
    fine = 16
    y, x = np.mgrid[: fine * height, : fine * width].astype(np.float32) + 0.5
    y, x = y / (fine * height), 1.5 * x / (fine * width)
    rings = (np.hypot(x - 0.7, y - 0.4) * 9 % 1 > 0.5).astype(np.float32)
    light = rings.reshape(height, fine, width, fine).mean((1, 3)) * 0.9 + 0.02
    return np.repeat(light[..., None] ** np.float32(1 / 2.2), 3, axis=-1)


@pytest.mark.parametrize(("size", "least"), [((242, 161), 30), ((170, 113), 29), ((126, 84), 50), ((97, 65), 28)])
def test_a_resized_photo_is_what_a_smaller_sensor_sees(size, least) -> None:
    found, true = resize(_photo(252, 168), *size), _photo(*size)
    assert -10 * np.log10(np.square(found - true).mean()) > least
    energy = [np.square(np.diff(picture, axis=0)).mean() for picture in (found, true)]
    assert energy[0] / energy[1] == pytest.approx(1, abs=0.1)


def test_triplets_and_the_mixes(tmp_path: Path) -> None:
    root = small.transforms(tmp_path)
    even_odd = {
        "auto": ("near", "far"),
        "near-far": ("near", "far"),
        "far-near": ("far", "near"),
        "aperture": ("near", "sharp"),
    }
    even_odd |= {which: (which, which) for which in ("near", "far", "sharp")}
    for mix, pattern in even_odd.items():
        scene = scenes.load(root, mix=mix)
        for i, frame in enumerate(scene.frames):
            assert frame.photo == getattr(frame, pattern[i % 2]), mix
            expected = {"near": Lens(2.0 + i, 3.5), "far": Lens(2.0 + i, 4.5), "sharp": PINHOLE}[pattern[i % 2]]
            assert scene.lens(i) == expected
    assert scenes.load(root, mix="photo").lens(0) == Lens(3.0, math.inf)
    coins = [scenes.load(root, mix="random", seed=s).lens(0).focus_depth for s in range(12)]
    assert set(coins) == {3.5, 4.5}
    one = scenes.load(root, mix="random", seed=5)
    assert sum(frame.photo == frame.near for frame in one.frames) == small.COUNT // 2
    with pytest.raises(ValueError, match="no near photo"):
        scenes.load(small.llff(_folder(tmp_path / "llff")), mix="near")


def test_splits_and_choice_of_views(tmp_path: Path) -> None:
    root = small.llff(tmp_path)
    assert scenes.load(root, hold_out=(1, 5)).test == (1, 5)
    assert scenes.load(root, hold_every=2, hold_first=1).test == (1, 3, 5)
    assert scenes.load(root, hold_every=0).test == ()
    some = scenes.load(root, which_frames=(5, 0, 2), hold_every=0)
    assert [frame.name for frame in some.frames] == ["photo_5", "photo_0", "photo_2"]
    for bad in ({"hold_out": (6,)}, {"which_frames": (-1,)}, {"hold_every": 1}, {"hold_out": tuple(range(6))}):
        with pytest.raises(ValueError):
            scenes.load(root, **bad)


def test_blender_flavour(tmp_path: Path) -> None:
    poses, _ = small.world()
    for part, some in (("train", range(4)), ("test", range(4, 6))):
        frames = []
        for i in some:
            (tmp_path / part).mkdir(exist_ok=True)
            Image.new("RGBA", (small.WIDTH, small.HEIGHT), (200, 0, 0, 128)).save(tmp_path / part / f"r_{i}.png")
            frames.append(
                {
                    "file_path": f"./{part}/r_{i}",
                    "transform_matrix": [*poses[i].tolist(), [0, 0, 0, 1]],
                    "rotation": 0.1,
                }
            )
        angle = 2 * math.atan(small.WIDTH / 2 / small.FOCAL)
        (tmp_path / f"transforms_{part}.json").write_text(json.dumps({"camera_angle_x": angle, "frames": frames}))
    scene = scenes.load(tmp_path)
    assert scene.train == (0, 1, 2, 3) and scene.test == (4, 5)
    assert scene.camera(0).fx == pytest.approx(small.FOCAL)
    assert 1.9 < scene.near < 2.1 and 5.8 < scene.far < 6.2 and "guess" in scene.notes[0]
    alpha = 128 / 255
    np.testing.assert_allclose(scene.photo(0)[0, 0], [200 / 255 * alpha + 1 - alpha, 1 - alpha, 1 - alpha], atol=1e-6)
    assert scenes.load(tmp_path / "transforms_train.json").test == ()


def test_nerfstudio_and_ngp_flavours(tmp_path: Path) -> None:
    root = small.transforms(tmp_path, lens=False)
    data = json.loads((root / "transforms.json").read_text())
    for key in ("w", "h", "fl_x", "near", "far"):
        data.pop(key)
    data |= {
        "camera_model": "OPENCV",
        "aabb_scale": 16,
        "train_filenames": [f["file_path"] for f in data["frames"][:4]],
    }
    for i, frame in enumerate(data["frames"]):
        frame |= {"fl_x": 60.0 + i, "fl_y": 62.0, "cx": 25.0, "cy": 15.0, "w": 48, "h": 32, "sharpness": 3.1}
    (root / "transforms.json").write_text(json.dumps(data))
    camera = scenes.load(root).camera(3)
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == (31.5, 31, 12.5, 7.5)
    assert scenes.load(root).test == (4, 5) and scenes.load(root, hold_every=3).test == (4,)


def test_transforms_round_trip(tmp_path: Path) -> None:
    for name, make in (("t", small.transforms), ("c", small.colmap)):
        scene = scenes.load(make(_folder(tmp_path / name)), hold_out=(0, 3))
        again = scenes.load(scenes.write_transforms(scene, tmp_path / f"{name}2"))
        assert (again.near, again.far, again.train, again.test) == (scene.near, scene.far, scene.train, scene.test)
        for i in range(len(scene)):
            np.testing.assert_array_equal(again.camera(i).camera_to_world, scene.camera(i).camera_to_world)
            assert again.camera(i).fx == scene.camera(i).fx and again.lens(i) == scene.lens(i)
            np.testing.assert_allclose(again.photo(i), scene.photo(i), atol=1e-6)
            for get in (scenes.Scene.sharp, scenes.Scene.depth):
                assert (get(again, i) is None) == (get(scene, i) is None)
            if scene.sharp(i) is not None:
                np.testing.assert_allclose(again.sharp(i), scene.sharp(i), atol=1e-6)
                np.testing.assert_array_equal(again.depth(i), scene.depth(i))
            assert again.frames[i].bounds == scene.frames[i].bounds
            for ours, theirs in zip(again.visible(i), scene.visible(i), strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-4)
        with pytest.raises(FileExistsError):
            scenes.write_transforms(again, tmp_path / f"{name}2")


def test_lens_scales_with_the_photo(tmp_path: Path) -> None:
    scene = scenes.load(small.transforms(tmp_path), width=12)
    assert scene.lens(0) == Lens(1.0, 3.5)
    assert scene.depth(0).shape == (8, 12) and scene.depth(2)[0, 0] == 5.0


def test_a_tall_cache_forgets(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("dofnerf.scenes.scene.CACHE_BYTES", 3 * small.WIDTH * small.HEIGHT * 3)
    scene = scenes.load(small.llff(tmp_path))
    for i in range(small.COUNT):
        first, again = (scene.compact(i, scene.frames[i].photo) for _ in range(2))
        assert first is again and first.dtype == np.uint8
        np.testing.assert_array_equal(scene.photo(i), first.astype(np.float32) / 255)
    assert len(scene._cache) == 3


def test_demo_scene_or_a_clear_error() -> None:
    if (scenes.DEMO / "transforms.json").is_file():
        assert len(scenes.demo()) > 10
    else:
        with pytest.raises(FileNotFoundError, match="demo scene"):
            scenes.demo()


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_the_packaged_scene_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert scenes.load("demo", width=84).describe() == scenes.demo(width=84).describe()
    (tmp_path / "demo").mkdir()
    with pytest.raises(ValueError, match="not a scene"):
        scenes.load("demo")
    (tmp_path / "demo" / "a.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="photos without poses; `dofnerf capture demo`"):
        scenes.load("demo")
