"""Who does the cells of an experiment: processes, a real Ray, and what happens when a worker is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace

import pytest
from tiny_world import config

from dofnerf.cli import main
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.lab.bench import engines, experiment, schedule
from dofnerf.lab.bench.cell import Cell, Outcomes, SceneChoice, read_findings, write_findings
from dofnerf.lab.bench.results import read_results
from dofnerf.lab.bench.schedule import in_words, seconds_of, slowness, work_off
from dofnerf.train import Run


@pytest.fixture
def cells(small_folder):
    made = config((2, 1, 0), search=False, refits=())
    return [
        Cell(f"room/{name}", "train", SceneChoice(str(small_folder)), replace(made, seed=k))
        for k, name in enumerate("abc")
    ]


def test_a_killed_process_costs_only_its_cell(cells, tmp_path):
    pool = engines.Processes(tmp_path, LpipsConfig(), 2)
    pool.begin(cells[0])
    pool.begin(cells[1])
    victim = next(process for process, cell in pool.running.values() if cell is cells[0])
    os.kill(victim.pid, signal.SIGKILL)
    ends = {cell.key: words for cell, words in (pool.next(), pool.next())}
    pool.end(False)
    assert ends == {"room/a": "its worker was lost (signal 9)", "room/b": ""}
    assert read_findings(cells[0], tmp_path) is None
    assert isinstance(read_findings(cells[1], tmp_path)["mean"]["psnr"], float)


def test_processes_that_are_told_to_stop_leave_a_checkpoint(cells, tmp_path):
    endless = replace(cells[0], config=config((100_000, 1, 0), search=False, refits=()))
    pool = engines.Processes(tmp_path, LpipsConfig(), 1)
    pool.begin(endless)
    ((process, _),) = pool.running.values()
    log = endless.folder(tmp_path) / "run" / "log.txt"
    for _ in range(1200):
        if log.is_file() and "step 20 " in log.read_text():
            break
        time.sleep(0.05)
    assert os.getpgid(process.pid) != os.getpgid(0)  # a terminal's Ctrl-C does not reach it a second time
    pool.end(True)
    assert process.exitcode == 0 and not pool.running
    assert Run.load(endless.folder(tmp_path) / "run").learner.progress.step >= 20


@pytest.mark.parametrize(
    ("error", "words"), [(RuntimeError("no\nluck"), "RuntimeError: no luck"), (ValueError("x"), "x")]
)
def test_whatever_goes_wrong_fails_only_its_cell(cells, tmp_path, monkeypatch, error, words):
    def fails(*_):
        raise error

    monkeypatch.setattr(engines, "do_cell", fails)
    assert engines.attempt(cells[0], tmp_path, LpipsConfig(), None) == words


class Scripted:
    """An engine whose workers meet with what the script says; otherwise a cell is done at once."""

    def __init__(self, out, script, slots=2):
        self.out, self.script, self.slots, self.begun, self.ended = out, script, slots, [], None

    def begin(self, cell):
        self.begun.append(cell)

    def next(self):
        cell = self.begun.pop(0)
        words = self.script.get(cell.key, []).pop(0) if self.script.get(cell.key) else ""
        if words == "Ctrl-C":
            raise KeyboardInterrupt
        if not words:
            write_findings(cell, self.out, {"mean": {"psnr": 20.0}})
        return cell, words

    def end(self, interrupted):
        self.ended = interrupted


def test_lost_cells_are_tried_once_more_and_failed_ones_not(cells, tmp_path, capsys):
    pixels = {cell.key: 1000 for cell in cells}
    by = Scripted(tmp_path, {"room/a": [engines.LOST], "room/b": ["no such photo"]})
    done = work_off(Outcomes(cells), tmp_path, by, pixels)
    assert set(done.found) == {"room/a", "room/c"} and done.failed == {"room/b": "no such photo"}
    assert by.ended is False
    words = capsys.readouterr().out
    assert "lost     room/a" in words and "failed   room/b: no such photo" in words
    again = work_off(
        schedule.already_done(cells, tmp_path),
        tmp_path,
        Scripted(tmp_path, {"room/b": [engines.LOST] * 5}),
        pixels,
    )
    assert again.failed == {"room/b": engines.LOST}


def test_an_interrupt_ends_the_engine_and_keeps_what_is_done(cells, tmp_path):
    by = Scripted(tmp_path, {"room/b": ["Ctrl-C"]}, slots=1)
    with pytest.raises(KeyboardInterrupt):
        work_off(Outcomes(cells), tmp_path, by, {cell.key: 1000 for cell in cells})
    assert by.ended is True
    assert set(schedule.already_done(cells, tmp_path).found) == {"room/a"}


def test_a_real_ray_of_two_workers_that_loses_one(small_folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray", reason="the package ray is not installed (pip install 'dofnerf[ray]')")
    real, marker = engines.attempt, tmp_path / "lost-once"

    def sometimes_dies(cell, out, lpips, threads):
        if "/ours/" in cell.key and not marker.exists():
            marker.write_text("x")
            os._exit(1)
        return real(cell, out, lpips, threads)

    monkeypatch.setattr(engines, "attempt", sometimes_dies)
    monkeypatch.setattr(experiment, "preset", lambda name, field: config((2, 2, 0), field, search=False, refits=()))
    out = tmp_path / "out"
    arguments = [
        "bench",
        "shallow",
        "--scenes",
        str(small_folder),
        "--field",
        "hash",
        "--out",
        str(out),
        "--ray",
        "local",
        "--jobs",
        "2",
    ]
    assert main(arguments) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert "lost     card/hash/ours" in printed
    assert len(re.findall(r"^done ", printed, re.M)) == 3
    assert not any("not done" in value for row in read_results(out).tables[0].rows for value in row)


def test_a_damaged_result_is_named(cells, tmp_path):
    write_findings(cells[0], tmp_path, {})
    path = cells[0].folder(tmp_path) / "result.json"
    path.write_text("{half")
    with pytest.raises(ValueError, match=r"result\.json: not the result of a cell"):
        read_findings(cells[0], tmp_path)


def test_the_estimate_follows_what_cells_took(cells):
    cell = cells[0]
    longer = replace(cell, config=cell.config.changed({"method": {"lens_steps": 1001}}))
    assert seconds_of(longer, 1000) > seconds_of(cell, 1000) + 5
    assert slowness([(cell, {"seconds": 3 * seconds_of(cell, 1000)}, 1000)]) == pytest.approx(3)
    assert slowness([]) > 0
    assert [in_words(seconds) for seconds in (5, 600, 9000)] == ["5 s", "10 min", "2.5 h"]


@pytest.mark.parametrize("by_ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_a_polite_end_is_heard_also_in_a_shells_background(by_ctrl_c):
    handled, stops = engines.handled, engines.as_by_ctrl_c
    with handled(signal.SIGINT, by_ctrl_c), handled(signal.SIGTERM, stops), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_polite_end_is_told_from_ctrl_c():
    """By the number of the signal, from which the exit code is made: 143, not 130."""
    heard = []
    by_ctrl_c = engines.handled(signal.SIGINT, lambda number, frame: heard.append(number))
    with by_ctrl_c, engines.handled(signal.SIGTERM, engines.as_by_ctrl_c):
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]
