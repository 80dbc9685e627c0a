"""The paper's appendix: what the lens costs in training and in rendering."""

from __future__ import annotations

from dofnerf.lab.bench.cell import Cell, Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment, all_combinations
from dofnerf.lab.bench.paper import RENDERING_COST, TRAINING_COST
from dofnerf.lab.bench.results import Draft

_MEASURED = (
    ("training step", "training", "pinhole", "patches", TRAINING_COST),
    ("rendered view", "rendering", "sharp", "lens", RENDERING_COST),
)


def _plan(choice: Choice) -> list[Cell]:
    return all_combinations(choice, {"cost": lambda config: config}, "cost")


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    rows = []
    for cell in done.cells:
        if cell.key in done.found:
            names = [cell.tags[name] for name in ("scene", "field", "seed")]
            for what, kind, plain, blurred, papers in _MEASURED:
                one = done.found[cell.key][kind]
                times = f"{1e3 * one[plain]:.1f} ms", f"{1e3 * one[blurred]:.1f} ms"
                rows.append((*names, what, *times, f"{one['ratio']:.3f}×", f"{papers:.3f}×", str(one["rounds"])))
    head = ("scene", "field", "seed", "what", "pinhole", "with the lens", "ratio", "paper", "rounds")
    note = (
        "Processor time, medians of interleaved rounds, as many rays for both. Paper: NeRF, whole trainings on a GPU."
    )
    draft.add("Cost of the lens", head, rows, note)


EXPERIMENT = Experiment(
    "Training and rendering time with the lens, against the same without (appendix).", _plan, _conclude, ("hash",)
)
