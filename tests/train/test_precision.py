"""Standard errors of each photo's lens: against repeated noise, and in a run's table."""

import csv
import fcntl
import math
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_world import QUIET, OnlyLens, config, scene

from dofnerf.camera import Camera
from dofnerf.cli import main
from dofnerf.models.base import View
from dofnerf.optics import LearnedLens, scatter_layers, split_layers
from dofnerf.optics.shapes import DISC, RealLens
from dofnerf.studio.flags import LensFlags
from dofnerf.studio.lens import line_of, summary
from dofnerf.train import Run, checkpoint, train, without_lens
from dofnerf.train.measured import measured
from dofnerf.train.photos.focal import FocalConfig, PhotoFocal
from dofnerf.train.precision import Slopes, covariance, slopes_of, standard_errors
from dofnerf.train.registration import robust_weights
from dofnerf.train.scale import Scale
from dofnerf.web import shape_facts


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


def sure(run, f_numbers=None):
    """The run again, as if the blur of each photo told its lens well."""
    again = Run.load(run.folder)
    again.learner.precision[:, 0] = 0.002 * again.lens.aperture.detach()
    again.learner.precision[:, 1] = 1e-4
    if f_numbers is not None:
        again.learner.setting = replace(again.setting, f_numbers=f_numbers, focal_mm=(24.0,) * 5)
    return again


