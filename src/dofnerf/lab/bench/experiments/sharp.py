"""Table 4: all-in-focus photos. Does it harm to learn a lens where there is none?"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import NOT_DONE, Cell, Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment, all_combinations
from dofnerf.lab.bench.experiments.shallow import NO_LENS, OURS
from dofnerf.lab.bench.paper import Numbers, paper_scene
from dofnerf.lab.bench.results import Draft, number
from dofnerf.lab.bench.tables import comparison_table, draw_crops
from dofnerf.train import TrainConfig, on_sharp_photos


def _on_sharp(config: TrainConfig) -> TrainConfig:
    return replace(config, photos="sharp")


def _plan(choice: Choice) -> list[Cell]:
    return all_combinations(choice, {NO_LENS: on_sharp_photos, OURS: _on_sharp})


def numbers_of(scene: str, variant: str) -> Numbers | None:
    return paper.SHARP[scene][variant == OURS] if scene in paper.SHARP else None


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    comparison_table(choice, done, draft, "All-in-focus photos (Table 4)", numbers_of)
    rows = []
    for one, field in product(choice.scenes, choice.fields):
        tags = {"scene": one.name, "field": field}
        plain, ours = (done.mean("psnr", **tags, variant=name) for name in (NO_LENS, OURS))
        lost = f"{ours - plain:+.2f}" if not isinstance(ours, str) and not isinstance(plain, str) else NOT_DONE
        theirs = paper.SHARP.get(paper_scene(one.name))
        papers = f"{theirs[1].psnr - theirs[0].psnr:+.2f}" if theirs else "–"
        claimed = [found["largest_blur"] for found in done.of(**tags, variant=OURS)]
        blur = [value for value in claimed if not isinstance(value, str)]
        words = [number(max(value[k] for value in blur)) if blur else (claimed or [NOT_DONE])[0] for k in (0, 1)]
        rows.append((one.name, field, lost, papers, *words))
    head = ("scene", "field", f"ours − {NO_LENS}, dB", "paper", "blur claimed, px (median photo)", "(most)")
    note = (
        "The largest blur radius that the learned lens gives to any sparse point that a photo sees; 0 would be right."
    )
    draft.add("What it costs to learn a lens where there is none", head, rows, note)
    draw_crops(choice, done, draft)


EXPERIMENT = Experiment(
    "All-in-focus photos: does it harm to learn a lens (Table 4)?", _plan, _conclude, sharp_photos=True
)
