"""The scene inside the package: complete, small, honest, and what its command makes."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dofnerf
from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.files import image_size, read_image, read_map
from dofnerf.lab.synth import lens, package_scene
from dofnerf.lab.synth.layouts import make_layout

PACKAGE = Path(dofnerf.__file__).parent
SCENE = PACKAGE / "scenes" / "demo_scene"
PICTURE = PACKAGE / "files" / "demo"


def scene() -> dict:
    return json.loads((SCENE / "transforms.json").read_text(encoding="utf-8"))


def frame_camera(facts: dict, index: int) -> Camera:
    pose = np.array(facts["frames"][index]["transform_matrix"])[:3]
    return Camera(pose, facts["fl_x"], facts["fl_y"], facts["cx"], facts["cy"], facts["w"], facts["h"])


def test_it_is_whole_and_small() -> None:
    facts = scene()
    assert len(facts["frames"]) == 24
    for frame in facts["frames"]:
        for key in ("file_path", "sharp_file_path", "near_file_path", "far_file_path"):
            assert image_size(SCENE / frame[key]) == (facts["w"], facts["h"])
    assert sum(path.stat().st_size for path in SCENE.rglob("*") if path.is_file()) <= 5_000_000
    assert sum(path.stat().st_size for path in PICTURE.iterdir()) <= 500_000


def test_it_is_what_the_command_plans() -> None:
    layout = make_layout(package_scene.DEMO.layout, package_scene.DEMO.seed)
    cameras, shots = lens.plan(package_scene.DEMO, layout)
    planned = lens.describe(package_scene.DEMO, layout, cameras, shots)
    facts = scene()
    for key in ("w", "h", "fl_x", "near", "far", "light"):
        assert facts[key] == pytest.approx(planned[key])
    for found, wanted in zip(facts["frames"], planned["frames"], strict=True):
        assert np.allclose(found["transform_matrix"], wanted["transform_matrix"], atol=1e-9)
        assert found["near_lens"] == pytest.approx(wanted["near_lens"])
        assert found["file_path"] == wanted["file_path"]


def test_its_record_is_the_one_the_command_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens, "plan", lambda *_: ([], []))
    monkeypatch.setattr(lens, "describe", lambda *_: {})
    lens.make_lens_scene(tmp_path, package_scene.DEMO, progress=False)
    assert (tmp_path / "synth.json").read_text(encoding="utf-8") == (SCENE / "synth.json").read_text(encoding="utf-8")


def test_training_photos_are_blurred_and_sharp_ones_are_not() -> None:
    def detail(path: str) -> float:
        grey = read_image(SCENE / path).mean(axis=-1)
        return float(np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean())

    for frame in scene()["frames"]:
        assert detail(frame["sharp_file_path"]) > 1.25 * detail(frame["file_path"])


@pytest.mark.parametrize(("view", "kind"), [(3, "near"), (10, "sharp")])
def test_one_view_remade_is_the_packaged_one(view: int, kind: str) -> None:
    pytest.importorskip("mitsuba", reason="needs Mitsuba: pip install 'dofnerf[synth]'")
    layout = make_layout(package_scene.DEMO.layout, package_scene.DEMO.seed)
    cameras, shots = lens.plan(package_scene.DEMO, layout)
    shot = next(shot for shot in shots if shot.view == view and shot.kind == kind)
    tracer = lens.RayTracer(layout.parts, layout.sky, "scalar_rgb")
    quick = replace(package_scene.DEMO, samples=12)
    remade = lens.take(tracer, cameras[view], shot, quick)
    packaged = read_image(SCENE / shot.path)
    # Twelve paths a pixel are noisy, so both are compared as 3×3 averages.
    remade, packaged = (image.reshape(56, 3, 84, 3, 3).mean(axis=(1, 3)) for image in (remade, packaged))
    assert -10.0 * np.log10(np.mean((remade - packaged) ** 2)) > 27.0


def test_points_are_true_and_owe_nothing_to_held_out_views() -> None:
    demo = scenes.load(SCENE)
    assert demo.points is not None and len(demo.points) >= 500 and demo.points.error.max() < 0.3
    assert demo.test == (4, 13, 22)
    seen_by = np.zeros(len(demo.points), dtype=int)
    for index, frame in enumerate(demo.frames):
        if index in demo.test:
            assert frame.seen is None
            continue
        assert frame.seen is not None and len(frame.seen) >= 300
        seen_by[frame.seen] += 1
        pixels, depth = frame.camera.project(demo.points.xyz[frame.seen])
        assert ((pixels > -1) & (pixels < [demo.size[0] + 1, demo.size[1] + 1])).all()
        assert ((depth > demo.near) & (depth < demo.far)).all()
        visible = demo.visible(index)
        assert len(visible.ids) > 0.99 * len(frame.seen)
        np.testing.assert_allclose(visible.error, demo.points.error[visible.ids], rtol=1e-6)
    assert (seen_by >= 2).all()


@pytest.mark.parametrize("view", [0, 7])
def test_points_have_the_colour_of_the_photo_where_they_are_seen(view: int) -> None:
    demo = scenes.load(SCENE)
    assert demo.points is not None
    visible = demo.visible(view)

    def difference(pixels: np.ndarray) -> float:
        column, row = np.clip(pixels.astype(int), 0, [demo.size[0] - 1, demo.size[1] - 1]).T
        return float(np.median(np.abs(demo.photo(view)[row, column] - demo.points.rgb[visible.ids] / 255)))

    assert difference(visible.pixels) < 0.03
    assert difference(visible.pixels + 2) > 0.08


def test_points_lie_on_the_surfaces() -> None:
    pytest.importorskip("mitsuba", reason="needs Mitsuba: pip install 'dofnerf[synth]'")
    facts, view = scene(), 8
    layout = make_layout(package_scene.DEMO.layout, package_scene.DEMO.seed)
    camera = frame_camera(facts, view)
    truth = lens.RayTracer(layout.parts, layout.sky, "scalar_rgb").depth(camera)
    visible = scenes.load(SCENE).visible(view)
    pixels, depth = visible.pixels, visible.depth
    column, row = np.clip(pixels.astype(int), 0, [facts["w"] - 1, facts["h"] - 1]).T
    assert np.median(np.abs(depth / truth[row, column] - 1.0)) < 0.03


def test_points_from_a_few_photos(tmp_path: Path) -> None:
    if importlib.util.find_spec("pycolmap") is None:  # not imported here: it must not share a process with Pillow
        pytest.skip("needs pycolmap: pip install 'dofnerf[capture]'")
    facts = scene()
    frames = [{key: frame[key] for key in ("file_path", "transform_matrix")} for frame in facts["frames"][:7]]
    facts = {key: value for key, value in facts.items() if key != "ply_file_path"} | {"frames": frames}
    for frame in facts["frames"]:
        target = tmp_path / frame["file_path"]
        target.parent.mkdir(exist_ok=True)
        shutil.copy(SCENE / frame["file_path"], target)
    (tmp_path / "transforms.json").write_text(json.dumps(facts))
    count = package_scene.add_points(tmp_path / "transforms.json")
    assert count > 50
    made = scenes.load(tmp_path, hold_out=(4,))
    assert made.points is not None and len(made.points) == count
    assert [frame.seen is None for frame in made.frames] == [i == 4 for i in range(7)]


def test_picture_and_its_depth() -> None:
    facts = json.loads((PICTURE / "depth.json").read_text(encoding="utf-8"))
    assert image_size(PICTURE / facts["picture"]) == image_size(PICTURE / facts["depth"]) == package_scene.PICTURE_SIZE
    depth = read_map(PICTURE / facts["depth"])[0] * facts["depth_scale"]
    layout = make_layout(package_scene.DEMO.layout, package_scene.DEMO.seed)
    assert layout.near < depth.min() < facts["near_focus"] < facts["far_focus"] < depth.max() <= layout.far
