"""What each choice beyond the paper is worth: one change at a time to the preset, same seed, same number of steps.

Some of the *training* photos are held out for it: the scene's own held-out views choose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.choice import Choice, Experiment, all_with_all, changed
from dofnerf.lab.bench.conclusions import Sketch, Table, mean_score, number
from dofnerf.lab.bench.experiments.comparing import draw_crops, findings_of
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.train import StepsConfig

Choices = dict[str, Mapping[str, Mapping[str, object]]]
PRESET = "preset"
LENS: Choices = {
    PRESET: {},
    "no search (constants, then gradients)": {"lens": {"search": False}},
    "no search, rate 5e-4 (the paper's)": {"lens": {"search": False, "lens_rate": 5e-4}},
    "photos do not vote for one aperture": {"lens": {"vote": False}},
    "search only, no gradients": {"lens": {"lens_rate": 1e-9}},
    "momentum moves all photos": {"lens": {"only_sampled": False}},
    "one aperture for all": {"lens": {"share_aperture": "all"}},
}
VOLUMETRIC: Choices = {
    "search once, no re-fits": {"lens": {"refits": ()}},
    "nothing extra in focus": {"lens": {"in_focus": 0.0}},
    "no sparse depth": {"rates": {"depth_weight": 0.0}},
    "no loss against fog": {"rates": {"spread_weight": 0.0}},
    "loss free of lens noise": {"lens": {"noise_free": True}},
    "patches in 4 layers, right at occlusions": {"lens": {"layers": 4}},
}


def splat(steps: StepsConfig) -> Choices:
    """What splats may choose beside; the stages with a lens together are as long as in the preset."""
    both = steps.lens_steps + steps.lens_ray_steps
    return {
        "picture scattered by its depth, as the paper does": {"field_config": {"blur": "scatter"}},
        "apertures are not drawn to each other": {"lens": {"together": 0.0}},
        "search once, also where no lens is found": {"lens": {"refits": ()}},
        "a second search for all photos": {"lens": {"refit_all": True}},
        "lens never in parts, and edges cost nothing": {"steps": {"lens_steps": both, "lens_ray_steps": 0}},
        f"{2 * steps.lens_points} parts instead of {steps.lens_points}": {
            "steps": {"lens_points": 2 * steps.lens_points}
        },
        "before the lens, blurred detail counts as much as sharp": {"lens": {"sharp_first": False}},
        "detail weighs no more than the rest": {"field_config": {"detail": 0.0}},
        "edges cost nothing": {"field_config": {"edges": 0.0}},
        "no growth": {"field_config": {"grow": False}},
        "colour of one harmonic (degree 0)": {"field_config": {"degree": 0}},
        "40 000 Gaussians": {"field_config": {"splats": 40_000}},
    }


def choices_of(field: str, steps: StepsConfig) -> Choices:
    """All lines for a field."""
    return LENS | (splat(steps) if field == "splat" else VOLUMETRIC)


def _plan(choice: Choice) -> list[Cell]:
    cells = []
    for field in choice.fields:
        preset = choice.config(field, 0)
        lines = choices_of(field, preset.steps)
        lines = {name: new for name, new in lines.items() if name == PRESET or changed(preset, new) != preset}
        alone = Choice(choice.scenes, choice.loaded, (field,), choice.preset, choice.steps, choice.seeds)
        cells += all_with_all(
            alone, {name: partial(changed, changes=new) for name, new in lines.items()}, validation=True
        )
    return cells


def _conclude(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    head = ("choice", "PSNR", "against the preset", "SSIM", "aperture off by", "focus off by", "seconds")
    for one in choice.scenes:
        for field in choice.fields:
            rows = []
            lines = list(dict.fromkeys(c.tags["variant"] for c in cells if c.tags["field"] == field))
            base, values = None, dict[str, float]()
            for line in lines:
                found = findings_of(cells, done, scene=one.name, field=field, variant=line)
                psnr, ssim = (mean_score([f["mean"][name] for f in found]) for name in ("psnr", "ssim"))
                base = psnr if line == PRESET else base
                values |= {line: psnr} if isinstance(psnr, float) else {}
                gain = (
                    f"{psnr - base:+.2f}"
                    if isinstance(psnr, float) and isinstance(base, float) and line != PRESET
                    else ""
                )
                lenses = [f["lens"] for f in found if isinstance(f["lens"], dict)]
                off = [mean_score([lens[name] for lens in lenses]) for name in ("aperture", "focus")]
                errors = [f"{100 * value:.1f} %" if isinstance(value, float) else "–" for value in off]
                seconds = number(mean_score([f["seconds"] for f in found]), 0)
                rows.append(
                    (line, number(psnr, missing="not done"), gain, number(ssim, 4, "not done"), *errors, seconds)
                )
            note = "PSNR on training photos that were held out for choices; seconds by the clock, beside whatever else ran."
            sketch.tables.append(Table(f"{one.name}, {field}: one change at a time", head, tuple(rows), (note,)))
            worst = min((value, line) for line, value in values.items()) if values else (0.0, PRESET)
            telling = [
                cell for cell in cells if cell.tags["field"] == field and cell.tags["variant"] in (PRESET, worst[1])
            ]
            draw_crops(replace(choice, scenes=(one,), fields=(field,)), telling, done, sketch)


DESIGN = Experiment("design", "One line a choice beyond the paper, on and off.", _plan, _conclude, validation=True)
