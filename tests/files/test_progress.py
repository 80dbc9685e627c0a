"""The one progress bar: lines without a terminal, a bar on one."""

from __future__ import annotations

import io
import re
import threading

import pytest
from rich.console import Console

from dofnerf.files import progress
from dofnerf.files.progress import Progress, track


def lines_of(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_without_a_terminal_each_kept_task_leaves_one_line(capsys):
    with Progress(keep=True) as bar:
        for done in range(4):
            bar.update(done, label="features", total=3)
        bar.update(2, label="poses", total=3)
        bar.say("one photo has no pose")
        bar.update(1, label="writing", total=3)
    assert lines_of(capsys.readouterr().err) == [
        "dofnerf: features 3 of 3", "dofnerf: poses 2 of 3", "dofnerf: one photo has no pose", "dofnerf: writing 1 of "
        "3",
    ]  # fmt: skip
    with Progress(keep=True, quiet=True) as bar:
        bar.update(3, label="features", total=3)
        bar.say("nothing")
    assert capsys.readouterr().err == ""


def test_without_a_terminal_a_long_task_says_now_and_then_how_far_it_is(capsys, monkeypatch):
    with Progress("render", 100) as bar:
        for _ in range(100):
            bar.advance()
    assert capsys.readouterr().err == ""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("train", 100.0) as bar:
        for i in range(100):
            now[0] += 2
            bar.advance(message=f"step {i + 1}")
    assert lines_of(capsys.readouterr().err) == [
        f"dofnerf: train {done}% step {done} {words} left"
        for done, words in (
            (13, "3 min"), (26, "2 min"), (39, "2 min"), (52, "2 min"), (65, "70 s"), (78, "44 s"), (91, "18 s"),
        )
    ]  # fmt: skip


def test_without_a_terminal_silence_is_broken_although_nothing_moves_on(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    said = threading.Event()
    write = Progress._write
    monkeypatch.setattr(Progress, "_write", lambda self, line: (write(self, line), said.set()))
    with Progress("start", 100):
        assert said.wait(30)
    assert "dofnerf: start" in capsys.readouterr().err


@pytest.mark.parametrize("total", [1240, 1240.0])
def test_80_columns_have_room_for_percentage_and_time_left(monkeypatch, total):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=80))
    now = [0.0]
    with Progress("pinhole", total) as bar:
        bar._bars.get_time = lambda: now[0]
        for step in range(0, 640, 20):
            now[0] += 10
            bar.update(
                step,
                "PSNR 23.45  1,234,567 rays/s  aperture 0.01234 to 5.678  focus 1.234 to 8.901",
                label="sub-apertures",
            )
        screen.seek(0)
        screen.truncate()
        bar._bars.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert " 50%" in shown and "05:10" in shown and "PSNR" in shown
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]", shown))


def test_on_a_terminal_a_bar_is_drawn_and_lines_stay_above_it(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
    with Progress("render", 4) as bar:
        bar.advance(2, "32.1 dB")
        bar.say("one line")
    assert "2/4" in screen.getvalue() and "32.1 dB" in screen.getvalue() and "dofnerf: one line" in screen.getvalue()


def test_track_gives_the_items_and_passes_errors_on(capsys):
    assert list(track([3, 4, 5], "views")) == [3, 4, 5] and capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):
        for item in track([1, 0], "views"):
            _ = 1 / item
