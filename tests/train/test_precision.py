"""Standard errors of each photo's lens: against repeated noise, and in a run's table."""

import csv
import math

import numpy as np
import pytest
import torch
from tiny_world import QUIET, config, scene

from dofnerf.cli import main
from dofnerf.train import Run, train, without_lens
from dofnerf.train.measured import measured
from dofnerf.train.precision import Slopes, covariance
from dofnerf.train.scale import Scale


def solutions(slopes, noise):
    """Least squares for each of N noise pictures, (N, P)."""
    design = slopes.reshape(-1, slopes.shape[-1]).numpy()
    return np.linalg.lstsq(design, noise.reshape(len(noise), -1).numpy().T, rcond=None)[0].T


@pytest.mark.parametrize("side", [1, 4])
def test_the_covariance_is_that_of_repeated_solutions(side):
    """Noise that is the same in squares of `side` pixels: the spread of solutions over many pictures of it."""
    generator = torch.Generator().manual_seed(0)
    height, width, count = 48, 64, 200
    smooth = torch.rand(3, 6, 8, 3, generator=generator).permute(3, 0, 1, 2)
    slopes = torch.nn.functional.interpolate(smooth, (height, width), mode="bilinear").permute(2, 3, 1, 0).double()
    noise = torch.randn(count, height // side, width // side, 3, generator=generator).double()
    noise = noise.repeat_interleave(side, 1).repeat_interleave(side, 2)
    spread = solutions(slopes, noise).std(0)
    weight = torch.ones(height, width, 3)
    told = [np.sqrt(np.diag(covariance(Slopes(one, slopes, weight), 8))) for one in noise[:40]]
    assert np.mean(told, axis=0) == pytest.approx(spread, rel=0.2)
    if side > 1:  # as if each value were an observation of its own
        naive = [np.sqrt(np.diag(covariance(Slopes(one, slopes, weight), 0))) for one in noise[:40]]
        assert np.all(np.mean(naive, axis=0) < 0.5 * spread)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    world = scene(5, (48, 64), test=())
    settings = config((4, 6, 2), search=False, refits=(), start_blur=4.0)
    return train(world, settings, out=tmp_path_factory.mktemp("run") / "run", keep=QUIET)


def test_the_table_has_errors_that_a_checkpoint_keeps(run):
    with open(run.folder / "lens.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    again = Run.load(run.folder).photo_table()
    for row, kept in zip(rows, again, strict=True):
        assert (row["aperture_se"] == "") == (kept["aperture_se"] == "")
        assert row["aperture_se"] == "" or float(row["aperture_se"]) == pytest.approx(kept["aperture_se"], rel=1e-5)
        assert (row["aperture_se"] == "" or row["focus_disparity_se"] == "") == bool(row["lens_note"])


def test_a_photo_without_blur_says_so(run):
    again = Run.load(run.folder)
    with torch.no_grad():
        again.lens.raw_aperture[0] = -12.0
    first, *others = measured(again)
    assert first.aperture_se is None and first.focus_disparity_se is None and first.stops is None
    assert "sharp all over" in first.note and not any("sharp all over" in one.note for one in others)


def test_real_units_by_hand(run):
    """A lens of focal length f and f-number N has the diameter f / N."""
    unit, sensor = 0.25, 24.0
    width, focal = run.setting.size[0], run.setting.focal[0]
    one = measured(run, Scale(unit, "a ruler"), sensor)[0]
    focal_mm = sensor * focal / width
    assert one.focal_length_mm == pytest.approx(focal_mm)
    assert one.diameter_mm == pytest.approx(2 * one.aperture / focal * unit * 1000)
    assert one.f_number == pytest.approx(focal_mm / one.diameter_mm)
    assert one.focus_m == pytest.approx(unit * one.focus_depth)
    # Focused at the hyperfocal distance H, infinity blurs to c = f² / (N H) on the sensor: 1/1500 of its diagonal.
    diagonal = math.hypot(sensor, sensor * run.setting.size[1] / width)
    assert focal_mm**2 / (one.f_number * 1000 * one.hyperfocal_m) == pytest.approx(diagonal / 1500)
    near, far = one.focus_range() or (one.focus_depth, one.focus_depth)
    assert near <= one.focus_depth <= far


def test_the_command_prints_writes_and_draws(run, tmp_path, capsys):
    table, plot = tmp_path / "lens.csv", tmp_path / "lens.png"
    assert main(["lens", str(run.folder), "--csv", str(table), "--plot", str(plot), "--unit", "0.5"]) == 0
    words = capsys.readouterr().out
    assert "f-number" in words and "1 scene unit = 0.5 m by --unit" in words and "36 mm wide is assumed" in words
    with open(table, encoding="utf-8", newline="") as file:
        assert [row["photo"] for row in csv.DictReader(file)] == list(run.setting.photos)
    assert plot.stat().st_size > 10_000
    assert main(["lens", str(run.folder)]) == 0
    assert "scale    unknown" in capsys.readouterr().out


def test_a_run_without_a_lens_is_refused(tmp_path, capsys):
    bare = train(scene(), without_lens(config((2, 2, 0))), out=tmp_path / "run", keep=QUIET)
    assert main(["lens", str(bare.folder)]) == 2
    assert "without a lens model" in capsys.readouterr().err
