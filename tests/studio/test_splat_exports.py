"""Splats for other tools: every format there and back through the command, and refined splats that mix otherwise."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_shots import write_run

from dofnerf.camera import Camera
from dofnerf.cli import main
from dofnerf.evaluate.metrics import psnr
from dofnerf.files import read_image
from dofnerf.files.ply import read_splats
from dofnerf.files.splats import read_splat_file
from dofnerf.models.splat.raster import Gaussians, Style, draw
from dofnerf.scenes import read_cameras, write_cameras
from dofnerf.studio import baking

FILES = ("scene.ply", "scene.compressed.ply", "scene.spz", "scene.splat", "scene.sog", "scene.glb")
FLAGS = ("--ply", "--compressed-ply", "--spz", "--splat", "--sog", "--glb")


def half_turned(camera: Camera) -> Camera:
    """y and z the other way round, as in files for other tools."""
    return replace(camera, camera_to_world=camera.camera_to_world * np.array([[1], [-1], [-1]]))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run, all its exports, and its own render of the held-out view."""
    folder = tmp_path_factory.mktemp("exports")
    write_run(folder / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baking, "STEPS", 150)
        assert main(["export", str(folder / "run"), *FLAGS, "--out", str(folder / "out")]) == 0
    assert main(["render", str(folder / "run"), "--view", "3", "--out", str(folder / "ours.png")]) == 0
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_file_read_back_shows_what_the_run_shows(place, tmp_path, name):
    cameras = place / "run" / "cameras.json"
    if name in ("scene.spz", "scene.splat"):  # which cannot say that they were turned: y is down
        cameras = tmp_path / "turned.json"
        write_cameras(
            cameras,
            [replace(view, camera=half_turned(view.camera)) for view in read_cameras(place / "run" / "cameras.json")],
        )
    camera = ["--camera", str(cameras), "--view", "3"]
    assert main(["render", str(place / "out" / name), *camera, "--out", str(tmp_path / "a.png")]) == 0
    # The wall's left end, with nothing behind it, is ours alone: other tools have no background.
    assert psnr(read_image(tmp_path / "a.png"), read_image(place / "ours.png")) > 27


def test_refined_splats_look_the_same_where_display_values_mix(place):
    """Drawn as other tools do: display values over black, in the file's own coordinates, y down."""
    splats = read_splats(place / "out" / "scene.ply")
    view = read_cameras(place / "run" / "cameras.json")[3]
    arrays = splats.means, splats.log_scales, splats.rotations, splats.opacities, splats.harmonics
    drawn = draw(
        Gaussians(*map(torch.from_numpy, arrays)), half_turned(view.camera), style=Style(light=1.0), backend="reference"
    )
    assert psnr(drawn.light.numpy().clip(0, 1), read_image(place / "ours.png")) > 27


def test_from_file_to_file_nothing_is_lost(place, tmp_path):
    """.ply → .glb → .ply, of splats that mix as display values."""
    for source, flag, out in (("scene.ply", "--glb", "a.glb"), ("a.glb", "--ply", "b.ply")):
        source = place / "out" / source if flag == "--glb" else tmp_path / source
        assert main(["export", str(source), flag, "--out", str(tmp_path / out)]) == 0
    one, other = (read_splat_file(file)[0] for file in (place / "out" / "scene.ply", tmp_path / "b.ply"))
    for name in ("means", "log_scales", "opacities", "harmonics"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-4)


def test_pages_of_files(place, tmp_path):
    for name in ("scene.spz", "scene.glb"):
        assert main(["export", str(place / "out" / name), "--html", "--out", str(tmp_path / f"{name}.html")]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["out/scene.ply", "--ply", "--out", "out/scene.ply"], "would overwrite the input"),
        (["out/scene.ply", "--spz", "--mix", "light"], "mix as display values"),
        (["run", "--spz", "--mix", "light"], "cannot say so"),
        (["out/scene.glb", "--spz", "--out", "a.spz"], "give --camera"),
    ],
)
def test_refusals(place, monkeypatch, capfd, arguments, words):
    monkeypatch.chdir(place)
    assert main(["export", *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1