def test_the_table_has_errors_that_a_checkpoint_keeps(run):
    with open(run.folder / "lens.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    again = Run.load(run.folder).photo_table()
    for row, kept in zip(rows, again, strict=True):
        assert (row["aperture_se"] == "") == (kept["aperture_se"] == "")
        assert row["aperture_se"] == "" or float(row["aperture_se"]) == pytest.approx(kept["aperture_se"], rel=1e-5)
        assert (row["aperture_se"] == "" or row["focus_disparity_se"] == "") == bool(row["lens_note"])


def test_photos_have_the_numbers_of_their_views(run):
    """Also where one before them is held out."""
    again = sure(run)
    again._views = (replace(again.views[0], name="held out", held_out=True), *again.views)
    rows = measured(again)
    assert [one.view for one in rows] == [1, 2, 3, 4, 5] and line_of(rows[0], None)["view"] == "1"


def test_a_photo_without_blur_says_so(run):
    again = sure(run)
    with torch.no_grad():
        again.lens.raw_aperture[0] = -12.0
    first, *others = measured(again, Scale(0.5, "a ruler"))
    numbers = (
        "aperture_se", "focus_disparity_se", "diameter", "hyperfocal", "stops", "stops_se", "diameter_mm", "f_number",
        "focus_m", "hyperfocal_m",
    )  # fmt: skip
    assert [getattr(first, name) for name in numbers] == [None] * len(numbers)
    assert not first.aperture_known and not first.focus_known and first.focus_range() is None
    assert "sharp all over" in first.note and not any(one.note for one in others)
    assert all(getattr(one, name) is not None for one in others for name in numbers)
    # It has no part in what stops are relative to.
    assert np.median([one.stops for one in others]) == pytest.approx(0, abs=0.3)
    assert again.optics.radius == pytest.approx(np.median([one.diameter / 2 for one in others]))


def test_a_photo_may_tell_one_and_not_the_other(run):
    again = sure(run)
    again.learner.precision[0, 0] = again.learner.precision[1, 1] = math.inf
    first, second, *_ = measured(again, Scale(0.5, "a ruler"))
    assert first.note == "its blur tells nothing of its aperture" and first.f_number is first.stops is None
    assert first.focus_m == pytest.approx(0.5 * first.focus_depth) and first.focus_range() is not None
    assert second.note == "its blur tells nothing of its focus" and second.focus_m is second.focus_range() is None
    assert second.f_number is not None and second.stops_se is not None


def test_photos_that_share_an_aperture_tell_it_together(run):
    """Before what is common to all: two that tell it equally well are surer by √2, and a sharp one knows it from
    them."""
    alone, again = sure(run), sure(run)
    with torch.no_grad():
        for one in (alone, again):
            one.lens.raw_aperture[:] = one.lens.raw_aperture[2]
            one.learner.precision[:, 0] = 0.002 * one.lens.aperture[2]
    again.learner.precision[0, 0] = math.inf
    again.lens.groups[:] = torch.tensor([0, 0, 0, 3, 4])
    own = standard_errors(alone.learner, common=False)["aperture"][0]
    told = standard_errors(again.learner, common=False)["aperture"]
    assert told == pytest.approx([own / math.sqrt(2)] * 3 + [own] * 2)
    again.learner.precision[1:3, 0] = math.inf
    assert standard_errors(again.learner)["aperture"][:3] == [None] * 3
    # One that blurs nothing, for it is focused where all of the scene is.
    again.learner.precision[1:3, 0] = alone.learner.precision[1:3, 0]
    again.learner.lens.seen[:] = again.lens.focus_disparity[0].detach()
    with torch.no_grad():
        again.lens.raw_focus[1:] = 3.0
    assert measured(again)[0].note == "its blur tells nothing of its focus" and measured(again)[0].aperture_known


def test_what_was_given_is_not_measured(run):
    """It is known, without a standard error, and says that it was given; no scale comes from it."""
    again = sure(run, f_numbers=(2.0,) * 5)
    assert again.optics.scale is not None
    again.learner.setting = replace(again.setting, apertures=(3.0,) * 5, focuses=(0.5,) * 4 + (None,))
    again.lens.learn(aperture=False)
    first = measured(again, Scale(0.5, "a ruler"))[0]
    assert first.aperture_se is first.stops_se is first.stops_from_exif is None and first.f_number is not None
    assert first.aperture_known and first.focus_range() is not None
    assert first.note == "its aperture was given, not measured" and again.optics.scale is None
    again.lens.learn(aperture=False, focus=False)
    with torch.no_grad():
        again.lens.raw_aperture[0] = -12.0
    first, *_, last = measured(again)
    assert first.note == "its aperture was given, not measured; its focus was given, not measured"
    assert first.focus_known and first.focus_disparity_se is None
    assert last.note == "its aperture was given, not measured; its focus was not learned" and not last.focus_known


def test_where_few_pixels_count_blocks_are_smaller():
    """Half of a small photo is masked: its errors are known, and about those of the half alone."""
    generator = torch.Generator().manual_seed(5)
    slopes, noise = torch.randn(54, 96, 3, 9, generator=generator), torch.randn(54, 96, 3, generator=generator)
    weight = torch.ones(54, 96, 3)
    weight[:, 48:] = 0
    half = np.sqrt(np.diag(covariance(Slopes(noise, slopes, weight))))
    alone = np.sqrt(np.diag(covariance(Slopes(noise, slopes, weight), 8)))
    assert half == pytest.approx(alone, rel=0.7)


def test_differences_between_photos_are_surer_than_apertures(run):
    """An error common to all photos is in an f-number by a ruler; not in stops from the median lens, nor where
    the scale comes from EXIF's f-numbers."""
    again = sure(run, f_numbers=(2.0,) * 5)
    by_ruler, by_exif = measured(again, Scale(0.5, "a ruler"))[0], measured(again)[0]
    own = 2 / math.log(2) * by_ruler.aperture_se / by_ruler.aperture
    assert by_ruler.stops_from_exif_se == pytest.approx(own) and by_ruler.stops_se < 0.9 * own
    assert by_exif.stops_from_exif_se == pytest.approx(by_exif.stops_se) == pytest.approx(by_ruler.stops_se)
    assert np.median([one.stops_from_exif for one in measured(again)]) == pytest.approx(0, abs=1e-5)


def test_the_f_number_of_blades_is_by_their_area(run):
    """A square in a circle of radius R has the area 2 R²; EXIF's scale takes that into account too."""
    plain = sure(run, f_numbers=(2.0,) * 5)
    round_, scale = measured(plain, Scale(0.5, "a ruler"))[0], plain.optics.scale
    plain.lens.shape = RealLens(blades=4)
    square = measured(plain, Scale(0.5, "a ruler"))[0]
    assert math.pi / 4 * square.diameter_mm**2 == pytest.approx(2 * (round_.diameter_mm / 2) ** 2, rel=1e-3)
    assert square.f_number == pytest.approx(round_.f_number * math.sqrt(math.pi / 2), rel=1e-3)
    assert square.hyperfocal == pytest.approx(round_.hyperfocal * math.sqrt(2 / math.pi), rel=1e-3)
    assert plain.optics.scale.metres == pytest.approx(scale.metres * math.sqrt(math.pi / 2), rel=1e-3)


def test_an_f_number_that_was_measured_opens_the_same_lens(run):
    """--fstop with --shape learned is by the area of the opening, as the measurement; a disc is as wide as its f-number
    says. A page is told what it needs to say so."""
    again = sure(run, f_numbers=(2.0,) * 5)
    again.lens.shape = RealLens(blades=4)
    camera = Camera(np.eye(4)[:3], again.setting.focal[0], again.setting.focal[0], 32.0, 24.0, *again.setting.size)
    one, optics = measured(again, Scale(0.5, "a ruler"))[0], again.optics
    for shape, aperture in (("learned", one.aperture), ("disc", one.aperture * optics.filled)):
        flags = LensFlags(shape=shape, fstop=one.f_number, unit=0.5)
        assert flags.opening(camera, optics)[0] == pytest.approx(aperture)
    facts = shape_facts(again.lens.shape, 256)
    assert facts["filled"] == pytest.approx(math.sqrt(2 / math.pi), rel=1e-3) and "filled" not in shape_facts(DISC, 256)


def test_a_refined_focal_length_counts(run):
    """A lens of the same aperture before a longer focal length is narrower."""
    again = sure(run)
    given = measured(again, Scale(0.5, "a ruler"))
    zoom = PhotoFocal.make(FocalConfig(), again.setting)
    zoom.log_zoom[0] = 0.1
    again.learner.quantities.by_name["focal"] = zoom
    refined, table = measured(again, Scale(0.5, "a ruler")), again.photo_table()
    for i, factor in enumerate([math.exp(-0.1), *[1.0] * 4]):
        assert refined[i].diameter == pytest.approx(factor * given[i].diameter)
        assert refined[i].diameter_mm == pytest.approx(factor * given[i].diameter_mm)
        assert table[i]["focal_pixels"] == pytest.approx(again.setting.focal[i] / factor)
        assert table[i]["lens_radius"] == pytest.approx(refined[i].diameter / 2)
    radii = [one.diameter / 2 for one in refined]
    assert again.optics.radius == pytest.approx(np.median(radii))


def test_a_given_sensor_stands_instead_of_exifs_focal_lengths(run):
    again = sure(run, f_numbers=(2.0,) * 5)
    focal, (width, height) = again.setting.focal[0], again.setting.size
    own, other = measured(again)[0], measured(again, sensor_width=10.0)[0]
    assert own.focal_length_mm == 24 and other.focal_length_mm == pytest.approx(10 * focal / max(width, height))
    assert other.diameter_mm == pytest.approx(own.diameter_mm * other.focal_length_mm / 24)  # both f/2 on the median


def test_real_units_by_hand(run):
    """A lens of focal length f and f-number N has the diameter f / N."""
    unit, sensor = 0.25, 24.0
    width, focal = run.setting.size[0], run.setting.focal[0]
    one = measured(sure(run), Scale(unit, "a ruler"), sensor)[0]
    focal_mm = sensor * focal / width
    assert one.focal_length_mm == pytest.approx(focal_mm)
    assert one.diameter_mm == pytest.approx(2 * one.aperture / focal * unit * 1000)
    assert one.f_number == pytest.approx(focal_mm / one.diameter_mm)
    assert one.focus_m == pytest.approx(unit * one.focus_depth)
    # Focused at the hyperfocal distance H, infinity blurs to c = f² / (N H) on the sensor: 1/1500 of its diagonal.
    diagonal = math.hypot(sensor, sensor * run.setting.size[1] / width)
    assert focal_mm**2 / (one.f_number * 1000 * one.hyperfocal_m) == pytest.approx(diagonal / 1500)
    near, far = one.focus_range()
    assert near < one.focus_depth < far


def test_focus_at_infinity_has_a_near_end(run):
    one = replace(measured(sure(run))[0], focus_depth=math.inf, focus_disparity_se=0.01)
    assert one.focus_range() == (pytest.approx(100), math.inf)


@pytest.fixture(scope="module")
def told(run, tmp_path_factory):
    """The folder of a run whose photos tell their lens, but for one that is sharp all over."""
    again = sure(run)
    with torch.no_grad():
        again.lens.raw_aperture[1] = -12.0
    folder = tmp_path_factory.mktemp("told") / "run"
    folder.mkdir()
    checkpoint.write(folder / checkpoint.FILE, checkpoint.pack(again.learner))
    return folder


def in_a_terminal(width, *words):
    """What a command prints in a window so many characters wide, as lines."""
    screen, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "dofnerf", *map(str, words)]
    with subprocess.Popen(command, stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        parts = []
        try:
            while part := os.read(screen, 65536):
                parts.append(part)
        except OSError:  # how the end of a terminal's output is told
            pass
        finally:
            os.close(screen)
    assert process.returncode == 0
    return b"".join(parts).decode().replace("\r", "").splitlines()


def test_a_sharp_photo_has_words_instead_of_numbers(told, tmp_path, capsys):
    assert main(["lens", str(told), "--unit", "0.5", "--csv", str(tmp_path / "all.csv")]) == 0
    words = capsys.readouterr().out.splitlines()
    (row,) = [line for line in words if line.startswith("view-1 ")]
    assert row.count("not known") == 2 and "±" not in row and "f/" not in row
    assert "note     view-1: sharp all over: tells neither aperture nor focus" in words
    with open(tmp_path / "all.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {name for name, value in rows[1].items() if value} == {"photo", "focal_length_mm", "note"}
    assert all(rows[0][name] for name in ("aperture", "aperture_se", "focus_depth", "f_number", "focus_m", "stops"))


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_window_drops_columns_not_digits(told, width):
    lines = in_a_terminal(width, "lens", told, "--unit", "0.5")
    (left_out,) = [line for line in lines if line.startswith("columns  left out")]
    assert "hyperfocal" in left_out and "--csv FILE" in left_out
    whole = next(one for one in measured(Run.load(told), Scale(0.5, "a ruler")) if one.photo == "view-0")
    near, far = (f"{0.5 * end:.3g}" for end in whole.focus_range())
    (row,) = [line for line in lines if line.startswith("view-0 ")]
    assert f"f/{whole.f_number:.3g} ±" in row and f"{whole.focus_m:.3g} ({near} … {far})" in row
    assert width == 40 or len(row) <= width


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--unit", "0"], ["--unit", "positive", "found 0"]),
        (["--unit", "nan"], ["--unit", "found nan"]),
        (["--unit", "1e12"], ["--unit", "metres", "found 1e+12"]),
        (["--sensor-width", "-1"], ["--sensor-width", "found -1"]),
        (["--sensor-width", "1e9"], ["--sensor-width", "0.1 to 1000 mm", "found 1e+09"]),
        (["--plot", "a.txt"], ["--plot a.txt", ".png"]),
        (["--csv", "a.png"], ["--csv a.png", ".csv"]),
    ],
)
def test_what_makes_no_sense_is_refused(told, flags, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["lens", str(told), *flags]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words) and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_runs_own_table_is_not_replaced(run, tmp_path, capsys):
    before = (run.folder / "lens.csv").read_bytes()
    (tmp_path / "link").symlink_to(run.folder)
    for path in (run.folder, run.folder.parent, run.folder / checkpoint.FILE):  # it is found by each
        assert main(["lens", str(path), "--csv", str(tmp_path / "link" / "lens.csv")]) == 2
        assert "the run's own table" in capsys.readouterr().err
        assert (run.folder / "lens.csv").read_bytes() == before


