"""Table 5: learn the aperture, the focus, both, or no lens at all."""

from __future__ import annotations

from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.experiment import Change, Choice, Experiment, all_combinations
from dofnerf.lab.bench.experiments.shallow import NO_LENS
from dofnerf.lab.bench.paper import Numbers
from dofnerf.lab.bench.tables import Comparison
from dofnerf.train import without_lens

VARIANTS: dict[str, Change] = {
    NO_LENS: without_lens,
    "aperture learned": lambda config: config.changed({"lens": {"learn_focus": False}}),
    "focus learned": lambda config: config.changed({"lens": {"learn_aperture": False}}),
    "both learned": lambda config: config,
}


def _plan(choice: Choice) -> list[Cell]:
    return all_combinations(choice, VARIANTS)


def numbers_of(scene: str, variant: str) -> Numbers | None:
    return paper.ABLATION[scene][list(VARIANTS).index(variant)] if scene in paper.ABLATION else None


EXPERIMENT = Experiment(
    "Learn each photo's aperture, its focus, both, or no lens (Table 5).",
    _plan,
    Comparison("Learn aperture, learn focus (Table 5)", numbers_of),
)
