"""What each choice beyond the paper is worth: one change at a time to the preset, same seed, same number of steps.

Some of the *training* photos are held out for it, so that the scene's own held-out views choose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from dofnerf.lab.bench.cell import NOT_DONE, Cell, Outcomes, mean_score
from dofnerf.lab.bench.experiment import Choice, Experiment, all_combinations
from dofnerf.lab.bench.results import Draft, number
from dofnerf.lab.bench.tables import draw_crops
from dofnerf.models.splat.config import SplatConfig
from dofnerf.train import TrainConfig

Choices = dict[str, Mapping[str, Mapping[str, object]]]
PRESET = "preset"
LENS: Choices = {
    PRESET: {},
    "no search (constants, then gradients)": {"lens": {"search": False}},
    "no search, rate 5e-4 (the paper's)": {"lens": {"search": False, "lens_rate": 5e-4}},
    "no common aperture where the search is in doubt": {"lens": {"common_aperture": False}},
    "search only, no gradients": {"lens": {"lens_rate": 1e-9}},
    "momentum moves the lenses of all photos": {"lens": {"only_sampled": False}},
    "one aperture for all": {"lens": {"share_aperture": "all"}},
}
VOLUMETRIC: Choices = {
    "search once, no re-fits": {"lens": {"refits": ()}},
    "no extra rays in focus": {"method": {"in_focus": 0.0}},
    "no sparse depth": {"method": {"depth_weight": 0.0}},
    "no spread loss (fog)": {"method": {"spread_weight": 0.0}},
    "loss free of lens noise": {"method": {"noise_free": True}},
    "patches in 4 layers, right at occlusions": {"method": {"layers": 4}},
}


def splat(own: SplatConfig) -> Choices:
    """For splats; the stages with a lens together are as long as in the preset."""
    both = own.lens_steps + own.sub_aperture_steps
    return {
        "rendered image scattered by its depth, as the paper does": {"method": {"blur": "scatter"}},
        "no aperture consistency loss": {"aperture_consistency": {"aperture_consistency": 0.0}},
        "search once, also where no lens is found": {"lens": {"refits": ()}},
        "a second search for all photos": {"lens": {"refit_all": True}},
        "no stage with sub-apertures, no sparse-gradient prior": {
            "method": {"lens_steps": both, "sub_aperture_steps": 0}
        },
        "whole Gaussians blurred with a disc's variance": {"method": {"blur_width": 1.0}},
        f"{2 * own.sub_apertures} sub-apertures instead of {own.sub_apertures}": {
            "method": {"sub_apertures": 2 * own.sub_apertures}
        },
        "pinhole stage weighs blurred and sharp photos alike": {"method": {"sharp_first": False}},
        "no weight on image gradients": {"method": {"gradient_loss": 0.0}},
        "no sparse-gradient prior": {"method": {"gradient_prior": 0.0}},
        "Gaussians are not flattened": {"method": {"flatness": 0.0}},
        "no growth": {"method": {"grow": False}},
        "one exposure for all photos": {"exposure": {"exposure": False}},
        "poses as given": {"pose": {"refine_poses": False}},
        "focal lengths as given": {"focal": {"refine_focal": False}},
        "colour of one harmonic (degree 0)": {"method": {"degree": 0}},
        "40 000 Gaussians": {"method": {"splats": 40_000}},
    }


def choices_of(field: str, own: Any) -> Choices:
    """All lines for a field."""
    return LENS | (splat(own) if field == "splat" else VOLUMETRIC)


def _plan(choice: Choice) -> list[Cell]:
    cells = []
    for field in choice.fields:
        preset = choice.config(field, 0)
        lines = choices_of(field, preset.method).items()
        variants = {
            name: partial(TrainConfig.changed, changes=new)
            for name, new in lines
            if name == PRESET or preset.changed(new) != preset
        }
        cells += all_combinations(replace(choice, fields=(field,)), variants, validation=True)
    return cells


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    head = "choice", "PSNR", "against the preset", "registered", "SSIM", "aperture off by", "focus off by", "seconds"
    note = (
        "PSNR on training photos that were held out for choices, as given and registered (where cameras or exposures "
        "are learned, those of held-out photos may differ); seconds by the clock, beside whatever else ran."
    )
    for one, field in product(choice.scenes, choice.fields):
        rows, values = [], dict[str, float]()
        for line in dict.fromkeys(cell.tags["variant"] for cell in done.cells if cell.tags["field"] == field):
            found = done.of(scene=one.name, field=field, variant=line)
            psnr, ssim = (mean_score([f["mean"][name] for f in found]) for name in ("psnr", "ssim"))
            fitted = mean_score([f["mean"].get("psnr_registered") for f in found])
            values |= {line: psnr} if isinstance(psnr, float) else {}
            compared = line != PRESET and line in values and PRESET in values
            gain = f"{values[line] - values[PRESET]:+.2f}" if compared else ""
            lenses = [f["lens"] for f in found if isinstance(f["lens"], dict)]
            off = [mean_score([lens[name] for lens in lenses]) for name in ("aperture", "focus")]
            errors = [f"{100 * value:.1f} %" if isinstance(value, float) else "–" for value in off]
            scores = number(psnr, missing=NOT_DONE), gain, number(fitted), number(ssim, 4, NOT_DONE)
            rows.append((line, *scores, *errors, number(mean_score([f["seconds"] for f in found]), 0)))
        draft.add(f"{one.name}, {field}: one change at a time", head, rows, note)
        worst = min((value, line) for line, value in values.items())[1] if values else PRESET
        shown = [cell for cell in done.cells if cell.tags["field"] == field and cell.tags["variant"] in (PRESET, worst)]
        draw_crops(replace(choice, scenes=(one,), fields=(field,)), replace(done, cells=shown), draft)


EXPERIMENT = Experiment(
    "What each choice beyond the paper is worth, one change at a time.", _plan, _conclude, validation=True
)
