"""`dofnerf demo`: what it leaves, with small photos, few of them, hardly any training and a short video."""

from __future__ import annotations

import re
from dataclasses import replace

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.evaluate.comparison import zoomed
from dofnerf.evaluate.scores import LensError
from dofnerf.studio import demo
from dofnerf.train import Run

PICTURES = {"side-by-side.png", "rack-focus.mp4", "lens.png", "table.md"}
STEPS = "0.005"


@pytest.fixture(scope="module", autouse=True)
def small():
    """Four photos of 84 × 56 in place of the scene in the package; four frames of video."""
    scene = scenes.demo(width=84)
    scene = replace(scene, train=scene.train[8:12])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "FRAMES", 4)
        patch.setattr(scenes, "demo", lambda: scene)
        yield scene


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    """The demo's folder."""
    out = tmp_path_factory.mktemp("demo") / "made" / "here"
    assert main(["demo", "--out", str(out), "--steps", STEPS]) == 0
    return out


def test_it_leaves_pictures_a_video_a_table_and_the_runs(made, small):
    assert {path.name for path in made.iterdir()} == PICTURES | {"pinhole", "ours"}
    width, height = small.size
    with Image.open(made / "side-by-side.png") as sheet:
        assert sheet.width > 4 * 2 * width
        assert sheet.height > 2 * 2 * height
    with Image.open(made / "lens.png") as plot:
        assert plot.width > 1000
        assert len(np.unique(np.asarray(plot).reshape(-1, 3), axis=0)) > 50
    frames = imageio_ffmpeg.read_frames(str(made / "rack-focus.mp4"))
    assert next(frames)["size"] == (2 * width, 2 * height)
    assert sum(1 for _ in frames) == 4
    assert Run.load(made / "ours").has_lens
    assert not Run.load(made / "pinhole").has_lens


def test_the_table_has_numbers(made):
    words = (made / "table.md").read_text(encoding="utf-8")
    for name in ("without a lens model", "ours"):
        found = re.search(rf"\| {name} \| ([\d.]+) dB \| \d+ s \|", words)
        assert found and 10 < float(found[1]) < 40, words
    assert re.search(r"\| aperture \| [\d.]+ % \|", words)
    assert re.search(r"\| focus, in disparity \| [\d.]+ % of", words)
    assert "sharp photos" not in words


def test_again_it_uses_the_runs_that_are_there(made, capsys):
    before = {name: (made / name / "checkpoint.safetensors").read_bytes() for name in ("pinhole", "ours")}
    table = (made / "table.md").read_text(encoding="utf-8")
    assert main(["demo", "--out", str(made), "--steps", STEPS]) == 0
    words = capsys.readouterr().out
    assert all(str(made / name) in words for name in PICTURES | {"pinhole", "ours"})
    assert table in words
    assert before == {name: (made / name / "checkpoint.safetensors").read_bytes() for name in before}


def test_a_run_of_other_steps_is_not_touched(made, capsys):
    assert main(["demo", "--out", str(made), "--steps", "0.02"]) == 2
    message = capsys.readouterr().err
    assert "pinhole_steps" in message
    assert "another --out" in message


@pytest.mark.parametrize("flags", [["--steps", "0"], ["--steps", "-1"], ["--steps", "nan"]])
def test_absurd_steps_are_refused(flags, tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "new"), *flags]) == 2
    assert "--steps" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path, capsys):
    (tmp_path / "taken").write_text("x")
    assert main(["demo", "--out", str(tmp_path / "taken")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "--out" in captured.err
    assert captured.out == ""


def test_with_sharp_photos_the_table_has_the_share_of_the_gap(made):
    run = Run.load(made / "pinhole")
    results = {
        key: demo.Result(key, run, psnr) for key, psnr in (("pinhole", 22.0), ("ours", 25.0), ("sharp-photos", 26.0))
    }
    words = demo.table(results, LensError(0.031, 0.02), views=3)
    assert "closes | 0.75 |" in words
    assert "3.1 %" in words and "2.0 %" in words


def test_a_sidestep_keeps_the_pivot_where_it_is(small):
    camera = small.camera(demo.VIEW)
    moved = demo.sidestep(camera, right=0.1, up=-0.05, pivot=3.0)
    pixels = np.array([[40.0, 30.0], [70.0, 10.0]])
    there = camera.unproject(pixels, np.full(2, 3.0))
    np.testing.assert_allclose(moved.project(there)[0], pixels, atol=1e-9)
    nearer = camera.unproject(pixels, np.full(2, 1.5))
    assert (moved.project(nearer)[0][:, 0] < pixels[:, 0] - 1).all()
    np.testing.assert_allclose(
        moved.position - camera.position, camera.camera_to_world[:, :3] @ [0.1, -0.05, 0], atol=1e-12
    )


def test_the_zoomed_crop_shows_what_the_frame_encloses():
    image = np.zeros((168, 252, 3), np.float32)
    left, top = round(demo.CROP[0] * 252), round(demo.CROP[1] * 168)
    image[top : top + 42, left : left + 63] = 1.0
    whole, crop = zoomed(image, demo.crop_box((252, 168)), 2)
    assert whole.shape == crop.shape == (336, 504, 3)
    assert crop[20:-20, 20:-20].min() > 250
    assert (whole[2 * top + 4 : 2 * top + 80, 2 * left + 4 : 2 * left + 120] > 250).all()


def test_compile_only_leaves_nothing_behind(monkeypatch, small, tmp_path):
    monkeypatch.setattr(scenes, "demo", lambda width: small)
    monkeypatch.setattr(demo, "WARM_STEPS", {"pinhole_steps": 2, "lens_steps": 2, "sub_aperture_steps": 2})
    assert main(["demo", "--compile-only", "--out", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()
