"""Table 5: learn the aperture, the focus, both, or no lens at all."""

from __future__ import annotations

from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.choice import Change, Choice, Experiment, all_with_all, changed
from dofnerf.lab.bench.conclusions import Sketch
from dofnerf.lab.bench.experiments.comparing import comparison_table, draw_crops, lens_table
from dofnerf.lab.bench.paper import Numbers
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.train import pinhole_twin

VARIANTS: dict[str, Change] = {
    "pinhole twin": pinhole_twin,
    "aperture learned": lambda config: changed(config, {"lens": {"learn_focus": False}}),
    "focus learned": lambda config: changed(config, {"lens": {"learn_aperture": False}}),
    "both learned": lambda config: config,
}


def _plan(choice: Choice) -> list[Cell]:
    return all_with_all(choice, VARIANTS)


def numbers_of(scene: str, variant: str) -> Numbers | None:
    return paper.ABLATION[scene][list(VARIANTS).index(variant)] if scene in paper.ABLATION else None


def _conclude(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    sketch.tables.append(comparison_table(choice, cells, done, "Learn aperture, learn focus (Table 5)", numbers_of))
    lenses = lens_table(choice, cells, done)
    if lenses is not None:
        sketch.tables.append(lenses)
    draw_crops(choice, cells, done, sketch)


ABLATION = Experiment(
    "ablation", "Learn each photo's aperture and focus, or keep them where they start.", _plan, _conclude
)
