"""All cells of an experiment: those that are done stay done, the others go to an engine, a bar tells how far the whole
is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dofnerf.evaluate.command import LpipsConfig
from dofnerf.lab.bench.cell import Cell, Findings, expect_same_run, read_findings
from dofnerf.lab.bench.engines import LOST, Engine
from dofnerf.lab.bench.estimate import in_words, seconds_of, slowness, steps_done
from dofnerf.lab.bench.work import lacks_lpips

TRIES = 2  # of a cell whose worker was lost
_LOOK = 1.0  # seconds between looks at the logs


@dataclass
class Outcomes:
    """By the cells' keys: what they found, or why they could not."""

    found: dict[str, Findings] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def already_done(cells: Sequence[Cell], out: Path, lpips: LpipsConfig | None = None) -> Outcomes:
    """What earlier runs left; a cell that was begun otherwise is refused before any other is."""
    found = {cell.key: read_findings(cell, out) for cell in cells}
    lacking = [key for key, value in found.items() if value is not None and lacks_lpips(value)]
    if lacking and lpips is not None and not isinstance(lpips.find(), str):
        found |= dict.fromkeys(lacking)  # their runs are done, and only scored again
    for cell in cells:
        if found[cell.key] is None:
            expect_same_run(cell, out)
    return Outcomes({key: value for key, value in found.items() if value is not None})


def announce(cells: Sequence[Cell], done: Outcomes, pixels: dict[str, int], jobs: int) -> float:
    """Say how long it will take, roughly; returns seconds. `pixels` of the photos by the cells' keys."""
    finished = [(cell, done.found[cell.key], pixels[cell.key]) for cell in cells if cell.key in done.found]
    left = [cell for cell in cells if cell.key not in done.found]
    if not left:
        print(f"cells    {len(cells)}, all done before", flush=True)
        return 0.0
    total = sum(seconds_of(cell, pixels[cell.key]) for cell in left) * slowness(finished) / min(jobs, len(left))
    before = f", {len(finished)} done before" if finished else ""
    print(f"cells    {len(cells)}{before}; {len(left)} to do, roughly {in_words(total)}", flush=True)
    return total


def work_off(cells: Sequence[Cell], out: Path, done: Outcomes, by: Engine, pixels: dict[str, int]) -> Outcomes:
    """Do what is left; a cell that fails does not keep the others from being done."""
    waiting = [cell for cell in cells if cell.key not in done.found]
    tries = dict.fromkeys((cell.key for cell in waiting), 0)
    weights = {cell.key: seconds_of(cell, pixels[cell.key]) for cell in cells}
    running: dict[str, Cell] = {}
    interrupted = True
    with _Bar(cells, out, done, weights, running) as bar:
        try:
            while waiting or running:
                while waiting and len(running) < by.slots:
                    cell = waiting.pop(0)
                    running[cell.key] = cell
                    tries[cell.key] += 1
                    by.begin(cell)
                cell, words = by.next()
                del running[cell.key]
                found = None if words else read_findings(cell, out)
                if found is not None:
                    done.found[cell.key] = found
                    bar.say(f"done     {cell.key}{_figure(found)}")
                elif words.startswith(LOST) and tries[cell.key] < TRIES:
                    bar.say(f"lost     {cell.key}: {words}; once more")
                    waiting.append(cell)
                else:
                    done.failed[cell.key] = words or "it left no findings"
                    bar.say(f"failed   {cell.key}: {done.failed[cell.key]}")
            interrupted = False
        finally:
            by.end(interrupted)
    return done


def _figure(found: Findings) -> str:
    value = found.get("mean", {}).get("psnr")
    return f"  PSNR {value:.2f}" if isinstance(value, float) else ""


class _Bar:
    """Seconds of work by the estimate, which steps in the logs turn into shares; drawn if stderr is a terminal."""

    def __init__(
        self, cells: Sequence[Cell], out: Path, done: Outcomes, weights: dict[str, float], running: dict[str, Cell]
    ) -> None:
        self.cells, self.out, self.done, self.weights, self.running = cells, out, done, weights, running
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.fields[words]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
        )
        self.bar = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self.task = self.bar.add_task("", total=sum(weights.values()), words="")
        self.bar.update(self.task, completed=self.complete(), words=self.words())
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def complete(self) -> float:
        """Seconds of work that are done."""
        whole = sum(self.weights[key] for key in [*self.done.found, *self.done.failed])
        now = list(self.running.values())
        steps = steps_done(now, self.out)
        return whole + sum(self.weights[c.key] * steps.get(c.key, 0) / c.config.steps.total for c in now)

    def words(self) -> str:
        return f"{len(self.done.found) + len(self.done.failed)} of {len(self.cells)} cells"

    def say(self, words: str) -> None:
        self.bar.console.print(words, markup=False, highlight=False) if not self.bar.disable else print(
            words, flush=True
        )

    def _watch(self) -> None:
        while not self.over.wait(_LOOK):
            self.bar.update(self.task, completed=self.complete(), words=self.words())

    def __enter__(self) -> _Bar:
        self.bar.start()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self.bar.stop()
