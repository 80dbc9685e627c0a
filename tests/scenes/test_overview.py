"""A scene at a glance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_scenes as small

from dofnerf import scenes
from dofnerf.files import read_image


@pytest.mark.parametrize("make", [small.llff, small.transforms, small.colmap, small.triplets, small.lightfield])
def test_contact_sheet_of_every_format(tmp_path: Path, make) -> None:
    (tmp_path / "scene").mkdir()
    scene = scenes.load(make(tmp_path / "scene"))
    scenes.write_contact_sheet(scene, tmp_path / "sheet.png")
    sheet = read_image(tmp_path / "sheet.png")
    assert sheet.shape[1] == 1600 and 300 < sheet.shape[0] < 4000
    assert 0.02 < np.mean(sheet.min(axis=-1) < 0.95) < 0.95
    text = scenes.describe(scene).splitlines()
    assert text[0] == scene.describe() and all(line.startswith("  ") for line in text[1:])


def test_names_are_no_formulas(tmp_path: Path) -> None:
    scene = scenes.load(small.transforms(tmp_path))
    odd = replace(scene, name="$\\frac$", frames=tuple(replace(one, name="$x^$.png") for one in scene.frames))
    scenes.write_contact_sheet(odd, tmp_path / "sheet.png")
    assert read_image(tmp_path / "sheet.png").shape[1] == 1600


def test_text_says_what_there_is(tmp_path: Path) -> None:
    scene = scenes.load(small.transforms(tmp_path))
    line = scene.describe()
    for part in ("6 photos of 24×16", "5 train, 1 test", "depth 3 to 5", "sharp", "near", "far", "depth", "true lens"):
        assert part in line
    assert "aperture 2 to 7" in scenes.describe(scene)


def test_text_tells_reprojection_errors(tmp_path: Path) -> None:
    text = scenes.describe(scenes.load(small.colmap(tmp_path)))
    assert "a photo sees 40" in text and "reprojection error 0.00 px" in text
