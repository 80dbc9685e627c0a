"""Real optics: near- and far-focused photos averaged from the photos of a light field, as a lens of that size sees it.

Its lens is known exactly, and the photos of the grid are the sharp ones. Other scenes are skipped.
"""

from __future__ import annotations

from dofnerf.lab.bench.cell import Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment
from dofnerf.lab.bench.experiments.shallow import NO_LENS, SHARP, gap_table, plan
from dofnerf.lab.bench.results import Draft
from dofnerf.lab.bench.tables import comparison_table, draw_crops, lens_table

WIDTH = 256  # pixels: at the full size of most grids, the spots of single views lie apart


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    comparison_table(choice, done, draft, "Real optical blur, from light fields", lambda scene, variant: None)
    gap_table(choice, done, draft, beside=False)
    lens_table(done, draft)
    draw_crops(choice, done, draft)


EXPERIMENT = Experiment(
    f"Real optical blur, from a light field (--scenes GRID): {NO_LENS}, ours, {SHARP}.",
    plan,
    _conclude,
    format="lightfield",
    size=WIDTH,
)
