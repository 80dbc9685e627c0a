"""Runs of one scene beside each other: the table with the paper's numbers, the sheet of crops, the slider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from dofnerf.evaluate.comparison import ERROR_RANGE, crops_sheet, telling_box
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.scores import Score
from dofnerf.files import read_image, write_image
from dofnerf.lab.bench.cell import Cell, Findings
from dofnerf.lab.bench.choice import Choice, folder_name
from dofnerf.lab.bench.conclusions import Sketch, SliderFiles, Table, mean_score, number
from dofnerf.lab.bench.paper import Numbers, paper_scene
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.lab.bench.work import VIEW

PaperNumbers = Callable[[str, str], Numbers | None]  # of a scene of the paper's, and a variant
_DIGITS = {"psnr": 2, "ssim": 4, "lpips": 4}
PAPERS = "paper: the paper's own numbers for the scene of that name, with its NeRF and its photos"
NOT_DONE = "not done"
OTHER_FOCUS = "by other lenses"  # what is in focus, so that models cannot be compared there


def variants_of(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.tags["variant"] for cell in cells))


def findings_of(cells: Sequence[Cell], done: Outcomes, **tags: str) -> list[Findings]:
    """What the cells with these tags found; those that are not done are left out."""
    chosen = [cell for cell in cells if all(cell.tags[name] == value for name, value in tags.items())]
    return [done.found[cell.key] for cell in chosen if cell.key in done.found]


def mean_of(cells: Sequence[Cell], done: Outcomes, metric: str, **tags: str) -> Score:
    """The mean over seeds of a metric's mean over views; words if there is none."""
    value = mean_score([found["mean"][metric] for found in findings_of(cells, done, **tags)])
    return NOT_DONE if value is None else value


def comparison_table(choice: Choice, cells: Sequence[Cell], done: Outcomes, title: str, paper: PaperNumbers) -> Table:
    """scene | field | model | PSNR, SSIM, LPIPS, each with the paper's beside it where some scene is the paper's."""
    names = [one.name for one in choice.scenes]
    beside = any(paper(paper_scene(name), variant) for name in names for variant in variants_of(cells))
    head = ["scene", "field", "model"]
    for metric in _DIGITS:
        head += [metric.upper(), "paper"] if beside else [metric.upper()]
    head += ["PSNR in focus", "PSNR out of focus"]
    alike = {name: same_focus(cells, done, name) for name in names}
    rows = []
    for name, field, variant in product(names, choice.fields, variants_of(cells)):
        row, theirs = [name, field, variant], paper(paper_scene(name), variant)
        tags = {"scene": name, "field": field, "variant": variant}
        for metric, digits in _DIGITS.items():
            row.append(number(mean_of(cells, done, metric, **tags), digits))
            row += [number(theirs and getattr(theirs, metric), digits)] if beside else []
        scores = [mean_of(cells, done, f"psnr_{where}_focus", **tags) for where in ("in", "out_of")]
        row += [number(value) if isinstance(value, str) or alike[name] else OTHER_FOCUS for value in scores]
        rows.append(tuple(row))
    if len(names) > 1:
        for field, variant in product(choice.fields, variants_of(cells)):
            values = [mean_of(cells, done, "psnr", scene=name, field=field, variant=variant) for name in names]
            whole = mean_score(values) if not any(isinstance(value, str) for value in values) else NOT_DONE
            rows.append(("**mean**", field, variant, number(whole), *("" for _ in head[4:])))
    seeds = [f"Means over {len(choice.seeds)} seeds."] if len(choice.seeds) > 1 else []
    notes = (*seeds, *([PAPERS + "."] if beside else []), *own_depths(cells, done), *why_missing(cells, done))
    return Table(title, tuple(head), tuple(rows), notes)


def same_focus(cells: Sequence[Cell], done: Outcomes, scene: str) -> bool:
    """Whether all models of a scene take the same for in focus, by one lens and depth, view by view."""
    found = findings_of(cells, done, scene=scene)
    words = {tuple(view["focus_by"] for view in one.get("views", ())) for one in found}
    return len(words) <= 1 and (len(found) <= 1 or not any("learned" in by for views in words for by in views))


def own_depths(cells: Sequence[Cell], done: Outcomes) -> list[str]:
    """A note, if what is in focus is told by each model's own depth."""
    views = (view for cell in cells for view in done.found.get(cell.key, {}).get("views", ()))
    if not any("the run's depth" in view["focus_by"] for view in views):
        return []
    return ["What is in focus is told by each model's own depth, so these columns are of slightly different pixels."]


def why_missing(cells: Sequence[Cell], done: Outcomes) -> list[str]:
    """Notes of the scores: why a column has none."""
    notes = (note for cell in cells for note in done.found.get(cell.key, {}).get("notes", ()))
    return [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(notes)]


def draw_crops(
    choice: Choice, cells: Sequence[Cell], done: Outcomes, sketch: Sketch, most: float = ERROR_RANGE
) -> None:
    """For each scene and field, a sheet: the variants and the truth, a crop where the first differs most, and
    errors."""
    for one, field in product(choice.scenes, choice.fields):
        mine = [cell for cell in cells if cell.tags["scene"] == one.name and cell.tags["field"] == field]
        mine = [cell for cell in mine if cell.tags["seed"] == str(choice.seeds[0]) and cell.key in done.found]
        if not mine:
            continue
        scene, view = choice.loaded[one], done.found[mine[0].key]["view"]
        truth = scene.sharp(view)
        pictures = [(cell.tags["variant"], read_image(cell.folder(sketch.out) / VIEW)) for cell in mine]
        if truth is None or any(image.shape != truth.shape for _, image in pictures):
            continue
        named = [(f"{name}\nPSNR {psnr(image, truth):.2f} dB", image) for name, image in pictures]
        heading = f"{one.name}, {field}: view {view}, which no training has seen"
        sheet = crops_sheet(named, truth, telling_box(pictures[0][1], truth), heading, most)
        words = f"{one.name}, {field}, held-out view {view}: whole, {_closer(most)}"
        sketch.draw(f"{folder_name(one.name)}-{folder_name(field)}", sheet, words)
        if sketch.slider is None and len(pictures) > 1:
            sketch.slider = _slider(sketch, pictures[0], pictures[1])


def _closer(most: float) -> str:
    return f"closer, and errors from 0 to {most:g} of the pixel range, as in the paper"


def _slider(sketch: Sketch, before: tuple[str, np.ndarray], after: tuple[str, np.ndarray]) -> SliderFiles:
    for name, (_, image) in (("before.png", before), ("after.png", after)):
        write_image(sketch.out / name, image)
    return SliderFiles("before.png", "after.png", before[0], after[0])


def lens_table(choice: Choice, cells: Sequence[Cell], done: Outcomes) -> Table | None:
    """How far lenses are from the true ones; None if nobody knows those."""
    rows = []
    for cell in cells:
        lens = done.found.get(cell.key, {}).get("lens")
        if isinstance(lens, dict):
            off = (lens["aperture"], lens["aperture_median"], lens["focus"], lens["focus_median"])
            blur = f"{lens['focus_blur_median']:.2f} px"
            names = [cell.tags[name] for name in ("scene", "field", "variant")]
            rows.append((*names, cell.tags["seed"], *(f"{100 * value:.1f} %" for value in off), blur))
    head = ("scene", "field", "model", "seed", "aperture off by", "median", "focus off by", "median", "in blur, median")
    note = "Aperture relative to the true one; focus in disparity, relative to the scene's range of it."
    return Table("The lens against the true one", head, tuple(rows), (note,)) if rows else None
