"""`dofnerf render` with every bad input that we could think of: one line that names it, exit code 2, nothing
written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_shots import CAMERA, card_and_wall, write_ply, write_run

from dofnerf.cli import main
from dofnerf.files.ply import write_ply as write_points
from dofnerf.scenes import Points, Viewpoint, write_cameras

SMALL = ["--width", "24", "--height", "16"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Good and bad files; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("made")
    write_ply(folder / "wall.ply", write_run(folder / "run"))
    data = (folder / "wall.ply").read_bytes()
    (folder / "cut.ply").write_bytes(data[: len(data) // 2])
    (folder / "empty.ply").write_bytes(b"")
    (folder / "text.ply").write_bytes(b"hello")
    (folder / "wall.txt").write_bytes(data)
    (folder / "nan.ply").write_bytes(data[:-4] + np.float32(np.nan).tobytes())
    (folder / "small.ply").write_bytes(b"ply\nformat ascii 1.0\nelement chunk 1\nproperty float min_x\nend_header\n0\n")
    write_points(folder / "points.ply", Points(np.zeros((3, 3)), np.zeros((3, 3), np.uint8), np.ones(3)))
    write_run(folder / "old", cameras=False)
    write_run(folder / "pinhole", lens=False)
    (folder / "none").mkdir()
    write_run(folder / "damaged")
    (folder / "damaged" / "checkpoint.safetensors").write_bytes(b"x" * 100)
    model = card_and_wall()
    model.means.data[:] += 1000.0
    write_ply(folder / "away.ply", model)
    write_cameras(folder / "cams.json", [Viewpoint("a", CAMERA), Viewpoint("b", CAMERA)])
    plain = json.loads((folder / "cams.json").read_text())
    changes = {
        "unsized": {"w": None},
        "vast": {"w": 100_000, "h": 100_000},
        "skewed": {"transform_matrix": np.ones((4, 4)).tolist()},
        "blind": {"fl_x": None, "fl_y": None},
    }
    for name, change in changes.items():
        (folder / f"{name}.json").write_text(json.dumps({"frames": [plain["frames"][0] | change]}))
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text('[{"fx": 1}]')
    (folder / "nothing.json").write_text("{}")
    (folder / "scene").mkdir()
    (folder / "scene" / "transforms.json").write_text('{"frames": []}')
    (folder / "mine").mkdir()
    (folder / "mine" / "view-3.png").write_bytes(b"a picture of somebody")
    return folder


BAD = {
    "missing": (["nope.ply"], ["nope.ply", "no such"]),
    "missing run": (["nope"], ["nope", "no such"]),
    "neither": (["wall.txt"], ["wall.txt", "neither"]),
    "no checkpoint": (["none"], ["none", "not a run", "dofnerf train"]),
    "damaged run": (["damaged"], ["checkpoint.safetensors", "damaged"]),
    "damaged ply": (["cut.ply"], ["cut.ply", "truncated"]),
    "empty ply": (["empty.ply"], ["empty.ply"]),
    "text ply": (["text.ply"], ["text.ply", "does not begin with"]),
    "points": (["points.ply"], ["points.ply", "points, not splats"]),
    "compressed": (["small.ply"], ["small.ply", "compressed .ply"]),
    "NaN": (["nan.ply"], ["nan.ply", "splat 1471", "nan"]),
    "run without cameras": (["old"], ["old", "cameras.json", "--camera"]),
    "no such number": (["run", "--view", "5"], ["--view 5", "there are 5", "view-0"]),
    "no such name": (["run", "--view", "IMG_1.jpg"], ["--view IMG_1.jpg"]),
    "negative number": (["run", "--view=-1"], ["--view -1"]),
    "view and views": (["run", "--view", "1", "--views", "all"], ["--view and --views"]),
    "view of a ply": (["wall.ply", "--view", "1"], ["splats has no views", "--camera"]),
    "views none": (["wall.ply", "--camera", "cams.json", "--views", "test"], ["--views test", "none among the 2"]),
    "camera missing": (["wall.ply", "--camera", "nope.json"], ["nope.json"]),
    "camera broken": (["wall.ply", "--camera", "broken.json"], ["broken.json", "JSON"]),
    "camera empty": (["wall.ply", "--camera", "nothing.json"], ["nothing.json", "frames"]),
    "camera of a list": (["wall.ply", "--camera", "list.json"], ["list.json: camera 0", "fy"]),
    "camera without a size": (["wall.ply", "--camera", "unsized.json"], ["unsized.json: frame 0", "w and h"]),
    "camera too large": (["wall.ply", "--camera", "vast.json"], ["view a", "100000", "--width"]),
    "camera skewed": (["wall.ply", "--camera", "skewed.json"], ["skewed.json: frame 0", "not a rotation"]),
    "camera without focal length": (["wall.ply", "--camera", "blind.json"], ["blind.json: frame 0", "no focal length"]),
    "camera and eye": (["wall.ply", "--camera", "cams.json", "--eye", "0,0,1"], ["--eye", "--camera"]),
    "eye of two": (["wall.ply", "--eye", "0,1"], ["--eye", "X,Y,Z", "'0,1'"]),
    "eye NaN": (["wall.ply", "--eye", "0,1,nan"], ["--eye", "finite"]),
    "eye is look-at": (["wall.ply", "--eye", "0,1,2", "--look-at", "0,1,2"], ["--eye and --look-at", "same point"]),
    "up along the view": (["wall.ply", "--eye", "0,0,0", "--look-at", "0,5,0"], ["--up", "along the view"]),
    "up nowhere": (["wall.ply", "--eye", "0,0,0", "--look-at", "0,0,1", "--up", "0,0,0"], ["--up"]),
    "eye alone for a run": (["run", "--eye", "0,0,0"], ["both --eye and --look-at"]),
    "fov": (["wall.ply", "--fov", "180"], ["--fov", "180"]),
    "fov NaN": (["wall.ply", "--fov", "nan"], ["--fov"]),
    "width": (["wall.ply", "--width", "0"], ["--width", "0"]),
    "height": (["wall.ply", "--height", "1000000"], ["--height", "1000000"]),
    "another shape": (["run", "--width", "60", "--height", "60"], ["--width 60", "64 × 48"]),
    "aperture negative": (["wall.ply", "--aperture", "-1"], ["--aperture", "-1"]),
    "aperture NaN": (["wall.ply", "--aperture", "nan"], ["--aperture"]),
    "aperture and K": (["wall.ply", "--aperture", "1", "--paper-k", "2"], ["--aperture and --paper-k"]),
    "K and f-stop": (["wall.ply", "--paper-k", "1", "--fstop", "2"], ["--paper-k and --fstop"]),
    "absurd aperture": (["wall.ply", *SMALL, "--aperture", "1e9", "--focus", "1"], ["wall.ply", "--aperture", "1e+09"]),
    "f-stop without a scale": (["wall.ply", "--fstop", "2"], ["--fstop", "--unit METRES"]),
    "f-stop of a run without a scale": (["run", "--fstop", "2"], ["--fstop", "--unit METRES", "--stops 0"]),
    "stops of a file": (["wall.ply", "--stops", "1"], ["--stops", "--aperture"]),
    "stops and f-stop": (["run", "--stops", "1", "--fstop", "2"], ["--stops and --fstop"]),
    "no such stops": (["run", "--stops", "99"], ["--stops", "32"]),
    "blades of your lens": (
        ["run", "--aperture", "9", "--shape", "learned", "--blades", "6"],
        ["--shape learned", "--blades and --rotation"],
    ),
    "turn of your lens": (["run", "--aperture", "9", "--shape", "learned", "--rotation", "6"], ["--shape learned"]),
    "f-stop 0": (["wall.ply", "--fstop", "0"], ["--fstop", "0"]),
    "unit 0": (["wall.ply", "--fstop", "2", "--unit", "0"], ["--unit", "0"]),
    "unit alone": (["wall.ply", "--unit", "2"], ["--unit", "--fstop"]),
    "sensor alone": (["wall.ply", "--sensor-width", "24"], ["--sensor-width", "--fstop"]),
    "focus twice": (["wall.ply", "--focus", "2", "--focus-at", "3,4"], ["--focus and --focus-at"]),
    "focus 0": (["wall.ply", "--focus", "0"], ["--focus", "0"]),
    "focus NaN": (["wall.ply", "--focus", "nan"], ["--focus"]),
    "focus outside": (["wall.ply", *SMALL, "--focus-at", "24,3"], ["--focus-at 24,3", "24 × 16"]),
    "focus at a word": (["wall.ply", "--focus-at", "nose"], ["--focus-at", "'nose'"]),
    "nothing to focus on": (
        ["away.ply", "--camera", "cams.json", "--view", "a", "--aperture", "2"], ["away.ply: view a",
        "nothing to focus on"]
    ),
    "as shot and aperture": (["run", "--as-shot", "--aperture", "2"], ["--as-shot", "--aperture"]),
    "as shot and focus": (["run", "--as-shot", "--focus", "2"], ["--as-shot", "--focus"]),
    "as shot, held out": (["run", "--as-shot", "--view", "3"], ["--as-shot", "view-3", "held out"]),
    "as shot, no lens": (["pinhole", "--as-shot"], ["--as-shot", "view-0", "without a lens"]),
    "as shot, ply": (["wall.ply", "--as-shot"], ["--as-shot", "file of splats"]),
    "as shot, camera without": (["wall.ply", "--as-shot", "--camera", "cams.json"], ["--as-shot", "view a"]),
    "blades 2": (["wall.ply", "--blades", "2"], ["--blades", "2"]),
    "rotation": (["wall.ply", "--rotation", "inf"], ["--rotation"]),
    "layers 0": (["wall.ply", "--layers", "0"], ["--layers", "0"]),
    "samples": (["wall.ply", "--lens-samples", "-4"], ["--lens-samples", "-4"]),
    "light": (["wall.ply", "--light", "0"], ["--light", "0"]),
    "exposure": (["wall.ply", "--exposure", "nan"], ["--exposure"]),
    "blend of a run": (["run", "--blend", "light"], ["--blend", "files of splats"]),
    "background": (["wall.ply", "--background", "0,0,256"], ["--background", "0 to 1"]),
    "several into one file": (["run", "--views", "all", "--out", "new/a.png"], ["--out", "5 pictures", "folder"]),
    "format against suffix": (["wall.ply", "--format", "exr", "--out", "new/a.png"], ["--out", "--format exr"]),
    "out under a file": (["wall.ply", "--out", "wall.txt/new"], ["--out", "not a folder"]),
    "out over a scene": (["run", "--out", "scene"], ["scene", "transforms.json", "another --out"]),
    "out over a picture": (["run", "--out", "mine"], ["view-3.png", "not made by dofnerf render", "another --out"]),
}  # fmt: skip


@pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's would be a second line
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(case, made, monkeypatch, capfd):
    monkeypatch.chdir(made)
    arguments, named = BAD[case]
    before = _contents(made)
    capfd.readouterr()
    code = main(["render", *arguments])
    captured = capfd.readouterr()
    assert code == 2, captured
    waiting = ("(once; later runs find them in a cache) …", " so far", " left")  # on a busy machine
    (line,) = (line for line in captured.err.splitlines() if not line.endswith(waiting))
    assert line.startswith("dofnerf: error: ")
    for words in named:
        assert words in line
    assert _contents(made) == before


def test_a_picture_that_is_the_input_is_refused(made, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exr.ply").write_bytes((made / "wall.ply").read_bytes())
    (tmp_path / "in.exr").symlink_to("exr.ply")
    assert main(["render", "exr.ply", "--out", "in.exr", *SMALL]) == 2
    assert "would overwrite the input" in capfd.readouterr().err


def test_an_interrupted_render_leaves_whole_pictures(made, tmp_path, monkeypatch, capfd):
    from dofnerf.studio import render

    monkeypatch.chdir(tmp_path)
    real, calls = render.write_image, []

    def write(path, image):
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(path, image)

    monkeypatch.setattr(render, "write_image", write)
    assert main(["render", str(made / "run"), "--views", "all", "--out", "shots"]) == 130
    assert sorted(path.name for path in (tmp_path / "shots").iterdir()) == ["transforms.json", "view-0.png"]
    monkeypatch.setattr(render, "write_image", real)
    assert main(["render", str(made / "run"), "--views", "all", "--out", "shots"]) == 0
    assert len(list((tmp_path / "shots").iterdir())) == 6


def _contents(folder) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