def test_a_run_that_is_not_there(tmp_path, capsys):
    assert main(["lens", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_command_prints_writes_and_draws(told, run, tmp_path, capsys):
    table, plot = tmp_path / "lens.csv", tmp_path / "lens.png"
    assert main(["lens", str(told), "--csv", str(table), "--plot", str(plot), "--unit", "0.5"]) == 0
    words = capsys.readouterr().out
    assert (
        "f-number" in words
        and "1 scene unit = 0.5 m by --unit" in words
        and "36 mm wide, along the longer side" in words
    )
    with open(table, encoding="utf-8", newline="") as file:
        assert [row["photo"] for row in csv.DictReader(file)] == list(run.setting.photos)
    assert plot.stat().st_size > 10_000
    for flags in ([], ["--sensor-width", "24"]):
        assert main(["lens", str(told), *flags]) == 0
        shown = capsys.readouterr().out
        assert "scale    unknown" in shown and ("note     --sensor-width changes nothing" in shown) == bool(flags)


def test_the_summary_speaks_of_what_is_known(run):
    """Of no median lens where there is none; one photo has no median."""
    again, ruler = sure(run, f_numbers=(2.0, None, None, None, None)), Scale(0.5, "a ruler")
    assert "stops are from the median lens" in "".join(summary(again.optics, measured(again), None))
    (line,) = [line for line in summary(again.optics, measured(again, ruler), ruler) if line.startswith("EXIF ")]
    assert line.endswith("than it says (one photo)")
    again.learner.precision[:, 0] = math.inf
    words = "".join(summary(again.optics, measured(again), None))
    assert "stops" not in words and "scale    unknown: distances in scene units" in words


def test_a_run_without_a_lens_is_refused(tmp_path, capsys):
    bare = train(scene(), without_lens(config((2, 2, 0))), out=tmp_path / "run", keep=QUIET)
    assert main(["lens", str(bare.folder)]) == 2
    assert "without a lens model" in capsys.readouterr().err


def test_what_looks_alike_or_like_nothing_is_not_known():
    """Two slopes that are the same but for a factor, and one that is 0: a photo of one plane, a blank photo."""
    generator = torch.Generator().manual_seed(1)
    slopes = torch.randn(64, 96, 3, 4, generator=generator)
    slopes[..., 1], slopes[..., 2] = -2.5 * slopes[..., 0], 0.0
    noise, weight = torch.randn(64, 96, 3, generator=generator), torch.ones(64, 96, 3)
    errors = np.sqrt(np.diag(covariance(Slopes(noise, slopes, weight), 8)))
    alone = np.sqrt(np.diag(covariance(Slopes(noise, slopes[..., 3:], weight), 8)))
    assert np.isinf(errors[:3]).all() and errors[3] == pytest.approx(alone[0], rel=0.1)


def test_masked_pixels_are_no_observations():
    """As if the masked part of the photo were cut off."""
    generator = torch.Generator().manual_seed(2)
    slopes, noise = torch.randn(40, 64, 3, 3, generator=generator), torch.randn(40, 64, 3, generator=generator)
    mask = torch.ones(40, 64)
    mask[:, 24:] = 0
    whole = covariance(Slopes(noise * mask[..., None], slopes, robust_weights(noise * mask[..., None], mask)), 8)
    part = covariance(Slopes(noise[:, :25], slopes[:, :25], robust_weights(noise[:, :25])), 8)
    assert np.sqrt(np.diag(whole)) == pytest.approx(np.sqrt(np.diag(part)), rel=0.1)


def test_blocks_without_weight_are_no_observations():
    """Their number is in the correction for few of them, and where there are too few, nothing is known."""
    generator = torch.Generator().manual_seed(4)
    slopes, noise = torch.randn(96, 128, 3, 4, generator=generator), torch.randn(96, 128, 3, generator=generator)
    weight = torch.zeros(96, 128, 3)
    weight[:32, :48] = 1.0  # 24 of 192 blocks of 8 × 8
    whole, part = (
        covariance(Slopes(*found), 8)
        for found in ((noise, slopes, weight), (noise[:32, :48], slopes[:32, :48], weight[:32, :48]))
    )
    np.testing.assert_allclose(whole, part)
    weight[:, 8:], weight[24:] = 0.0, 0.0  # three blocks, of four parameters
    assert np.isinf(covariance(Slopes(noise, slopes, weight), 8)).all()


@pytest.mark.parametrize("size", [(168, 252), (112, 168), (64, 96), (54, 96), (48, 64), (64, 256)])
def test_a_small_picture_has_enough_blocks(size):
    generator = torch.Generator().manual_seed(5)
    slopes, noise = torch.randn(*size, 3, 9, generator=generator), torch.randn(*size, 3, generator=generator)
    assert np.isfinite(covariance(Slopes(noise, slopes, robust_weights(noise)))).all()


def slopes_before(depths, disparity, clipped=0, masked=0, learn=(True, True)):
    """Slopes of a photo of noise on vertical stripes at these depths, focused at a disparity, by the finite differences
    that a run has. So many columns from the left are brighter than white, or masked."""
    size, generator = (48, 64), torch.Generator().manual_seed(3)
    stripe = torch.arange(size[1]) * len(depths) // size[1]
    place = (1 / torch.tensor(depths, dtype=torch.float32))[stripe].expand(size)
    picture = torch.rand(*size, 3, generator=generator)
    picture[:, :clipped] += 2.0
    lens = LearnedLens(1, 2.0, 6.0, aperture=12.0, focus_disparity=disparity).learn(*learn)
    with torch.no_grad():
        lens.raw_focus -= 40.0 * (disparity == 0)  # as near to infinity as it may learn
    shown = View(picture, place, torch.ones(size))
    layers = split_layers(picture, place, len(depths))
    photo = scatter_layers(layers.colour, layers.alpha, 12.0 * (disparity - layers.disparity))
    camera = Camera(np.eye(4)[:3], 50.0, 50.0, 32.0, 24.0, 64, 48)
    model = SimpleNamespace(is_quick=True, layers=lambda *_: (shown, layers))
    learner = SimpleNamespace(
        model=model, lens=lens, quantities=OnlyLens(lens), config=SimpleNamespace(light=2.2),
        setting=SimpleNamespace(disparities=(1 / 6, 1 / 2)),
    )  # fmt: skip
    noisy = photo + 0.01 * torch.randn(photo.shape, generator=generator)
    noisy = noisy.clamp(max=1.0) if clipped else noisy
    mask = (torch.arange(size[1]) >= masked).float().expand(size) if masked else None
    data = SimpleNamespace(size=size, cameras=[camera], mask=lambda _: mask, shrunk=lambda *_: noisy)
    with torch.no_grad():
        return slopes_of(learner, data, 0)


def test_a_photo_of_one_plane_tells_neither_aperture_nor_focus():
    """A wider lens and a farther focus blur it alike; of two planes, one becomes sharper where the other does not."""
    aperture, focus, *others = np.diag(covariance(slopes_before([3.0], 1 / 2)))
    assert math.isinf(aperture) and math.isinf(focus) and math.isfinite(others[0])
    assert np.isfinite(np.diag(covariance(slopes_before([2.2, 5.0], 1 / 3)))[:2]).all()


def test_white_areas_tell_nothing():
    """Of a photo whose left two thirds are clipped, and shown brighter: as if they were masked."""
    white, masked = slopes_before([2.2, 5.0], 1 / 3, clipped=40), slopes_before([2.2, 5.0], 1 / 3, masked=40)
    errors, expected = (np.sqrt(np.diag(covariance(one, 6))) for one in (white, masked))
    np.testing.assert_allclose(errors[:2], expected[:2], rtol=0.15)


def test_nothing_depends_on_what_was_given():
    """In a photo of one plane, the focus is known if the aperture is."""
    aperture, focus = np.diag(covariance(slopes_before([3.0], 1 / 2, learn=(False, True))))[:2]
    assert math.isinf(aperture) and math.isfinite(focus)


def test_focus_at_infinity_has_slopes():
    slopes, near = (slopes_before([2.2, 5.0], disparity).slopes for disparity in (0.0, 0.002))
    sizes, expected = (part[..., :2].square().mean((0, 1, 2)).sqrt() for part in (slopes, near))
    np.testing.assert_allclose(sizes, expected, rtol=0.1)


def test_a_plane_in_focus_tells_where_focus_is_not_how_wide():
    """Blur of a plane in focus grows alike to both sides, so there is no slope in either."""
    slopes = slopes_before([3.0], 1 / 3).slopes
    assert float(slopes[..., :2].abs().max()) < 1e-3 * float(slopes[..., 2].abs().max())
