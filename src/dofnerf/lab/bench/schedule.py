"""The cells of an experiment: what is done stays done, the rest goes to an engine; how long it will take, and how far
it is.

Estimates are seconds per step as measured for docs/results.md, with photos of 252×168 and 2304 rays, times how much
slower this machine is; once cells of the experiment are done, their times tell that.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch

from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.files.progress import Progress, in_words
from dofnerf.lab.bench.cell import RUN, Cell, Findings, Outcomes, expect_same_run, read_findings
from dofnerf.lab.bench.engines import LOST, Engine
from dofnerf.lab.bench.work import lacks_lpips
from dofnerf.train.folder import LOG

TRIES = 2  # of a cell whose worker was lost
SECONDS = {"splat": (0.05, 0.06), "hash": (0.17, 0.16), "nerf": (40.0, 40.0), "dsnerf": (40.0, 40.0)}  # no lens, lens
BEGIN = {"splat": 15.0}  # seconds: the starting points of splats
AROUND = 12.0  # seconds: imports, photos, scores
PIXELS, RAYS = 252 * 168, 2304
_PROBE = 0.11  # seconds of `probe` on the machine of docs/results.md
_INTERVAL = 1.0  # seconds between readings of the logs
_STEP = re.compile(r"step (\d{1,9}) ")


def already_done(cells: Sequence[Cell], out: Path, lpips: LpipsConfig | None = None) -> Outcomes:
    """What earlier runs left; a cell that was begun with other settings is refused before any work is done."""
    found = {cell.key: read_findings(cell, out) for cell in cells}
    lacking = [key for key, value in found.items() if value is not None and lacks_lpips(value)]
    if lacking and lpips is not None and not isinstance(lpips.find(), str):
        found |= dict.fromkeys(lacking)  # their runs are done, and only scored again
    for cell in cells:
        if found[cell.key] is None:
            expect_same_run(cell, out)
    return Outcomes(cells, {key: value for key, value in found.items() if value is not None})


def announce(done: Outcomes, pixels: dict[str, int], jobs: int) -> float:
    """Say how long it will take, roughly; returns seconds. `pixels` of the photos by the cells' keys."""
    cells = done.cells
    finished = [(cell, done.found[cell.key], pixels[cell.key]) for cell in cells if cell.key in done.found]
    left = [cell for cell in cells if cell.key not in done.found]
    if not left:
        print(f"cells    {len(cells)}, all done before", flush=True)
        return 0.0
    total = sum(seconds_of(cell, pixels[cell.key]) for cell in left) * slowness(finished) / min(jobs, len(left))
    before = f", {len(finished)} done before" if finished else ""
    print(f"cells    {len(cells)}{before}; {len(left)} to do, roughly {in_words(total)}", flush=True)
    return total


def work_off(done: Outcomes, out: Path, by: Engine, pixels: dict[str, int]) -> Outcomes:
    """Do what is left; a cell that fails does not keep the others from being done."""
    waiting = [cell for cell in done.cells if cell.key not in done.found]
    tries = dict.fromkeys((cell.key for cell in waiting), 0)
    running: dict[str, Cell] = {}
    interrupted = True
    with _progress(done, out, {cell.key: seconds_of(cell, pixels[cell.key]) for cell in done.cells}, running):
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
                    print(f"done     {cell.key}{_figure(found)}", flush=True)
                elif words.startswith(LOST) and tries[cell.key] < TRIES:
                    print(f"lost     {cell.key}: {words}; once more", flush=True)
                    waiting.append(cell)
                else:
                    done.failed[cell.key] = words or "it left no findings"
                    print(f"failed   {cell.key}: {done.failed[cell.key]}", flush=True)
            interrupted = False
        finally:
            by.end(interrupted)
    return done


def _figure(found: Findings) -> str:
    value = found.get("mean", {}).get("psnr")
    return f"  PSNR {value:.2f}" if isinstance(value, float) else ""


@contextmanager
def _progress(done: Outcomes, out: Path, weights: dict[str, float], running: dict[str, Cell]) -> Iterator[None]:
    """A bar of estimated seconds (`weights`); cells that are running count by the steps in their logs."""
    over = threading.Event()

    def update() -> None:
        ended = [*done.found, *done.failed]
        now = list(running.values())
        steps = steps_done(now, out)
        share = sum(weights[cell.key] * steps.get(cell.key, 0) / cell.config.method.total for cell in now)
        bar.update(sum(weights[key] for key in ended) + share, f"{len(ended)} of {len(done.cells)} cells")

    def watch() -> None:
        while not over.wait(_INTERVAL):
            update()

    with Progress("bench", float(sum(weights.values()))) as bar:
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def seconds_of(cell: Cell, pixels: int) -> float:
    """On the machine of docs/results.md, of a scene whose photos have so many pixels."""
    own, field = cell.config.method, cell.config.field
    plain, blurred = SECONDS.get(field, SECONDS["hash"])
    each = pixels / PIXELS if field == "splat" else own.rays / RAYS
    has_lens = own.total > own.pinhole_steps
    searches = (1 + len(cell.config.lens.refits)) if cell.config.lens.search and has_lens else 0
    if cell.kind == "cost":
        return AROUND + BEGIN.get(field, 0) + 2 * (plain + blurred) * min(100, own.total)
    # Splats draw a view for each sub-aperture, and a sharp one.
    last = plain * (own.sub_apertures + 1) if field == "splat" else blurred
    counts = (getattr(own, name) for name in own.STAGES.values())
    trained = sum(cost * count for cost, count in zip((plain, blurred, last), counts, strict=False))
    return AROUND + BEGIN.get(field, 0) + each * trained + 20.0 * searches


def slowness(done: Sequence[tuple[Cell, Findings, int]]) -> float:
    """This machine against that of docs/results.md; `done` are cells, what they found, and their photos' pixels."""
    known = [found["seconds"] / seconds_of(cell, pixels) for cell, found, pixels in done if "seconds" in found]
    return median(known) if known else probe() / _PROBE


def probe() -> float:
    """Seconds that a little arithmetic takes; the best of three."""
    values, best = torch.linspace(0, 1, 512 * 512).reshape(512, 512), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(8):
            values = torch.tanh(values @ values.T)
        best = min(best, time.perf_counter() - start)
    return best


def steps_done(cells: Iterable[Cell], out: Path) -> dict[str, int]:
    """The last step in the log of each cell that has one."""
    found = {}
    for cell in cells:
        try:
            with open(cell.folder(out) / RUN / LOG, "rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - 2000))
                numbers = _STEP.findall(file.read().decode("utf-8", "replace"))
        except OSError:
            continue
        if numbers:
            found[cell.key] = int(numbers[-1])
    return found
