"""What Blender makes of `export --blender`, where a Python with bpy is at hand: the one that runs the tests, or the one
that DOFNERF_BPY names (python -m venv b; b/bin/pip install bpy; DOFNERF_BPY=b/bin/python)."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_shots import CAMERA, FOCAL, write_run

from dofnerf.cli import main
from dofnerf.optics import Lens
from dofnerf.scenes import read_cameras
from dofnerf.studio.export import blender
from dofnerf.studio.export.blender import camera_entry
from dofnerf.studio.source import open_source


def test_a_lens_in_millimetres():
    """f/2 at 50 mm has a radius of 12.5 mm: with the scale known, the f-number is the photographer's."""
    camera = CAMERA.resized(640, 480)
    focal = 50 / 36 * 640
    camera = type(camera)(camera.camera_to_world, focal, focal, 320.0, 240.0, 640, 480)
    lens = Lens(aperture=focal * 0.0125 / 0.5, focus_depth=4.0)  # a scene unit is half a metre
    entry = camera_entry(camera, lens, 0.5, 36.0, np.eye(3))
    assert entry["focal"] == pytest.approx(50) and entry["fstop"] == pytest.approx(2)
    assert entry["focus"] == pytest.approx(2) and entry["shift"] == [0, 0]
    assert "fstop" not in camera_entry(camera, None, 1.0, 36.0, np.eye(3))
    upright = replace(camera, width=480, height=640, cx=240.0, cy=320.0)  # the same camera and sensor
    turned = camera_entry(upright, lens, 0.5, 36.0, np.eye(3))
    assert turned["focal"] == pytest.approx(50) and turned["fstop"] == pytest.approx(2)
    assert turned["sensor"] == pytest.approx(27)  # across the picture


def test_the_script_says_who_made_it(tmp_path, capfd):
    write_run(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--blender", "--out", str(tmp_path)]) == 0
    script = tmp_path / "blender" / "cameras.py"
    compile(script.read_text(), str(script), "exec")
    script.write_text("print('mine')")
    assert main(["export", str(tmp_path / "run"), "--blender", "--out", str(tmp_path)]) == 2
    assert "was not made by dofnerf export" in capfd.readouterr().err


def test_blender_sees_and_focuses_as_we_do(tmp_path):
    python = os.environ.get("DOFNERF_BPY") or (sys.executable if importlib.util.find_spec("bpy") else None)
    if python is None:
        pytest.skip("no bpy: pip install bpy, here or in a venv whose python DOFNERF_BPY names")
    write_run(tmp_path / "run")
    layers = ["--rgbd", "--layers", "2", "--view", "3"]
    assert main(["export", str(tmp_path / "run"), "--blender", *layers, "--out", str(tmp_path)]) == 0
    script, blend = tmp_path / "blender" / "cameras.py", tmp_path / "cameras.blend"
    subprocess.run([python, script, "--save", blend], check=True, capture_output=True)
    source = open_source(tmp_path / "run")
    views = read_cameras(tmp_path / "run" / "cameras.json")
    points = np.array([[0.3, 0.2, -2.0], [-0.5, 0.1, -3.0], [1.0, -0.7, -6.0]])
    name, lens = "view-1", source.learned["view-1"]
    depths = [lens.focus_depth, 2.5 * lens.focus_depth]
    asked = {"points": points.tolist(), "camera": name, "depths": depths, "radius": 0.6 / FOCAL}
    asked |= {"picture": str(tmp_path / "seen.exr"), "layers": str(tmp_path / "view-3-layers" / "layers.exr")}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    helper = Path(__file__).with_name("in_blender.py")
    done = subprocess.run([python, helper, blend, tmp_path / "asked.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.split("FOUND ")[1].splitlines()[0])
    assert found["points"] > 100
    assert all({"Combined", "Depth"} <= set(passes) for passes in found["layers"].values())
    for view in views:
        seen = found["cameras"][view.name]
        np.testing.assert_allclose(seen["pixels"], view.camera.project(points)[0], atol=0.01)
        assert seen["dof"] is not view.held_out
    assert found["cameras"][name]["focus"] == pytest.approx(lens.focus_depth, rel=1e-5)
    # A disc of radius r spreads by r²/2; the lamp and the pixels by about ½ at every depth.
    radius = lens.aperture * abs(1 / depths[0] - 1 / depths[1])
    sharp, blurred = found["spread"]
    assert sharp < 0.8 and blurred - sharp == pytest.approx(radius**2 / 2, rel=0.15)


def test_what_lies_beside_the_script_is_not_run(tmp_path, monkeypatch):
    """A stranger's run may bring files; those in the current folder are no modules either."""
    for folder in (tmp_path / "run", tmp_path / "here"):
        folder.mkdir()
        (folder / "json.py").write_text("raise SystemExit('a file of the run was run')")
    script = tmp_path / "run" / "cameras.py"
    script.write_text("import json, sys\nopen(sys.argv[sys.argv.index('--save') + 1], 'w').write(json.dumps(__name__))")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert blender._run(script)
    assert (tmp_path / "run" / "cameras.blend").read_text() == '"__main__"'
