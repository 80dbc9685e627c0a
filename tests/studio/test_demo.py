"""`dofnerf demo`: what it writes, on a small picture in place of the built-in one, and on that one as far as it is quick."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from dofnerf.cli import main
from dofnerf.pictures import write_image
from dofnerf.studio import demo

NAMES = {"near.png", "middle.png", "far.png", "hexagon.png", "rack-focus.gif", "contact-sheet.png"}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """96 × 64 noise that recedes from the left (depth 1) to the right (depth 5)."""
    folder = tmp_path / "built-in"
    write_image(folder / "picture.png", np.random.default_rng(0).uniform(size=(64, 96, 3)))
    depth = np.broadcast_to(np.linspace(2000, 10000, 96), (64, 96))
    Image.fromarray(depth.astype(np.uint16)).save(folder / "depth.png")
    facts = {"picture": "picture.png", "depth": "depth.png", "depth_scale": 0.0005}
    (folder / "depth.json").write_text(json.dumps(facts), encoding="utf-8")
    monkeypatch.setattr(demo, "BUILT_IN", folder)


def test_the_demo_writes_and_names_its_pictures(small, tmp_path, capsys):
    out = tmp_path / "made" / "here"
    assert main(["demo", "--out", str(out)]) == 0
    words = capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == NAMES
    assert all(str(out / name) in words for name in NAMES)
    sharpest = []
    for name in ("near", "middle", "far"):
        picture = np.asarray(Image.open(out / f"{name}.png")).astype(float)
        assert picture.shape == (64, 96, 3)
        columns = np.abs(np.diff(picture, axis=0)).mean(axis=(0, 2))
        sharpest.append(np.convolve(columns, np.ones(5), "same").argmax())
    # Depth 1 + 4x/95 at column x. Halfway in disparity between 1/1.16 and 1/4.84 (4 % of the columns off either end) is 1.87.
    np.testing.assert_allclose(sharpest, [4, 21, 91], atol=6)
    with Image.open(out / "rack-focus.gif") as gif:
        assert gif.n_frames == demo.GIF_FRAMES
        assert gif.size == (96, 64)
    sheet = Image.open(out / "contact-sheet.png")
    assert sheet.width > 3 * 96
    assert sheet.height > 2 * 64


def test_a_file_in_place_of_the_folder_is_refused(small, tmp_path, capsys):
    (tmp_path / "taken").write_text("x")
    assert main(["demo", "--out", str(tmp_path / "taken")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "--out" in captured.err
    assert captured.out == ""


def test_a_contact_sheet_shows_every_tile():
    tiles = [(f"tile {i}", np.full((40, 60, 3), i / 10, np.float32)) for i in range(1, 6)]
    sheet = demo.contact_sheet(tiles, columns=2)
    for i in range(1, 6):
        assert (sheet == round(25.5 * i + 0.01)).all(axis=-1).sum() >= 40 * 60


def test_the_built_in_picture_has_depth():
    picture = demo.built_in_picture()
    assert picture.image.shape == (*picture.disparity.shape, 3)
    far, near = picture.disparity_range()
    assert near > 2 * far > 0
    assert not picture.holes.any()
