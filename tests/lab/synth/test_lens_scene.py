"""The scene maker: what it writes, that it resumes, that it refuses. A stand-in draws the pictures, so no Mitsuba
here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.files import image_size, read_map
from dofnerf.lab.synth import lens
from dofnerf.lab.synth.layouts import LAYOUTS, make_layout
from dofnerf.lab.synth.lens import LensSceneConfig, make_lens_scene
from dofnerf.models.data import Setting
from dofnerf.process import interrupted_words, locked

SMALL = LensSceneConfig(views=5, size=(24, 16), samples=1)


class Draughtsman:
    """Stands in for the ray tracer and counts the pictures asked for."""

    photos = 0

    def __init__(self, *_: object) -> None:
        pass

    def photo(self, camera: Camera, lens: object, samples: int, seed: int, shape: object) -> np.ndarray:
        type(self).photos += 1
        return np.random.default_rng(seed).random((camera.height, camera.width, 3), dtype=np.float32)

    def depth(self, camera: Camera) -> np.ndarray:
        return np.full((camera.height, camera.width), np.inf, dtype=np.float32)


@pytest.fixture(autouse=True)
def draughtsman(monkeypatch: pytest.MonkeyPatch) -> type[Draughtsman]:
    Draughtsman.photos = 0
    monkeypatch.setattr(lens, "RayTracer", Draughtsman)
    return Draughtsman


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_triplets(tmp_path: Path) -> None:
    scene = read(make_lens_scene(tmp_path, SMALL, progress=False))
    layout = make_layout(SMALL.layout, SMALL.seed)
    assert (scene["w"], scene["h"], scene["light"]) == (24, 16, 2.2)
    assert scene["near"] < layout.near_focus < layout.far_focus < scene["far"]
    for index, frame in enumerate(scene["frames"]):
        for key in ("sharp_file_path", "near_file_path", "far_file_path"):
            assert image_size(tmp_path / frame[key]) == (24, 16)
        assert frame["file_path"] == frame["far_file_path" if index % 2 else "near_file_path"]
        assert frame["near_lens"] == pytest.approx(
            {"aperture": scene["fl_x"] * layout.lens_radius, "focus_depth": layout.near_focus}
        )
        assert frame["far_lens"]["focus_depth"] == layout.far_focus
        pose = np.array(frame["transform_matrix"])
        assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3)) and np.linalg.det(pose[:3, :3]) == pytest.approx(
            1.0
        )
        depth, _ = read_map(tmp_path / frame["depth_file_path"])
        assert depth.max() <= scene["far"]


def test_mixed_photos_have_lenses_of_their_own(tmp_path: Path) -> None:
    config = LensSceneConfig(views=6, size=(24, 16), samples=1, mixed=True, depth=False, suffix=".jpg")
    scene = read(make_lens_scene(tmp_path, config, progress=False))
    lenses = [frame["lens"] for frame in scene["frames"]]
    assert len({one["aperture"] for one in lenses}) == len({one["focus_depth"] for one in lenses}) == 6
    assert all(scene["near"] < one["focus_depth"] < scene["far"] for one in lenses)
    assert all(
        (tmp_path / frame["file_path"]).suffix == ".jpg" and "near_lens" not in frame for frame in scene["frames"]
    )
    assert not (tmp_path / "depth").exists()


def test_resume_keeps_finished_pictures(tmp_path: Path, draughtsman: type[Draughtsman]) -> None:
    make_lens_scene(tmp_path, SMALL, progress=False)
    assert draughtsman.photos == 15
    victim, kept = tmp_path / "near" / "002.png", tmp_path / "far" / "002.png"
    before, stamp = victim.read_bytes(), kept.stat().st_mtime_ns
    victim.unlink()
    make_lens_scene(tmp_path, SMALL, progress=False)
    assert draughtsman.photos == 16
    assert victim.read_bytes() == before and kept.stat().st_mtime_ns == stamp


def test_what_is_kept_when_stopped_is_said(tmp_path: Path, draughtsman: type[Draughtsman]) -> None:
    whole = draughtsman.photo

    def stopping(self: Draughtsman, *given: object) -> np.ndarray:
        if draughtsman.photos == 3:
            raise KeyboardInterrupt
        return whole(self, *given)

    draughtsman.photo = stopping
    try:
        with pytest.raises(KeyboardInterrupt):
            lens.run(lens.LensCommandConfig(tmp_path / "a", SMALL))
    finally:
        draughtsman.photo = whole
    assert len([*(tmp_path / "a").rglob("*.png")]) == 3
    assert f"kept: {tmp_path / 'a'}" in interrupted_words()


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    with locked(tmp_path / "a"), pytest.raises(ValueError, match="is at work in this folder"):
        lens.run(lens.LensCommandConfig(tmp_path / "a"))


def test_another_scene_in_the_folder_is_refused(tmp_path: Path) -> None:
    make_lens_scene(tmp_path, SMALL, progress=False)
    with pytest.raises(ValueError, match="another seed, layout_digest; choose another folder"):
        make_lens_scene(tmp_path, LensSceneConfig(views=5, size=(24, 16), samples=1, seed=1), progress=False)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("sea")
    with pytest.raises(ValueError, match="not empty"):
        make_lens_scene(tmp_path, SMALL, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.txt"]


@pytest.mark.parametrize(
    "bad",
    [
        {"layout": "moon"}, {"views": 0}, {"size": (4, 4)}, {"size": (64,)}, {"samples": 0}, {"blur": 0.0},
        {"blur": float("nan")}, {"seed": -1}, {"suffix": ".gif"},
    ],
)  # fmt: skip
def test_bad_settings_are_one_line(tmp_path: Path, bad: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))) as caught:
        make_lens_scene(tmp_path / "scene", LensSceneConfig(**bad), progress=False)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "scene").exists()


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_are_seeded_and_sound(name: str) -> None:
    one, again, other = make_layout(name, 0), make_layout(name, 0), make_layout(name, 1)
    assert lens._digest(one) == lens._digest(again) != lens._digest(other)
    for part in one.parts:
        assert np.isfinite(part.mesh.vertices).all() and np.isfinite(part.mesh.uv).all()
        assert part.mesh.faces.min() >= 0 and part.mesh.faces.max() < len(part.mesh.vertices)
        colour = np.asarray(part.material.colour)
        assert colour.min() >= 0 and (part.material.kind == "light" or colour.max() <= 1.3)
    assert one.near < one.near_focus < one.far_focus < one.far
    assert sum(part.material.kind == "light" for part in one.parts) >= 2
    assert any(part.material.kind == "metal" for part in one.parts)


def test_views_of_a_scene_differ_and_look_ahead() -> None:
    layout = make_layout("tabletop", 0)
    cameras, shots = lens.plan(LensSceneConfig(), layout)
    places = np.array([camera.position for camera in cameras])
    assert len(cameras) == 24 and len(shots) == 72
    assert np.ptp(places, axis=0)[0] > 0.6 and np.ptp(places, axis=0)[1] > 0.25
    pixels, depth = zip(*(camera.project(np.array([layout.target])) for camera in cameras), strict=True)
    assert np.min(depth) > layout.near
    assert np.abs(np.concatenate(pixels) - [126, 84]).max() < 30


def test_brackets(tmp_path: Path) -> None:
    config = LensSceneConfig(views=6, size=(24, 16), samples=1, bracket=3)
    scene = scenes.load(make_lens_scene(tmp_path, config, progress=False))
    layout = make_layout(config.layout, config.seed)
    assert len(scene) == 18 and len(scene.brackets()) == 6
    for views in scene.brackets().values():
        assert len({scene.camera(i).camera_to_world.tobytes() for i in views}) == 1
        focus = [scene.lens(i).focus_depth for i in views]
        assert focus[0] == pytest.approx(layout.near_focus) and focus[-1] == pytest.approx(layout.far_focus)
        assert focus[1] == pytest.approx(2 / (1 / focus[0] + 1 / focus[2]))
        assert np.abs(scene.photo(views[0]) - scene.photo(views[1])).max() > 0.1
        assert (scene.sharp(views[0]) == scene.sharp(views[1])).all()
    assert scene.test == (12, 13, 14)  # the fifth place, as a whole
    numbers = Setting.of(scene).brackets
    assert numbers == tuple(np.repeat(range(5), 3)) and Setting.of(scenes.load("demo")).brackets == ()
    assert "6 focus brackets of 3 photos" in scenes.describe(scene)
    again = scenes.load(scenes.write_transforms(scene, tmp_path / "copy"))
    assert again.brackets() == scene.brackets() and again.test == scene.test
