"""Tables 1 to 4: the pinhole twin, ours and, on blurred photos, the sharp oracle, all with one budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from dofnerf.evaluate.scores import Score
from dofnerf.lab.bench import paper
from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.choice import Change, Choice, Experiment, all_with_all
from dofnerf.lab.bench.conclusions import Sketch, Table, mean_score, number
from dofnerf.lab.bench.experiments.comparing import comparison_table, draw_crops, findings_of, lens_table, mean_of
from dofnerf.lab.bench.paper import Numbers, paper_scene
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.train import TrainConfig, pinhole_twin, sharp_oracle

TWIN, OURS, ORACLE = "pinhole twin", "ours", "sharp oracle"
THREE: dict[str, Change] = {TWIN: pinhole_twin, OURS: lambda config: config, ORACLE: sharp_oracle}
DSNERF_RANGE = 0.2  # of the paper's error maps in that comparison


def _plan(choice: Choice) -> list[Cell]:
    return all_with_all(choice, THREE)


def shallow_numbers(scene: str, variant: str) -> Numbers | None:
    """Tables 1 and 2; the oracle is its NeRF on all-in-focus photos, Table 4."""
    if variant == ORACLE:
        return paper.SHARP[scene][0] if scene in paper.SHARP else None
    return paper.SHALLOW[scene][variant == OURS] if scene in paper.SHALLOW else None


def _shallow(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    sketch.tables.append(
        comparison_table(choice, cells, done, "Photos with shallow depth of field (Tables 1, 2)", shallow_numbers)
    )
    sketch.tables.append(gap_table(choice, cells, done, beside=True))
    _lenses_and_crops(choice, cells, done, sketch)


def gap_table(choice: Choice, cells: list[Cell], done: Outcomes, beside: bool) -> Table:
    """The share of the defocus gap that ours closes, in PSNR."""
    rows, shares = [], []
    for one, field in product(choice.scenes, choice.fields):
        twin, ours, oracle = (mean_of(cells, done, "psnr", scene=one.name, field=field, variant=name) for name in THREE)
        share = gap_share(twin, ours, oracle)
        shares.append(share)
        theirs = [shallow_numbers(paper_scene(one.name), name) for name in THREE]
        papers = gap_share(*(numbers.psnr for numbers in theirs if numbers)) if all(theirs) and beside else None
        seconds = [
            mean_score([found["seconds"] for found in _found(cells, done, one.name, field, name)]) for name in THREE
        ]
        rows.append((one.name, field, number(share), number(papers), *(number(value, 0) for value in seconds)))
    if len(rows) > 1 and not any(isinstance(share, str) for share in shares):
        rows.append(("**mean**", "", number(mean_score(shares)), "", "", "", ""))
    note = (
        "Share = (ours − pinhole twin) / (sharp oracle − pinhole twin). Seconds by the clock, beside whatever else ran."
    )
    head = ("scene", "field", "share", "paper", f"{TWIN}, s", f"{OURS}, s", f"{ORACLE}, s")
    return Table("Share of the defocus gap closed", head, tuple(rows), (note,))


def gap_share(*values: Score) -> Score:
    """(ours − twin) / (oracle − twin), or why not."""
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < 3:
        return next(value for value in values if isinstance(value, str))
    twin, ours, oracle = numbers
    return (ours - twin) / (oracle - twin) if oracle > twin else "no gap"


def _found(cells: list[Cell], done: Outcomes, scene: str, field: str, variant: str) -> list[dict]:
    return findings_of(cells, done, scene=scene, field=field, variant=variant)


def _lenses_and_crops(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch, most: float = 0.1) -> None:
    lenses = lens_table(choice, cells, done)
    if lenses is not None:
        sketch.tables.append(lenses)
    draw_crops(choice, cells, done, sketch, most)


def _plan_dsnerf(choice: Choice) -> list[Cell]:
    for one, scene in choice.loaded.items():
        if not any(len(scene.visible(i).depth) for i in scene.train):
            raise ValueError(f"{one.path}: its photos see no sparse points, so there is no depth to learn from")
    return _plan(choice)


def dsnerf_numbers(scene: str, variant: str) -> Numbers | None:
    """Table 3; there is none of an oracle."""
    return paper.DSNERF[scene][variant == OURS] if scene in paper.DSNERF and variant != ORACLE else None


def _dsnerf(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    sketch.tables.append(comparison_table(choice, cells, done, "With depth supervision (Table 3)", dsnerf_numbers))
    sketch.tables.append(gap_table(choice, cells, done, beside=False))
    _lenses_and_crops(choice, cells, done, sketch, DSNERF_RANGE)


def _on_sharp(config: TrainConfig) -> TrainConfig:
    return replace(config, steps=replace(config.steps, photos="sharp"))


def _plan_sharp(choice: Choice) -> list[Cell]:
    return all_with_all(choice, {TWIN: sharp_oracle, OURS: _on_sharp})


def sharp_numbers(scene: str, variant: str) -> Numbers | None:
    """Table 4."""
    return paper.SHARP[scene][variant == OURS] if scene in paper.SHARP else None


def _sharp(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    sketch.tables.append(comparison_table(choice, cells, done, "All-in-focus photos (Table 4)", sharp_numbers))
    rows = []
    for one, field in product(choice.scenes, choice.fields):
        twin, ours = (mean_of(cells, done, "psnr", scene=one.name, field=field, variant=name) for name in (TWIN, OURS))
        lost = f"{ours - twin:+.2f}" if not isinstance(ours, str) and not isinstance(twin, str) else "not done"
        theirs = paper.SHARP.get(paper_scene(one.name))
        claimed = [found["largest_blur"] for found in _found(cells, done, one.name, field, OURS)]
        blur = [value for value in claimed if not isinstance(value, str)]
        words = [number(max(value[k] for value in blur)) if blur else (claimed or ["not done"])[0] for k in (0, 1)]
        rows.append((one.name, field, lost, f"{theirs[1].psnr - theirs[0].psnr:+.2f}" if theirs else "–", *words))
    head = ("scene", "field", "ours − twin, dB", "paper", "blur claimed, px (median photo)", "(most)")
    note = (
        "The largest blur radius that the lens learned gives to any sparse point that a photo sees: 0 would be right."
    )
    sketch.tables.append(Table("What it costs to look for a lens where there is none", head, tuple(rows), (note,)))
    draw_crops(choice, cells, done, sketch)


SHALLOW = Experiment(
    "shallow",
    "Photos with shallow depth of field: pinhole twin, ours and the sharp oracle, all with one budget.",
    _plan,
    _shallow,
)
DSNERF = Experiment(
    "dsnerf",
    "The same with depth supervision by sparse points, as in DS-NeRF.",
    _plan_dsnerf,
    _dsnerf,
    ("hash",),
    ("hash", "dsnerf"),
)
SHARP = Experiment(
    "sharp", "All-in-focus photos: does it harm to look for a lens?", _plan_sharp, _sharp, sharp_photos=True
)
