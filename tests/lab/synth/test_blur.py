"""The paper's recipe: the blur that is written is that of the lens that is written; work resumes and is never mixed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plates
import pytest
from PIL import Image

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.lab.synth import blur
from dofnerf.lab.synth.blur import BlurConfig, agreement, run


def measured_radius(image: np.ndarray, dot: tuple[int, int]) -> float:
    """The radius of the disc whose second moment that of the light around `dot` is: variance r²/4 per axis."""
    column, row = dot
    light = (image[row - 12 : row + 13, column - 12 : column + 13].mean(-1).astype(np.float64)) ** 2.2
    step = np.arange(-12, 13)
    return float(np.sqrt(2 * ((step[:, None] ** 2 + step**2) * light).sum() / light.sum()))


@pytest.mark.parametrize("layers", [1, 4])
def test_the_blur_is_that_of_the_lens(tmp_path: Path, layers: int) -> None:
    out = tmp_path / "out"
    run(BlurConfig(plates.write(tmp_path / "in"), out, blur=7.5, near_focus=0.9, far_focus=0.2, layers=layers))
    scene = scenes.load(out)
    assert len(scene) == 3 and scene.train == (0,)
    frame = scene.frames[0]
    # By hand: 1/2 and 1/4 are 1 and 0 in normalised disparity, so a step of 1 is 1/4.
    assert frame.near_lens.aperture == frame.far_lens.aperture == pytest.approx(7.5 / 0.25, rel=1e-6)
    assert 1 / frame.near_lens.focus_depth == pytest.approx(0.25 + 0.9 * 0.25, rel=1e-6)
    assert 1 / frame.far_lens.focus_depth == pytest.approx(0.25 + 0.2 * 0.25, rel=1e-6)
    radii = {("near", "far"): 7.5 * 0.9, ("far", "near"): 7.5 * 0.8, ("far", "far"): 7.5 * 0.2}
    for (focus, plate), radius in radii.items():
        image = scene.picture(0, getattr(frame, focus))
        depth = plates.NEAR if plate == "near" else plates.FAR
        assert abs(getattr(frame, f"{focus}_lens").coc_radius(depth)) == pytest.approx(radius, rel=1e-6)
        assert measured_radius(image, plates.DOTS[plate]) == pytest.approx(radius, abs=0.3)
    np.testing.assert_array_equal(scene.depth(0), plates.depth())
    np.testing.assert_array_equal(scene.sharp(0), scenes.load(tmp_path / "in").photo(0))


def test_the_paper_s_mix_alternates(tmp_path: Path) -> None:
    target = run(BlurConfig(plates.write(tmp_path / "in"), tmp_path / "out", blur=2, layers=1))
    frames = json.loads(target.read_text())["frames"]
    assert [frame["file_path"].split("/")[0] for frame in frames] == ["near", "far", "near"]
    assert all(frame["lens"] == frame[f"{frame['file_path'].split('/')[0]}_lens"] for frame in frames)


def test_finished_photos_are_kept(tmp_path: Path, capsys) -> None:
    source, out = plates.write(tmp_path / "in"), tmp_path / "out"
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    command = ["synth", "blur", str(source), "--out", str(out), "--blur", "3", "--layers", "2"]
    assert main(command) == 0
    whole = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (out / "far/view1.png").unlink()
    (out / "transforms.json").unlink()
    marked = out / "near/view0.png"
    Image.fromarray(np.full((plates.HEIGHT, plates.WIDTH, 3), 9, dtype=np.uint8)).save(marked)
    os.utime(marked, (1, 1))
    assert main(command) == 0
    assert marked.stat().st_mtime == 1
    again = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {path for path in whole if whole[path] != again[path]} == {marked}
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert f"wrote    {out}" in capsys.readouterr().out


def test_other_settings_are_refused(tmp_path: Path, capsys) -> None:
    source, out = plates.write(tmp_path / "in"), tmp_path / "out"
    command = ["synth", "blur", str(source), "--out", str(out), "--layers", "1", "--blur"]
    assert main([*command, "2"]) == 0
    assert "made with another blur;" in complaint([*command, "3"], capsys)
    Image.fromarray(np.zeros((plates.HEIGHT, plates.WIDTH, 3), dtype=np.uint8)).save(source / "images/view1.png")
    assert "made with another scene;" in complaint([*command, "2"], capsys)


def complaint(command: list[str], capsys) -> str:
    """The one line of an error that exits with 2."""
    capsys.readouterr()
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("dofnerf: error: ") and captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--blur", "0"], "--blur must be above 0"),
        (["--blur", "nan"], "--blur must be above 0"),
        (["--near-focus", "1.2"], "--near-focus must lie between 0"),
        (["--near-focus", "0.1", "--far-focus", "0.9"], "must be larger than --far-focus"),
        (["--layers", "0"], "--layers must be 1"),
        (["--light", "-1"], "--light must be"),
        (["--width", "400"], "not enlarged"),
        (["--disparity", "run", "--depth-steps", "0"], "--depth-steps must be above 0"),
        (["--disparity", "points", "--run", "r"], "contradict"),
        (["--disparity", "run", "--run", "nowhere"], "there is no run"),
        (["--disparity", "points"], "sees 0 sparse points"),
        (["--maps", "nowhere"], "--maps nowhere: there is no such folder"),
        (["--maps", ".", "--disparity", "points"], "contradict"),
    ],
)
def test_bad_flags_write_nothing(tmp_path: Path, capsys, monkeypatch, flags: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    plates.write(tmp_path / "in")
    assert words in complaint(["synth", "blur", "in", "--out", "out", *flags], capsys)
    assert not (tmp_path / "out").exists()


def test_bad_folders(tmp_path: Path, capsys) -> None:
    source = plates.write(tmp_path / "in")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter.txt").write_text("dear")
    for out, words in (
        (source, "lies in the source"),
        (source / "new", "lies in the source"),
        (tmp_path / "full", "not empty and not begun by dofnerf synth blur"),
        (tmp_path / "full/letter.txt", "is a file"),
        (tmp_path, "not empty"),
    ):
        assert words in complaint(["synth", "blur", str(source), "--out", str(out)], capsys)
    assert "no such scene" in complaint(
        ["synth", "blur", str(tmp_path / "gone"), "--out", str(tmp_path / "out")], capsys
    )
    assert not (source / "synth.json").exists() and not (tmp_path / "out").exists()


def test_photos_known_to_be_blurred_are_refused(tmp_path: Path, capsys) -> None:
    source = plates.write(tmp_path / "in")
    data = json.loads((source / "transforms.json").read_text())
    data["frames"][1]["lens"] = {"aperture": 3.0, "focus_depth": 2.0}
    (source / "transforms.json").write_text(json.dumps(data))
    text = complaint(["synth", "blur", str(source), "--out", str(tmp_path / "out")], capsys)
    assert "frame 1 (images/view1.png): has no sharp photo" in text


def test_a_flat_scene_has_no_near_and_far(tmp_path: Path, capsys) -> None:
    source = plates.write(tmp_path / "in")
    for i in range(plates.COUNT):
        np.save(source / f"depth/view{i}.npy", np.full((plates.HEIGHT, plates.WIDTH), 3.0, dtype=np.float32))
    assert "everything lies at depth 3" in complaint(
        ["synth", "blur", str(source), "--out", str(tmp_path / "out")], capsys
    )


def test_a_sky_at_infinity_can_be_focused_on() -> None:
    lens = blur.lens_for(10.0, 0.0, 0.0, 0.5)
    assert lens.focus_depth == np.inf and lens.coc_radius(np.array(2.0)) == pytest.approx(-10.0)


def test_depth_that_agrees_between_views(tmp_path: Path) -> None:
    """A wall at depth 4, seen by three cameras side by side, and the same with one map 10 % too deep."""
    frames = list(scenes.load(plates.write(tmp_path / "in")).frames)
    wall = np.full((plates.HEIGHT, plates.WIDTH), 4.0, dtype=np.float32)
    flat = [replace(frame, depth=Held(wall)) for frame in frames]
    assert agreement(flat, aperture=20.0).most < 1e-5
    assert "no lens explains" not in agreement(flat, aperture=20.0).words()
    wrong = agreement([flat[0], replace(flat[1], depth=Held(1.1 * wall)), flat[2]], aperture=20.0)
    # Both directions of every pair differ by 20 · (1/4 − 1/4.4) px.
    assert wrong.median == pytest.approx(20 * (1 / 4 - 1 / 4.4), rel=1e-4)
    assert "no lens explains" in agreement([flat[0], replace(flat[1], depth=Held(2 * wall)), flat[2]], 20.0).words()


@dataclass(frozen=True)
class Held:
    """A depth map in memory."""

    values: np.ndarray
    label: str = "depth"

    def load(self) -> np.ndarray:
        return self.values
