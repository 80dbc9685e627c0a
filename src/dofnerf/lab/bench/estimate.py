"""How long cells will take, roughly: seconds a step as measured for docs/results.md, for photos of 252×168 and 2304
rays, times how much slower this machine is, or, where cells of this experiment are done, times what those took of
it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import torch

from dofnerf.lab.bench.cell import RUN, Cell, Findings
from dofnerf.train.folder import LOG

SECONDS = {
    "splat": (0.05, 0.06),
    "hash": (0.17, 0.16),
    "nerf": (40.0, 40.0),
    "dsnerf": (40.0, 40.0),
}  # pinhole, with a lens
BEGIN = {"splat": 15.0}  # finding where splats begin
AROUND = 12.0  # imports, photos, scores
PIXELS, RAYS = 252 * 168, 2304
_PROBE = 0.11  # seconds of `probe` on the machine of docs/results.md
_STEP = re.compile(r"step (\d+) ")


def seconds_of(cell: Cell, pixels: int) -> float:
    """On the machine of docs/results.md, of a scene whose photos have so many pixels."""
    steps, field = cell.config.steps, cell.config.field
    plain, blurred = SECONDS.get(field, SECONDS["hash"])
    each = pixels / PIXELS if field == "splat" else steps.rays / RAYS
    has_lens = steps.total > steps.pinhole_steps
    searches = (1 + len(cell.config.lens.refits)) if cell.config.lens.search and has_lens else 0
    search = 20.0 * searches
    if cell.kind == "cost":
        return AROUND + BEGIN.get(field, 0) + 2 * (plain + blurred) * min(100, steps.total)
    # Splats draw a view for each part of the lens, and a sharp one.
    in_parts = plain * (steps.lens_points + 1) if field == "splat" else blurred
    trained = plain * steps.pinhole_steps + blurred * steps.lens_steps + in_parts * steps.lens_ray_steps
    return AROUND + BEGIN.get(field, 0) + each * trained + search


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
    """How many steps the log of each running cell tells of."""
    found = {}
    for cell in cells:
        path = cell.folder(out) / RUN / LOG
        try:
            with open(path, "rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - 2000))
                numbers = _STEP.findall(file.read().decode("utf-8", "replace"))
        except OSError:
            continue
        if numbers:
            found[cell.key] = int(numbers[-1])
    return found


def in_words(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
