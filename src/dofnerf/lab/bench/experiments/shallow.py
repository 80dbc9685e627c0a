"""Tables 1 and 2: photos with shallow depth of field; without a lens model, ours, trained on sharp photos."""

from __future__ import annotations

from itertools import product

from dofnerf.evaluate.scores import Score
from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import Cell, Outcomes, mean_score
from dofnerf.lab.bench.experiment import Change, Choice, Experiment, all_combinations
from dofnerf.lab.bench.paper import Numbers, paper_scene
from dofnerf.lab.bench.results import Draft, number
from dofnerf.lab.bench.tables import comparison_table, draw_crops, lens_table
from dofnerf.train import on_sharp_photos, without_lens

NO_LENS, OURS, SHARP = "without a lens model", "ours", "trained on sharp photos"
THREE: dict[str, Change] = {NO_LENS: without_lens, OURS: lambda config: config, SHARP: on_sharp_photos}


def plan(choice: Choice) -> list[Cell]:
    return all_combinations(choice, THREE)


def numbers_of(scene: str, variant: str) -> Numbers | None:
    """Tables 1 and 2; for sharp photos the paper's NeRF of Table 4."""
    if variant == SHARP:
        return paper.SHARP[scene][0] if scene in paper.SHARP else None
    return paper.SHALLOW[scene][variant == OURS] if scene in paper.SHALLOW else None


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    comparison_table(choice, done, draft, "Photos with shallow depth of field (Tables 1, 2)", numbers_of)
    gap_table(choice, done, draft, beside=True)
    lens_table(done, draft)
    draw_crops(choice, done, draft)


def gap_table(choice: Choice, done: Outcomes, draft: Draft, beside: bool) -> None:
    """The share of the defocus gap that ours closes, in PSNR; `beside` the paper's share."""
    rows, shares = [], []
    for one, field in product(choice.scenes, choice.fields):
        tags = {"scene": one.name, "field": field}
        shares.append(gap_share(*(done.mean("psnr", **tags, variant=name) for name in THREE)))
        theirs = [numbers_of(paper_scene(one.name), name) for name in THREE]
        papers = gap_share(*(numbers.psnr for numbers in theirs if numbers)) if all(theirs) and beside else None
        seconds = [mean_score([found["seconds"] for found in done.of(**tags, variant=name)]) for name in THREE]
        rows.append((one.name, field, number(shares[-1]), number(papers), *(number(value, 0) for value in seconds)))
    if len(rows) > 1 and not any(isinstance(share, str) for share in shares):
        rows.append(("**mean**", "", number(mean_score(shares)), "", "", "", ""))
    note = f"Share = (ours − {NO_LENS}) / ({SHARP} − {NO_LENS}). Seconds by the clock, beside whatever else ran."
    head = ("scene", "field", "share", "paper", *(f"{name}, s" for name in THREE))
    draft.add("Share of the defocus gap closed", head, rows, note)


def gap_share(*values: Score) -> Score:
    """(ours − without a lens) / (sharp photos − without a lens), or why not."""
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < 3:
        return next(value for value in values if isinstance(value, str))
    plain, ours, sharp = numbers
    return (ours - plain) / (sharp - plain) if sharp > plain else "no gap"


EXPERIMENT = Experiment(f"Photos with shallow depth of field: {NO_LENS}, ours, {SHARP} (Tables 1, 2).", plan, _conclude)
