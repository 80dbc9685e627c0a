"""The page about a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dofnerf
from dofnerf.evaluate import figures
from dofnerf.evaluate.comparison import ERROR_RANGE, ZOOM, depth_picture, enlarged, error_map, telling_box
from dofnerf.evaluate.photo_lenses import PhotoLenses, depth_ticks, photo_lenses
from dofnerf.evaluate.report import page
from dofnerf.evaluate.report.charts import Axis, Series, chart, round_ticks
from dofnerf.evaluate.report.space import world_of
from dofnerf.evaluate.scores import METRICS, Perceptual, Reference, Scores, gather, score_view
from dofnerf.scenes import Scene
from dofnerf.train import Run
from dofnerf.train.folder import LOG

MOST_VIEWS = 8  # whose pictures are on the page
_AGAINST: dict[Reference, str] = {"sharp": "their all-in-focus photos", "photo": "their photos as they are"}
_STEP = re.compile(r"^step (\d+)  (.+?)  [\d.]+ s  PSNR ([\d.]+)")


class Seen(NamedTuple):
    """A view: number, photo, render, depth (H, W, 3) as pictures, and what to compare with, if anything."""

    number: int
    photo: np.ndarray
    render: np.ndarray
    depth: np.ndarray
    truth: np.ndarray | None


def write_run_page(
    path: Path, run: Run, scene: Scene, perceptual: Perceptual | str, reference: Reference = "sharp"
) -> Scores | None:
    """Write the page; returns the scores, None if no view is held out."""
    shown, views = [], []
    numbers = list(scene.test) or [scene.train[len(scene.train) // 2]]
    kept = {numbers[k] for k in np.linspace(0, len(numbers) - 1, min(MOST_VIEWS, len(numbers))).round().astype(int)}
    far, near = 1 / scene.far, 1 / scene.near
    for i in numbers:
        view = run.render(scene.camera(i))
        if scene.test:
            views.append(score_view(run, scene, i, perceptual, reference, view))
        if i in kept:
            image, depth = view.image.clamp(0, 1).cpu().numpy(), depth_picture(view.disparity.cpu().numpy(), far, near)
            shown.append(
                Seen(i, scene.photo(i), image, depth, scene.sharp(i) if reference == "sharp" else scene.photo(i))
            )
    scores = gather(run, scene, tuple(views), perceptual) if views else None
    body = [*_head(run, scene, scores, reference), *_before_after(shown, scene)]
    body += [*_pictures(shown, scene, reference), *_lens(run, scene, scores)]
    body += [*_figures(scores), *_curve(run)]
    body += [
        page.heading("Cameras in space"),
        page.cameras_in_space(world_of(run, scene), "Drag to turn, scroll or pinch to scale."),
    ]
    config, steps = run.config, run.config.steps
    about = (
        f"dofnerf {dofnerf.__version__}; {scene.describe()}; {config.field}, preset {config.preset}, {steps.pinhole_steps} + "
        f"{steps.lens_steps} + {steps.lens_ray_steps} steps, seed {config.seed}"
    )
    page.write_page(path, f"{run.folder.name if run.folder else 'run'}: {scene.name}", body, about)
    return scores


def _head(run: Run, scene: Scene, scores: Scores | None, reference: Reference) -> list[str]:
    steps, seconds = run.config.steps.total, run.learner.standing.seconds
    lens = "every photo's lens learned" if run.has_lens else "without a lens"
    first = page.paragraph(
        f"{run.config.field}, {steps} steps in {seconds:.0f} s, {lens}. {len(scene.train)} photos trained."
    )
    if scores is None:
        return [
            first,
            page.paragraph("No view is held out, so there are no figures: train with --hold-every 9 to have them."),
        ]
    if not isinstance(scores.mean["psnr"], float):
        words = "There are no all-in-focus photos of the held-out views, so there are no figures: look at the pictures."
        return [first, page.paragraph(words)]
    known = [(figures.HEADS[name], figures.words(name, scores.mean[name])) for name in ("psnr", "ssim", "lpips")]
    return [
        first,
        page.numbers(known),
        page.paragraph(
            f"Means over {len(scores.views)} views that no training has seen, against {_AGAINST[reference]}."
        ),
    ]


def _before_after(shown: list[Seen], scene: Scene) -> list[str]:
    one = shown[len(shown) // 2]
    what = "a view that no training has seen" if scene.test else "a photo that was trained on"
    below = (
        f"View {one.number} ({scene.frames[one.number].name}), {what}: its photo, and what the run shows, all in focus."
    )
    before, after = (page.at_least(image) for image in (one.photo, one.render))
    return [page.heading("Before and after", below), page.slider(("photo", before), ("all in focus", after))]


def _pictures(shown: list[Seen], scene: Scene, reference: Reference) -> list[str]:
    words = "Held-out views" if scene.test else "A view"
    below = (
        f"Errors from 0 (black) to {ERROR_RANGE:g} (yellow), the paper's range, against {_AGAINST[reference]}; "
        "crops where the photo is most blurred."
    )
    parts = [
        page.heading(
            words,
            below
            if any(one.truth is not None for one in shown)
            else "The scene has no all-in-focus photos: no reference.",
        )
    ]
    for one in shown:
        parts.append(page.subheading(f"View {one.number}: {scene.frames[one.number].name}"))
        box = telling_box(one.photo, one.render if one.truth is None or one.truth is one.photo else one.truth)
        named = [("photo", one.photo), ("all in focus", one.render)]
        named += [("truth", one.truth)] if one.truth is not None and reference == "sharp" else []
        whole = [page.figure(image, name) for name, image in named]
        whole += [page.figure(error_map(one.render, one.truth), "error")] if one.truth is not None else []
        whole.append(page.figure(one.depth, "depth: near is bright"))
        size = (
            max(page.LEAST_WIDE, scene.size[0]),
            round(max(page.LEAST_WIDE, scene.size[0]) * scene.size[1] / scene.size[0]),
        )
        crops = [page.figure(enlarged(image, size, box), f"{name}, {ZOOM} times closer") for name, image in named]
        parts += [page.tiles(whole), page.subheading("Closer"), page.tiles(crops)]
    return parts


def _lens(run: Run, scene: Scene, scores: Scores | None) -> list[str]:
    lenses = photo_lenses(run, scene)
    if lenses is None:
        return [page.heading("The lens", "This run was trained without a lens.")]
    parts = [page.heading("The lens of every photo"), page.pair(lens_charts(lenses))]
    if scores is not None:
        parts += [page.paragraph(line.split(maxsplit=1)[1].capitalize()) for line in figures.lens_lines(scores)]
    return parts


def lens_charts(lenses: PhotoLenses) -> list[str]:
    """Aperture and focus of each photo as drawings."""
    rows = list(zip(lenses.numbers, lenses.names, lenses.found, lenses.true, strict=True))
    start, last = lenses.start, max(lenses.numbers)
    photos = Axis("photo", -0.5, last + 0.5, [tick for tick in round_ticks(0, last) if tick == int(tick)])
    found = Series(
        "learned", [(n, lens.aperture, f"{name}: {lens.aperture:.3g}") for n, name, lens, _ in rows], "var(--accent)"
    )
    true = Series(
        "true", [(n, t.aperture, f"{name}: {t.aperture:.3g}") for n, name, _, t in rows if t], "var(--true)", "rings"
    )
    begun = Series("start", [(0, start.aperture, "")] if start else [], "var(--soft)", "level")
    most = 1.1 * max(y for one in (found, true, begun) for _, y, _ in one.points)
    aperture = Axis("pixels × scene units", 0, most, round_ticks(0, most))
    drawn = [chart("Aperture", photos, aperture, [one for one in (true, found, begun) if one.points])]
    depth = Axis("scene units", lenses.near, lenses.far, depth_ticks(lenses.near, lenses.far), logarithmic=True)
    found = Series(
        "learned",
        [(n, lens.focus_depth, f"{name}: {lens.focus_depth:.3g}") for n, name, lens, _ in rows],
        "var(--accent)",
    )
    ringed = [(n, t.focus_depth, f"{name}: {t.focus_depth:.3g}") for n, name, _, t in rows if t and t.aperture > 0]
    begun = Series("start", [(0, start.focus_depth, "")] if start else [], "var(--soft)", "level")
    parts = [Series("true", ringed, "var(--true)", "rings"), found, begun]
    drawn.append(chart("Focus depth", photos, depth, [one for one in parts if one.points]))
    words = "how wide open each photo's lens was", "how far away each photo was in focus"
    return [page.drawing(svg, caption) for svg, caption in zip(drawn, words, strict=True)]


def _figures(scores: Scores | None) -> list[str]:
    if scores is None:
        return []
    head = ["view", *(figures.HEADS[name] for name in METRICS)]
    notes = [page.paragraph(words) for words in scores.notes]
    return [page.heading("Figures"), page.table(head, figures.rows(scores), last_is_mean=True), *notes]


def _curve(run: Run) -> list[str]:
    """PSNR of the batches, by the log."""
    path = run.folder / LOG if run.folder else None
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path and path.is_file() else []
    points = {int(m[1]): (float(m[3]), m[2]) for line in lines if (m := _STEP.match(line))}
    if len(points) < 2:
        return [page.heading("Training", "The run's log is too short for a curve.")]
    stages = list(dict.fromkeys(stage for _, stage in points.values()))
    colours = "var(--soft)", "var(--true)", "var(--accent)"
    series, steps = [], sorted(points)
    for stage, colour in zip(stages, colours, strict=False):
        mine = [step for step in steps if points[step][1] == stage]
        before = [step for step in steps if step < mine[0]][-1:]  # so that the line has no gap
        series.append(Series(stage, [(step, points[step][0], "") for step in [*before, *mine]], colour, "line"))
    values = [value for value, _ in points.values()]
    y = Axis(
        "PSNR of the batch, dB", min(values) - 0.5, max(values) + 0.5, round_ticks(min(values) - 0.5, max(values) + 0.5)
    )
    x = Axis("step", 0, steps[-1], round_ticks(0, steps[-1]))
    return [
        page.heading("Training"),
        page.pair([page.drawing(chart("Training", x, y, series), "how well batches of the photos are matched")]),
    ]
