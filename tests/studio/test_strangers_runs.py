"""A run's folder that somebody else made: names that are more than names, links and pipes where we write."""

import io
import json
import os
import signal

import pytest
import torch
from rich.console import Console
from small_shots import write_run

from dofnerf.cli import main
from dofnerf.evaluate.charts import curve_chart, measured_plot, pixels_of
from dofnerf.evaluate.report.run_page import _STEP
from dofnerf.files.progress import Progress
from dofnerf.studio.viewer.films import Films
from dofnerf.train import KeepConfig, Run, checkpoint
from dofnerf.train.folder import Recorder
from dofnerf.train.measured import measured

NAMES = ("[/red].jpg", "[link=http://evil.example]a[/link].jpg", "$\\frac$ $x^$.jpg", ":bomb:.jpg")


@pytest.fixture(autouse=True)
def at_once():
    """Nothing here may wait for a pipe."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def rename(folder, **setting):
    """Change the words of a checkpoint, which then has no checksums."""
    data = (folder / checkpoint.FILE).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    words = json.loads(header["__metadata__"]["dofnerf"])
    words["setting"] |= setting
    del words["sha256"], words["sha256_of_words"]
    header["__metadata__"]["dofnerf"] = json.dumps(words)
    packed = json.dumps(header).encode()
    (folder / checkpoint.FILE).write_bytes(len(packed).to_bytes(8, "little") + packed + data[8 + length :])


def test_names_are_words_on_the_terminal_and_in_charts(tmp_path, capsys):
    write_run(tmp_path / "run")
    rename(tmp_path / "run", photos=list(NAMES), scene="$\\frac$ [/b]")
    plot = tmp_path / "plot.png"
    assert main(["lens", str(tmp_path / "run"), "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES) and plot.is_file()
    pixels_of(measured_plot(measured(Run.load(tmp_path / "run")), NAMES[2]))


def test_what_a_terminal_would_obey_in_a_name_is_written_out(tmp_path, capsys):
    """In the table, and in the notes: nobody knows the lens here."""
    write_run(tmp_path / "run")
    names = ["a\nscale    1 scene unit = 9 m", "\x1b[31mred\x1b]0;title\x07", "\u202egpj.exe", "\r\x08hid"]
    rename(tmp_path / "run", photos=names)
    learner = Run.load(tmp_path / "run").learner
    learner.precision = torch.full((4, 5), 1e6)
    checkpoint.write(tmp_path / "run" / checkpoint.FILE, checkpoint.pack(learner))
    assert main(["lens", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in shown) and "note " in shown
    assert not [line for line in shown.splitlines() if line.startswith("scale    1")]
    assert all(shown.count(repr(name)[1:-1]) == 2 for name in names)


def test_a_name_is_no_markup_in_the_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    with Progress("[/red]", 2, keep=True) as bar:
        bar.update(1, message=NAMES[0])
    assert NAMES[0] in screen.getvalue()


def test_stages_of_a_log_are_words():
    line = "step {}  {}  1.0 s  PSNR 20.0"
    assert _STEP.match(line.format(1, "sub-apertures"))[2] == "sub-apertures"
    assert _STEP.match(line.format(1, "lens rays"))
    for stage in ("$\\frac$", "a\x01b", "<b>"):
        assert _STEP.match(line.format(1, stage)) is None
    assert "<svg" in curve_chart({1: (20.0, "pinhole"), 2: (21.0, "lens rays")})


@pytest.mark.parametrize(
    "setting",
    [{"metres": 0.0}, {"metres": -1.0}, {"metres": 1e299}, {"focal_mm": [-1.0] * 4}, {"f_numbers": [-2.0] * 4}],
)
def test_absurd_scales_are_refused_by_name(tmp_path, capsys, setting):
    write_run(tmp_path / "run")
    rename(tmp_path / "run", **setting)
    assert main(["lens", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert checkpoint.FILE in error and "absurd" in error and error.count("\n") == 1


def test_films_that_lead_elsewhere_are_not_served(tmp_path):
    class Source:
        folder = tmp_path / "run"

    films = Films(Source, 64)
    films.folder.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (films.folder / "film-1.mp4").symlink_to(tmp_path / "secret")
    os.mkfifo(films.folder / "film-2.mp4")
    (films.folder / "film-3.mp4").write_bytes(b"film")
    assert films.open("film-1.mp4") is films.open("film-2.mp4") is films.open("film-4.mp4") is None
    with films.open("film-3.mp4") as film:
        assert film.read() == b"film"


@pytest.mark.parametrize("name", ["log.txt", "previews", "tensorboard"])
def test_training_goes_on_in_the_run_alone(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path.parent)
    with pytest.raises(ValueError, match=f"{name}: is a link"):
        Recorder(tmp_path, KeepConfig(), Progress(quiet=True), None)


def test_exports_stay_in_the_run(tmp_path, capsys):
    write_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run/export").symlink_to(tmp_path / "elsewhere")
    assert main(["export", str(tmp_path / "run"), "--html"]) == 2
    assert "export: is a link" in capsys.readouterr().err and not list((tmp_path / "elsewhere").iterdir())
    assert main(["export", str(tmp_path / "run"), "--html", "--out", str(tmp_path / "run/export")]) == 0  # as asked for


def test_a_pipe_for_blenders_script(tmp_path, capsys):
    write_run(tmp_path / "run")
    (tmp_path / "run/export/blender").mkdir(parents=True)
    os.mkfifo(tmp_path / "run/export/blender/cameras.py")
    assert main(["export", str(tmp_path / "run"), "--blender"]) == 2
    assert "cameras.py: not a regular file" in capsys.readouterr().err
