"""The paper's appendix: what the lens costs, in training and in rendering, against the pinhole twin."""

from __future__ import annotations

from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.choice import Choice, Experiment, all_with_all
from dofnerf.lab.bench.conclusions import Sketch, Table
from dofnerf.lab.bench.paper import RENDERING_COST, TRAINING_COST
from dofnerf.lab.bench.schedule import Outcomes


def _plan(choice: Choice) -> list[Cell]:
    return all_with_all(choice, {"cost": lambda config: config}, "cost")


def _conclude(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    rows = []
    for cell in cells:
        found = done.found.get(cell.key)
        if found is None:
            continue
        names = [cell.tags[name] for name in ("scene", "field", "seed")]
        for what, plain, blurred, papers in (
            ("training step", "pinhole", "patches", TRAINING_COST), ("rendered view", "sharp", "lens", RENDERING_COST),
        ):  # fmt: skip
            one = found["training" if blurred == "patches" else "rendering"]
            times = f"{1e3 * one[plain]:.1f} ms", f"{1e3 * one[blurred]:.1f} ms"
            rows.append((*names, what, *times, f"{one['ratio']:.3f}×", f"{papers:.3f}×", str(one["rounds"])))
    head = ("scene", "field", "seed", "what", "pinhole", "with the lens", "ratio", "paper", "rounds")
    note = "Processor time, medians over rounds in turn, as many rays for both. The paper's: NeRF, whole trainings on a GPU."
    sketch.tables.append(Table("Cost of the lens", head, tuple(rows), (note,)))


COST = Experiment(
    "cost", "Training and rendering time with the lens, against the pinhole twin.", _plan, _conclude, ("hash",)
)
