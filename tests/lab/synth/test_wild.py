"""A scene made wild differs from its source by what its truth says, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.lab.synth.wild import Wildness, make_wild


def test_a_wild_scene_is_its_source_changed_as_the_truth_says(tmp_path: Path, capsys) -> None:
    out = tmp_path / "wild"
    assert main(["synth", "wild", "demo", "--out", str(out), "--width", "126", "--seed", "3"]) == 0
    source, made = scenes.load("demo", width=126), scenes.load(out)
    truth = json.loads((out / "wild.json").read_text())
    told = json.loads((out / "transforms.json").read_text())
    assert made.test == source.test and made.points is None and not {"near", "far"} & told.keys()
    places = np.stack([frame.camera.position for frame in source.frames])
    spread = np.sqrt(np.square(np.linalg.norm(places - places.mean(0), axis=1)).mean())
    turns, shifts, gains = [], [], []
    for i, frame in enumerate(source.frames):
        old, new = source.photo(i), made.photo(i)
        if i in source.test:
            assert np.abs(new - old).max() < 0.6 / 255
            assert np.array_equal(frame.camera.camera_to_world, made.camera(i).camera_to_world)
            continue
        own = truth["photos"][Path(frame.name).stem]
        assert np.allclose(own["transform_matrix"], frame.camera.camera_to_world)
        inner = (old > 0.2) & (new < 0.98)
        for c, gain in enumerate(own["gain"]):
            ratio = (new[..., c] / old[..., c].clip(1e-3))[inner[..., c]] ** 2.2
            assert abs(np.median(ratio) / gain - 1) < 5e-3
        gains.append(np.log(own["gain"]))
        moved = made.camera(i).camera_to_world
        rotation = moved[:, :3] @ frame.camera.camera_to_world[:, :3].T
        turns.append(np.rad2deg(Rotation.from_matrix(rotation).as_rotvec()))
        shifts.append((moved[:, 3] - frame.camera.position) / spread)
    assert 0.1 < np.std(gains) < 0.22 and np.abs(np.mean(gains, axis=0)).max() < 1e-9
    assert 0.09 < np.std(turns) < 0.15 and 0.006 < np.std(shifts) < 0.010
    assert main(["synth", "wild", "demo", "--out", str(out), "--width", "126", "--seed", "4"]) == 2
    assert "made with another seed" in capsys.readouterr().err


def test_breathing_makes_focal_lengths_wrong_by_the_focus(tmp_path: Path) -> None:
    out, still = tmp_path / "breathing", ["--exposure", "0", "--white-balance", "0", "--turn", "0", "--shift", "0"]
    assert main(["synth", "wild", "demo", "--out", str(out), "--width", "126", "--breathing", "0.03", *still]) == 0
    source, made = scenes.load("demo", width=126), scenes.load(out)
    truth = json.loads((out / "wild.json").read_text())["photos"]
    for i in source.test:
        assert made.camera(i).fx == source.camera(i).fx
    ratios = [truth[Path(made.frames[i].name).stem]["fl_x"] / made.camera(i).fx for i in made.train]
    span = 1 / source.near - 1 / source.far
    slope = np.polyfit([source.lens(i).focus_disparity / span for i in made.train], np.log(ratios), 1)[0]
    assert abs(slope - 0.03) < 1e-6 and abs(np.mean(np.log(ratios))) < 1e-9
    unknown = replace(source, frames=tuple(replace(frame, lens=None) for frame in source.frames))
    with pytest.raises(ValueError, match="needs the lens of every photo"):
        make_wild(unknown, Wildness(breathing=0.03))
