"""Fig. 9: the lens learned for every photo, focused near and far in turn, and shallow and sharp in turn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dofnerf.evaluate.charts import PhotoLenses, lens_plot
from dofnerf.lab.bench.cell import Cell, Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment, all_combinations, folder_name
from dofnerf.lab.bench.results import Draft
from dofnerf.lab.bench.tables import draw_crops, lens_table
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Scene

FOCUS, APERTURE, GIVEN = "near and far in turn", "shallow and sharp in turn", "photos as given"


def patterns_of(scene: Scene) -> dict[str, str]:
    """The mixes of photos that a scene has, by what they are called."""
    has = {name: all(getattr(frame, name) is not None for frame in scene.frames) for name in ("near", "far", "sharp")}
    found = {FOCUS: "near-far"} if has["near"] and has["far"] else {GIVEN: "auto"}
    return found | ({APERTURE: "aperture"} if has["sharp"] else {})


def _plan(choice: Choice) -> list[Cell]:
    cells = []
    for one in choice.scenes:
        for name, mix in patterns_of(choice.loaded[one]).items():
            cells += all_combinations(replace(choice, scenes=(one,)), {name: lambda config: config}, mix=mix)
    return cells


def lenses_of(plain: dict[str, Any]) -> PhotoLenses:
    """Those that a cell's findings hold; None is infinity."""

    def lens(value: dict[str, Any] | None) -> Lens | None:
        return None if value is None else Lens(value["aperture"], value["focus_depth"] or math.inf)

    found, true = (tuple(lens(one) for one in plain[name]) for name in ("found", "true"))
    return PhotoLenses(
        tuple(plain["numbers"]), tuple(plain["names"]), tuple(one for one in found if one), true, lens(plain["start"]),
        plain["near"], plain["far"] or math.inf,
    )  # fmt: skip


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    rows = []
    for cell in done.cells:
        plain = done.found.get(cell.key, {}).get("lenses")
        if plain is None:
            continue
        lenses, tags = lenses_of(plain), [cell.tags[name] for name in ("scene", "field", "variant", "seed")]
        if tags[3] == str(choice.seeds[0]):
            where = ", ".join(tags[:3])
            picture = lens_plot(lenses, f"The lens of every photo: {where}")
            draft.draw(
                folder_name(f"lens {' '.join(tags[:3])}"), picture, f"{where}: learned, true (where known), start"
            )
        for parity, words in enumerate(("even", "odd")):
            chosen = [k for k, number in enumerate(lenses.numbers) if number % 2 == parity]
            rows.append((*tags, words, *_medians(lenses, chosen)))
    head = ("scene", "field", "photos", "seed", "views", "aperture", "true", "focus depth", "true")
    note = "Medians over the training photos of even and of odd number; focus depth in scene units."
    draft.add("Lenses by pattern (Fig. 9)", head, rows, note)
    lens_table(done, draft)
    draw_crops(choice, done, draft)


def _medians(lenses: PhotoLenses, chosen: list[int]) -> list[str]:
    """Aperture learned, true; focus learned, true."""
    both = [lenses.found[k] for k in chosen], [lens for k in chosen if (lens := lenses.true[k]) is not None]
    aperture = [_median([lens.aperture for lens in one]) for one in both]
    focus = [_median([lens.focus_disparity for lens in one if lens.aperture > 0], invert=True) for one in both]
    return [*aperture, *focus]


def _median(values: list[float], invert: bool = False) -> str:
    if not values:
        return "–"
    value = float(np.median(values))
    return f"{inverse(value) if invert else value:.3g}"


EXPERIMENT = Experiment(
    "The aperture and focus learned for every photo, for two patterns of photos (Fig. 9).", _plan, _conclude
)
