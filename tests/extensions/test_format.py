"""A stranger's scene format, one file, read by `info` and `train` through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dofnerf import plugins, scenes
from dofnerf.files import write_image
from dofnerf.scenes import formats

PLUGIN = Path(__file__).parent / "csv_format.py"


@pytest.fixture
def folder(small_folder, tmp_path) -> Path:
    """The photos of a small scene, and cameras.csv."""
    scene = scenes.load(small_folder)
    lines = []
    for i, frame in enumerate(scene.frames):
        name = f"photo-{i}.png"
        write_image(tmp_path / name, scene.photo(i))
        numbers = [frame.camera.fx, scene.near, scene.far, *frame.camera.camera_to_world.ravel().tolist()]
        lines.append(",".join([name, *map(repr, map(float, numbers))]))
    (tmp_path / "cameras.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def dofnerf(*arguments: object, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, plugins.VARIABLE: str(PLUGIN) if plugin else ""}
    words = [sys.executable, "-m", "dofnerf", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_info_and_help_know_it(folder, tmp_path):
    for chosen in ("auto", "csv"):
        shown = dofnerf("info", folder, "--format", chosen, "--sheet", tmp_path / "sheet.png")
        assert shown.returncode == 0, shown.stderr
        assert "CSV, 6 photos of 64×48" in shown.stdout
    assert "csv" in dofnerf("info", "--help-all").stdout
    without = dofnerf("info", folder, plugin=False)
    assert without.returncode == 2 and "photos without poses" in without.stderr
    assert dofnerf("info", folder, "--format", "csv", plugin=False).returncode == 2


def test_it_is_trained_and_read_again(folder, tmp_path):
    steps = ["--pinhole-steps", 2, "--lens-steps", 2, "--lens-ray-steps", 0, "--splats", 200, "--hold-every", 3]
    trained = dofnerf("train", folder, "--out", tmp_path / "run", *steps)
    assert trained.returncode == 0, trained.stderr
    scored = dofnerf("eval", tmp_path / "run", "--reference", "photo")
    assert scored.returncode == 0 and "PSNR" in scored.stdout, scored.stderr


def test_a_hostile_file_is_one_line(folder):
    text = (folder / "cameras.csv").read_text()
    (folder / "cameras.csv").write_text(text.replace("photo-1.png", "../photo-1.png"))
    shown = dofnerf("info", folder)
    assert shown.returncode == 2 and shown.stderr.count("\n") == 1
    assert "cameras.csv: line 2" in shown.stderr and "leads outside the scene folder" in shown.stderr


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="there is a scene format 'llff' already"):
        formats.register(formats.FORMATS["llff"])
    with pytest.raises(ValueError, match="'auto'"):
        formats.register(type("Auto", (), {"name": "auto"}))
