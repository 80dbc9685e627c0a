"""Table 3: the same as `shallow`, with depth supervision by sparse points, as in DS-NeRF."""

from __future__ import annotations

from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import Cell, Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment
from dofnerf.lab.bench.experiments import shallow
from dofnerf.lab.bench.paper import Numbers
from dofnerf.lab.bench.results import Draft
from dofnerf.lab.bench.tables import comparison_table, draw_crops, lens_table

RANGE = 0.2  # of the paper's error maps in that comparison


def _plan(choice: Choice) -> list[Cell]:
    for one, scene in choice.loaded.items():
        if not any(len(scene.visible(i).depth) for i in scene.train):
            raise ValueError(f"{one.path}: its photos see no sparse points, so there is no depth to learn from")
    return shallow.plan(choice)


def numbers_of(scene: str, variant: str) -> Numbers | None:
    """Table 3, which has nothing trained on sharp photos."""
    known = scene in paper.DSNERF and variant != shallow.SHARP
    return paper.DSNERF[scene][variant == shallow.OURS] if known else None


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    comparison_table(choice, done, draft, "With depth supervision (Table 3)", numbers_of)
    shallow.gap_table(choice, done, draft, beside=False)
    lens_table(done, draft)
    draw_crops(choice, done, draft, RANGE)


EXPERIMENT = Experiment(
    "The same as shallow with depth supervision by sparse points (Table 3).",
    _plan,
    _conclude,
    fields=("hash",),
    limited=("hash", "dsnerf"),
)
