"""`dofnerf eval`: figures of a tiny run against independent ones, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.evaluate.eval import lens_lines
from dofnerf.evaluate.scores import in_focus, score, score_lens, score_view
from dofnerf.evaluate.trained import open_trained
from dofnerf.scenes import Lens
from dofnerf.train import Run, checkpoint


@pytest.fixture
def no_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.delenv("DOFNERF_LPIPS", raising=False)


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copytree(trained / "ours", tmp_path / "copy")
    return tmp_path / "copy"


def refusal(capsys, *arguments) -> str:
    capsys.readouterr()
    assert main(["eval", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return captured.err


def test_the_figures_are_those_of_scikit_image(trained, small_folder, tmp_path, no_weights, capsys):
    assert main(["eval", str(trained / "ours"), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "eval.json").read_text())
    scene, run = scenes.load(small_folder), Run.load(trained / "ours")
    image, truth = run.render(scene.camera(3)).image.clamp(0, 1).numpy(), scene.sharp(3)
    expected = peak_signal_noise_ratio(truth, image, data_range=1.0)
    (view,) = found["views"]
    assert view["view"] == 3
    assert view["psnr"] == found["mean"]["psnr"] == pytest.approx(expected, abs=1e-3)
    assert f"{expected:.2f}" in printed
    assert view["lpips"] == "no weights"
    assert "--lpips-weights" in printed
    blurred = np.abs(scene.lens(3).coc_radius(scene.depth(3))) > 1
    assert view["in_focus"] == pytest.approx(1 - blurred.mean())
    by_hand = -10 * np.log10(np.square(image - truth)[blurred].mean())
    assert view["psnr_out_of_focus"] == pytest.approx(by_hand, abs=1e-3)
    with open(tmp_path / "out" / "eval.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["view"] for row in rows] == ["3", "mean"]
    assert float(rows[1]["psnr"]) == view["psnr"]
    assert rows[1]["lpips"] == "no weights"


def test_lpips_stands_in_its_column(trained, tmp_path, captures, capsys):
    weights = captures / "lpips" / "alexnet_lpips_v0.1.npz"
    if not weights.is_file():
        pytest.skip("no weights of LPIPS among the captures")
    assert main(["eval", str(trained / "ours"), "--out", str(tmp_path), "--lpips-weights", str(weights)]) == 0
    value = json.loads((tmp_path / "eval.json").read_text())["mean"]["lpips"]
    assert 0.05 < value < 1.5
    assert f"{value:.4f}" in capsys.readouterr().out


def test_the_lens_is_compared_with_the_true_one(trained, small_folder):
    run, scene = open_trained(trained / "ours")
    frames = list(scene.frames)
    for k, i in enumerate(scene.train):  # as if the truth were off by a known amount
        aperture, focus = run.lens.aperture[k].item(), run.lens.focus_disparity[k].item()
        frames[i] = replace(frames[i], lens=Lens(aperture / 1.1, 1 / (focus + 0.02)))
    found = score_lens(run, replace(scene, frames=tuple(frames)))
    assert found.photos == 5
    assert found.aperture == pytest.approx(0.1, rel=1e-4) and found.aperture_median == pytest.approx(0.1, rel=1e-4)
    assert found.focus == pytest.approx(0.02 / (1 / scene.near - 1 / scene.far), rel=1e-3)
    apertures = run.lens.aperture.detach().numpy() / 1.1
    assert found.focus_blur == pytest.approx(0.02 * apertures.mean(), rel=1e-3)
    assert found.focus_blur_median == pytest.approx(0.02 * np.median(apertures), rel=1e-3)


def test_photos_that_do_not_tell_their_lens_are_counted(trained):
    run, scene = open_trained(trained / "ours")
    for unknown in (0, 2):
        run.learner.precision = torch.full((5, 5), 1e-9)
        run.learner.precision[:unknown, 1] = 1e6
        with torch.no_grad():
            run.lens.raw_aperture[:] = 2.0
        found = score(run, scene, "none")
        words = [line for line in lens_lines(found) if "do not tell" in line]
        assert found.unknown_lenses == unknown and [line[-3:] for line in words] == [": 2"] * bool(unknown)


def test_a_run_without_a_lens_and_a_scene_without_its_truth(trained):
    run, scene = open_trained(trained / "pinhole")
    assert score_lens(run, scene) == "the run has no lens"
    unknown = replace(scene, frames=tuple(replace(frame, lens=None) for frame in scene.frames))
    found = score(run, unknown, "none")
    assert found.mean["in_focus"] == found.mean["psnr_in_focus"] == "no lens"
    assert isinstance(found.mean["psnr"], float)
    ours, _ = open_trained(trained / "ours")
    assert score_lens(ours, unknown) == "the true lens is not known, or closed"


def test_where_no_lens_is_known_the_nearest_photos_counts(trained):
    run, scene = open_trained(trained / "ours")
    unknown = replace(scene, frames=tuple(replace(frame, lens=None, depth=None) for frame in scene.frames))
    disparity = run.render(scene.camera(3)).disparity.numpy()
    focus = in_focus(run, unknown, 3, disparity)
    places = [np.linalg.norm(scene.camera(i).position - scene.camera(3).position) for i in scene.train]
    nearest = int(np.argmin(places))
    assert scene.frames[scene.train[nearest]].name in focus.lens
    radius = run.lens.aperture[nearest].item() * (run.lens.focus_disparity[nearest].item() - disparity)
    np.testing.assert_array_equal(focus.mask, np.abs(radius) <= 1)


def test_without_sharp_photos_the_columns_say_so(trained, no_weights):
    run, scene = open_trained(trained / "ours")
    plain = replace(scene, frames=tuple(replace(frame, sharp=None) for frame in scene.frames))
    found = score(run, plain, "none")
    assert found.mean["psnr"] == found.views[0].ssim == found.views[0].psnr_in_focus == "no reference"
    assert any("--reference photo" in note for note in found.notes)
    image = run.render(scene.camera(3)).image.clamp(0, 1).numpy()
    against = score(run, plain, "none", "photo").mean["psnr"]
    assert against == pytest.approx(peak_signal_noise_ratio(scene.photo(3), image, data_range=1.0), abs=1e-3)


def test_a_scene_that_is_gone_or_another(copy, small_folder, tmp_path, capsys):
    moved = tmp_path / "moved"
    shutil.copytree(small_folder, moved)
    known = json.loads((copy / "config.json").read_text())
    known["scene"]["path"] = str(tmp_path / "gone")
    (copy / "config.json").write_text(json.dumps(known))
    words = refusal(capsys, copy)
    assert "gone" in words and "--scene" in words
    assert main(["eval", str(copy), "--scene", str(moved)]) == 0
    words = refusal(capsys, copy, "--scene", scenes.DEMO)
    assert "not the scene of this run" in words
    del known["scene"]
    (copy / "config.json").write_text(json.dumps(known))
    assert "--scene" in refusal(capsys, copy)
    assert main(["eval", str(copy), "--scene", str(moved)]) == 0


def test_a_scene_that_was_made_anew(copy, small_folder, tmp_path, capsys):
    anew = tmp_path / "anew"
    shutil.copytree(small_folder, anew)
    content = (anew / "transforms.json").read_text()
    data = json.loads(content)
    data["frames"][1]["transform_matrix"][0][3] += 0.01 * data["far"]
    (anew / "transforms.json").write_text(json.dumps(data))
    words = refusal(capsys, copy, "--scene", anew)
    assert "made anew since the run was trained" in words and data["frames"][1]["file_path"] in words
    data = json.loads(content)
    for holder in (data, *data["frames"]):
        if "fl_x" in holder:
            holder["fl_x"] *= 1.01
    (anew / "transforms.json").write_text(json.dumps(data))
    assert "made anew since" in refusal(capsys, copy, "--scene", anew)
    data = json.loads(content)
    (held,) = data["test_filenames"]
    data["frames"] = [frame for frame in data["frames"] if frame["file_path"] != held]
    data["test_filenames"] = data["val_filenames"] = []
    (anew / "transforms.json").write_text(json.dumps(data))
    assert f"its photo {held!r}, which the run held out, is gone" in refusal(capsys, copy, "--scene", anew)


def test_damaged_unfinished_and_missing_runs(copy, tmp_path, trained, capsys):
    assert "there is no such run" in refusal(capsys, tmp_path / "nothing")
    assert "not a run" in refusal(capsys, tmp_path)
    (copy / "config.json").write_text("{half")
    assert "config.json: not valid JSON" in refusal(capsys, copy)
    content = (copy / "checkpoint.safetensors").read_bytes()
    (copy / "checkpoint.safetensors").write_bytes(content[:1000])
    assert "checkpoint.safetensors" in refusal(capsys, copy)
    learner = checkpoint.unpack(content)
    learner.progress.step = 19
    (copy / "checkpoint.safetensors").write_bytes(checkpoint.pack(learner))
    assert "unfinished (step 19 of 20)" in refusal(capsys, copy)
    assert "--out" in refusal(capsys, trained / "ours", "--out", copy / "config.json" / "x")
    assert "none.npz" in refusal(capsys, trained / "ours", "--lpips-weights", "none.npz")


def test_a_broken_render_is_named(trained):
    run, scene = open_trained(trained / "ours")
    shown = run.render(scene.camera(3))
    shown.image[5, 6, 0] = float("nan")
    with pytest.raises(ValueError, match=f"{scene.frames[3].name}: its render holds NaN or infinity"):
        score_view(run, scene, 3, "none", shown=shown)


def test_without_held_out_views_there_is_nothing_to_say(trained):
    run, scene = open_trained(trained / "ours")
    with pytest.raises(ValueError, match="no view is held out"):
        score(run, replace(scene, test=()), "none")
