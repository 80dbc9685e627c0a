"""What several experiments make of their cells: the table with the paper's numbers, the lens table, sheets of crops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from dofnerf.evaluate.comparison import ERROR_RANGE, crops_sheet, largest_error_box
from dofnerf.evaluate.metrics import psnr
from dofnerf.files import read_image, write_image
from dofnerf.lab.bench.cell import NOT_DONE, Outcomes, mean_score
from dofnerf.lab.bench.experiment import Choice, folder_name
from dofnerf.lab.bench.paper import Numbers, paper_scene
from dofnerf.lab.bench.results import Draft, SliderFiles, number
from dofnerf.lab.bench.work import VIEW

PaperNumbers = Callable[[str, str], Numbers | None]  # of a scene of the paper's, and a variant
_DIGITS = {"psnr": 2, "ssim": 4, "lpips": 4}
PAPERS = "paper: the paper's own numbers for the scene of that name, with its NeRF and its photos."
OTHER_FOCUS = "by other lenses"  # the pixels in focus differ between models, so they cannot be compared


def variants_of(done: Outcomes) -> list[str]:
    return list(dict.fromkeys(cell.tags["variant"] for cell in done.cells))


@dataclass(frozen=True)
class Comparison:
    """Concludes with the table of a title and the paper's numbers for it, the lens table, and crops with errors up to
    `most`."""

    title: str
    paper: PaperNumbers
    most: float = ERROR_RANGE

    def __call__(self, choice: Choice, done: Outcomes, draft: Draft) -> None:
        comparison_table(choice, done, draft, self.title, self.paper)
        lens_table(done, draft)
        draw_crops(choice, done, draft, self.most)


def comparison_table(choice: Choice, done: Outcomes, draft: Draft, title: str, paper: PaperNumbers) -> None:
    """scene | field | model | PSNR, SSIM, LPIPS, each with the paper's beside it where some scene is the paper's."""
    names = [one.name for one in choice.scenes]
    beside = any(paper(paper_scene(name), variant) for name in names for variant in variants_of(done))
    head = ["scene", "field", "model"]
    for metric in _DIGITS:
        head += [metric.upper(), "paper"] if beside else [metric.upper()]
    head += ["PSNR in focus", "PSNR out of focus"]
    alike = {name: same_focus(done, name) for name in names}
    rows = []
    for name, field, variant in product(names, choice.fields, variants_of(done)):
        row, theirs = [name, field, variant], paper(paper_scene(name), variant)
        tags = {"scene": name, "field": field, "variant": variant}
        for metric, digits in _DIGITS.items():
            row.append(number(done.mean(metric, **tags), digits))
            row += [number(theirs and getattr(theirs, metric), digits)] if beside else []
        scores = [done.mean(f"psnr_{where}_focus", **tags) for where in ("in", "out_of")]
        row += [number(value) if isinstance(value, str) or alike[name] else OTHER_FOCUS for value in scores]
        rows.append(row)
    if len(names) > 1:
        for field, variant in product(choice.fields, variants_of(done)):
            values = [done.mean("psnr", scene=name, field=field, variant=variant) for name in names]
            whole = mean_score(values) if not any(isinstance(value, str) for value in values) else NOT_DONE
            rows.append(["**mean**", field, variant, number(whole), *("" for _ in head[4:])])
    seeds = [f"Means over {len(choice.seeds)} seeds."] if len(choice.seeds) > 1 else []
    draft.add(title, head, rows, *seeds, *([PAPERS] if beside else []), *_own_depths(done), *_why_missing(done))


def same_focus(done: Outcomes, scene: str) -> bool:
    """Whether the pixels in focus are the same for all models of a scene: told by one lens and depth, view by view."""
    found = done.of(scene=scene)
    words = {tuple(view["focus_by"] for view in one.get("views", ())) for one in found}
    return len(words) <= 1 and (len(found) <= 1 or not any("learned" in by for views in words for by in views))


def _own_depths(done: Outcomes) -> list[str]:
    """A note, if each model's own depth tells what is in focus."""
    views = (view for found in done.of() for view in found.get("views", ()))
    if not any("the run's depth" in view["focus_by"] for view in views):
        return []
    return ["What is in focus is told by each model's own depth, so these columns are of slightly different pixels."]


def _why_missing(done: Outcomes) -> list[str]:
    """Notes of the scores: why a column has none."""
    notes = (note for found in done.of() for note in found.get("notes", ()))
    return [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(notes)]


def draw_crops(choice: Choice, done: Outcomes, draft: Draft, most: float = ERROR_RANGE) -> None:
    """For each scene and field, a sheet: the variants and the truth, a crop where the first differs most, and
    errors."""
    for one, field in product(choice.scenes, choice.fields):
        tags = {"scene": one.name, "field": field, "seed": str(choice.seeds[0])}
        mine = [cell for cell in done.cells if tags.items() <= cell.tags.items() and cell.key in done.found]
        if not mine:
            continue
        scene, view = choice.loaded[one], done.found[mine[0].key]["view"]
        truth = scene.sharp(view)
        pictures = [(cell.tags["variant"], read_image(cell.folder(draft.out) / VIEW)) for cell in mine]
        if truth is None or any(image.shape != truth.shape for _, image in pictures):
            continue
        named = [(f"{name}\nPSNR {psnr(image, truth):.2f} dB", image) for name, image in pictures]
        heading = f"{one.name}, {field}: view {view}, which no training has seen"
        sheet = crops_sheet(named, truth, largest_error_box(pictures[0][1], truth), heading, most)
        below = f"whole, closer, and errors from 0 to {most:g} of the pixel range, as in the paper"
        words = f"{one.name}, {field}, held-out view {view}: {below}"
        draft.draw(f"{folder_name(one.name)}-{folder_name(field)}", sheet, words)
        if draft.slider is None and len(pictures) > 1:
            for name, (_, image) in zip(("before.png", "after.png"), pictures, strict=False):
                write_image(draft.out / name, image)
            draft.slider = SliderFiles("before.png", "after.png", pictures[0][0], pictures[1][0])


def lens_table(done: Outcomes, draft: Draft) -> None:
    """Errors of the lenses, if the true ones are known."""
    rows = []
    for cell in done.cells:
        lens = done.found.get(cell.key, {}).get("lens")
        if isinstance(lens, dict):
            off = (lens["aperture"], lens["aperture_median"], lens["focus"], lens["focus_median"])
            names = [cell.tags[name] for name in ("scene", "field", "variant", "seed")]
            percents = (f"{100 * value:.1f} %" for value in off)
            rows.append((*names, *percents, f"{lens['focus_blur_median']:.2f} px"))
    head = ("scene", "field", "model", "seed", "aperture off by", "median", "focus off by", "median", "in blur, median")
    note = "Aperture relative to the true one; focus in disparity, relative to the scene's range of it."
    if rows:
        draft.add("The lens against the true one", head, rows, note)
