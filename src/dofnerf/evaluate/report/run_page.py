"""The page about a run."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dofnerf
from dofnerf.evaluate import eval as figures
from dofnerf.evaluate.charts import curve_chart, lens_charts, photo_lenses
from dofnerf.evaluate.comparison import ERROR_RANGE, ZOOM, depth_picture, enlarged, error_map, largest_error_box
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.report import page
from dofnerf.evaluate.report.gains import BLURRED, Gain, measure_gains, uncertainty_pictures
from dofnerf.evaluate.report.space import space_of
from dofnerf.evaluate.scores import METRICS, Perceptual, Reference, Scores, gather, score_view
from dofnerf.evaluate.trained import open_trained
from dofnerf.files.guard import read_text
from dofnerf.scenes import Scene
from dofnerf.scenes.exif import Exif, in_seconds
from dofnerf.train import Run
from dofnerf.train.folder import LENS, LOG
from dofnerf.train.measured import notes

MOST_GAINS, MOST_UNCERTAIN = 3, 3  # training photos that lead the page; views in which uncertainty is drawn
_LEFT_OUT = "left out: "  # how a capture's notes on photos begin
MOST_VIEWS = 8  # whose pictures are on the page
_PIXELS = 24_000_000  # of these together, for each is held four times as floats
_AGAINST: dict[Reference, str] = {"sharp": "their all-in-focus photos", "photo": "their photos as they are"}
_KNOWN_BY = {  # columns of the table of photos that hold nothing where there is a note and this one is empty
    "aperture_se": ("aperture", "K", "lens_radius"),
    "focus_disparity_se": ("focus_depth", "focus_disparity"),
}
_STEP = re.compile(r"^step (\d{1,9})  ([\w .,-]{1,60}?)  [\d.]+ s  PSNR (\d{1,9}(?:\.\d+)?)")


class Shown(NamedTuple):
    """A view: number, photo, render, depth (H, W, 3) as pictures, and what to compare with, if anything."""

    number: int
    photo: np.ndarray
    render: np.ndarray
    depth: np.ndarray
    truth: np.ndarray | None


def report_run(
    folder: Path,
    out: Path | None = None,
    scene: Path | None = None,
    reference: Reference = "sharp",
    lpips: LpipsConfig | None = None,
) -> Path:
    """Write the page about the run in `folder`; returns its path. `scene` says where the scene is now, if it has
    moved."""
    run, found = open_trained(folder, scene)
    out = out or (folder if folder.is_dir() else folder.parent) / page.FILE
    page.check_page(out)
    write_run_page(out, run, found, (lpips or LpipsConfig()).find(), reference)
    return out


def write_run_page(
    path: Path, run: Run, scene: Scene, perceptual: Perceptual | str, reference: Reference = "sharp"
) -> Scores | None:
    """Write the page; returns the scores, None if no view is held out."""
    shown, views = [], []
    numbers = list(scene.test) or [scene.train[len(scene.train) // 2]]
    most = min(MOST_VIEWS, max(1, _PIXELS // (scene.size[0] * scene.size[1])), len(numbers))
    kept = {numbers[k] for k in np.linspace(0, len(numbers) - 1, most).round().astype(int)}
    for i in numbers:
        view = run.render(scene.camera(i))
        if scene.test:
            views.append(score_view(run, scene, i, perceptual, reference, view))
        if i in kept:
            depth = depth_picture(view.disparity.cpu().numpy(), 1 / scene.far, 1 / scene.near)
            truth = scene.sharp(i) if reference == "sharp" else scene.photo(i)
            shown.append(Shown(i, scene.photo(i), view.image.clamp(0, 1).cpu().numpy(), depth, truth))
    scores = gather(run, scene, tuple(views), perceptual) if views else None
    gains = measure_gains(run, scene)
    body = [
        *_head(run, scene, scores, reference, gains),
        *(_gained(run, scene, gains) or _before_after(shown, scene)),
        *_pictures(shown, scene, reference),
        *_lens(run, scene, scores),
        *_photos(run, scene, gains),
        *_left_out(scene),
        *_uncertain(run, scene, gains),
        *_figures(scores),
        *_curve(run),
        page.heading("The scene in space"),
        page.scene_in_space(*space_of(run, scene)),
    ]
    config = run.config
    counts = " + ".join(str(getattr(config.method, name)) for name in config.method.STAGES.values())
    about = (
        f"dofnerf {dofnerf.__version__}; {scene.describe()}; {config.field}, preset {config.preset}, {counts} "
        f"steps, seed {config.seed}"
    )
    page.write_page(path, f"{run.folder.name if run.folder else 'run'}: {scene.name}", body, about)
    return scores


def _head(run: Run, scene: Scene, scores: Scores | None, reference: Reference, gains: Sequence[Gain]) -> list[str]:
    steps, seconds = run.config.method.total, run.learner.progress.seconds
    lens = "every photo's lens learned" if run.has_lens else "without a lens model"
    first = f"{run.config.field}, {steps} steps in {seconds:.0f} s, {lens}. {len(scene.train)} photos trained."
    if scores is None or not isinstance(scores.mean["psnr"], float):
        words, known = "", []
        if gains:
            blurred = [one.detail for one in gains if one.blurred]
            known = [("agreement through the lens, dB", f"{np.mean([one.agreement for one in gains]):.1f}")]
            known += [("detail where photos are blurred", f"{np.median(blurred):.1f}×")] if blurred else []
            words = (
                "Agreement: each photo against the render through the lens that was found for it (mean PSNR). "
                "Detail: energy of the differences between neighbouring pixels, all in focus against the photo, where "
                f"it is blurred by more than {BLURRED:g} pixels (median)."
            )
        lost = sum(note.startswith(_LEFT_OUT) for note in scene.notes)
        known += [("photos left out", str(lost))] if lost else []
        return [page.paragraph(first), *([page.numbers(known)] if known else []), page.paragraph(words)]
    else:
        known = [(figures.HEADS[name], figures.words(name, scores.mean[name])) for name in ("psnr", "ssim", "lpips")]
        words = f"Means over {len(scores.views)} views that no training has seen, against {_AGAINST[reference]}."
        return [page.paragraph(first), page.numbers(known), page.paragraph(words)]


def _gained(run: Run, scene: Scene, gains: Sequence[Gain]) -> list[str]:
    """The training photos that gained most: photo and render to slide between, and both closer where most was won."""
    best = [one for one in gains[:MOST_GAINS] if one.blurred and one.detail > 1]
    if not best:
        return []
    below = "Photos that were trained on, those that gained most first: the photo, and the same view all in focus."
    parts = [page.heading("Before and after", below)]
    width = max(page.LEAST_WIDE, scene.size[0] // 2)
    for one in best:
        k, size = scene.train.index(one.number), (width, round(width * scene.size[1] / scene.size[0]))
        camera = run.learner.quantities.camera(scene.camera(one.number), k)
        image = run.learner.quantities.develop(run.render(camera).image, k)  # with the exposure of the photo
        photo, sharp = scene.photo(one.number), image.detach().clamp(0, 1).cpu().numpy()
        named = [("photo", photo), ("all in focus", sharp)]
        words = (
            f"{scene.frames[one.number].name}: {100 * one.blurred:.0f} % blurred, {one.detail:.1f}× the detail there"
        )
        crops = [
            page.figure(enlarged(picture, size, one.box), f"{name}, {ZOOM} times closer") for name, picture in named
        ]
        parts += [page.subheading(words), page.slider(*named), page.grid("tiles", crops)]
    return parts


def _left_out(scene: Scene) -> list[str]:
    rows = [note.removeprefix(_LEFT_OUT).partition(": ")[::2] for note in scene.notes if note.startswith(_LEFT_OUT)]
    return [page.heading("Photos left out"), page.table(["photo", "why"], rows)] if rows else []


def _uncertain(run: Run, scene: Scene, gains: Sequence[Gain]) -> list[str]:
    """Where the run can only guess."""
    middle = scene.train[len(scene.train) // 2]
    views = list(dict.fromkeys([*scene.test[:2], *(one.number for one in gains[:2]), middle]))[:MOST_UNCERTAIN]
    names = [scene.frames[i].name for i in views]
    drawn = [
        page.figure(picture, name) for picture, name in zip(uncertainty_pictures(run, scene, views), names, strict=True)
    ]
    below = (
        "Orange: no photo shows it in focus, so its detail is a guess. Red: at most one photo sees it, so its depth is."
    )
    return [page.heading("What the photos do not show", below), page.grid("tiles", drawn)]


def _before_after(shown: list[Shown], scene: Scene) -> list[str]:
    one = shown[len(shown) // 2]
    what = "a view that no training has seen" if scene.test else "a photo that was trained on"
    name = scene.frames[one.number].name
    below = f"View {one.number} ({name}), {what}: its photo, and what the run shows, all in focus."
    return [page.heading("Before and after", below), page.slider(("photo", one.photo), ("all in focus", one.render))]


def _pictures(shown: list[Shown], scene: Scene, reference: Reference) -> list[str]:
    below = "Photos, and the same views all in focus."
    if any(one.truth is not None for one in shown):
        below = (
            f"Errors from 0 (black) to {ERROR_RANGE:g} (yellow), the paper's range, against {_AGAINST[reference]}; "
            "crops where the photo is most blurred."
        )
    parts = [page.heading("Held-out views" if scene.test else "A view", below)]
    width = max(page.LEAST_WIDE, scene.size[0])
    size = width, round(width * scene.size[1] / scene.size[0])
    for one in shown:
        box = largest_error_box(one.photo, one.render if one.truth is None or one.truth is one.photo else one.truth)
        named = [("photo", one.photo), ("all in focus", one.render)]
        named += [("truth", one.truth)] if one.truth is not None and reference == "sharp" else []
        whole = [page.figure(image, name) for name, image in named]
        whole += [page.figure(error_map(one.render, one.truth), "error")] if one.truth is not None else []
        whole.append(page.figure(one.depth, "depth: near is bright"))
        crops = [page.figure(enlarged(image, size, box), f"{name}, {ZOOM} times closer") for name, image in named]
        parts += [page.subheading(f"View {one.number}: {scene.frames[one.number].name}"), page.grid("tiles", whole)]
        parts += [page.subheading("Closer"), page.grid("tiles", crops)]
    return parts


def _lens(run: Run, scene: Scene, scores: Scores | None) -> list[str]:
    lenses = photo_lenses(run, scene)
    if lenses is None:
        return [page.heading("The lens", "This run was trained without a lens model.")]
    captions = "how wide open each photo's lens was", "how far away each photo was in focus"
    charts = [page.drawing(svg, words) for svg, words in zip(lens_charts(lenses), captions, strict=True)]
    lines = [] if scores is None else figures.lens_lines(scores)
    lines = lines[1:] if scores is not None and isinstance(scores.lens, str) else lines  # nothing to compare with
    words = [page.paragraph(line.split(maxsplit=1)[1].capitalize()) for line in lines]
    words += [page.paragraph(f"{line}.") for line in notes(lenses.measured)]
    return [page.heading("The lens of every photo"), page.grid("pair", charts), *words]


def _photos(run: Run, scene: Scene, gains: Sequence[Gain]) -> list[str]:
    """The run's table of photos: a column for everything that was learned of each, what EXIF says, and what was won."""
    path = run.folder / LENS if run.folder else None
    if path is None or not path.is_file():
        return []
    try:
        head, *rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    except (ValueError, csv.Error):
        raise ValueError(f"{path}: not a table of photos; the file is damaged") from None
    rows = [(row + [""] * len(head))[: len(head)] for row in rows]
    for row in rows:
        values = dict(zip(head, row, strict=True))
        for error, names in _KNOWN_BY.items():
            if values.get("lens_note") and not values.get(error):
                row[:] = ["" if name in names else value for name, value in zip(head, row, strict=True)]
    known = dict(zip((scene.frames[i].name for i in scene.train), scene.train, strict=True))
    won = {one.number: [f"{100 * one.blurred:.0f} %", f"{one.detail:.1f}×", f"{one.agreement:.1f}"] for one in gains}
    head += ["exposure time", "ISO", "blurred", "detail there", "agreement, dB"]
    for row in rows:
        i = known.get(row[0])
        told = Exif() if i is None else scene.exif(i)
        row += [in_seconds(told.exposure_time), f"{told.iso:g}" if told.iso else ""]
        row += won.get(-1 if i is None else i, ["", "", ""])
    used = [k for k in range(len(head)) if any(row[k] for row in rows)]
    shown = page.table([head[k] for k in used], [[_short(row[k]) for k in used] for row in rows])
    return [page.details("What was learned of each photo", shown)]


def _short(words: str) -> str:
    """A number with four digits; words as they are."""
    try:
        return f"{float(words):.4g}"
    except ValueError:
        return words


def _figures(scores: Scores | None) -> list[str]:
    if scores is None or not isinstance(scores.mean["psnr"], float):
        return []
    head = ["view", *(figures.HEADS[name] for name in METRICS)]
    notes = [page.paragraph(words) for words in scores.notes]
    return [page.heading("Figures"), page.table(head, figures.rows(scores), last_is_mean=True), *notes]


def _curve(run: Run) -> list[str]:
    """PSNR of the batches, from the log."""
    path = run.folder / LOG if run.folder else None
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path and path.is_file() else []
    points = {int(m[1]): (float(m[3]), m[2]) for line in lines if (m := _STEP.match(line))}
    if len(points) < 2:
        return [page.heading("Training", "The run's log is too short for a curve.")]
    chart = page.drawing(curve_chart(points), "how well batches of the photos are matched")
    return [page.heading("Training"), page.grid("pair", [chart])]
