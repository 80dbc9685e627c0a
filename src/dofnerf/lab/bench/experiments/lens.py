"""Fig. 9: the lens found for every photo, focused near and far in turn, and shallow and sharp in turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dofnerf.evaluate.photo_lenses import PhotoLenses, lens_plot
from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.choice import Choice, Experiment, all_with_all, folder_name
from dofnerf.lab.bench.conclusions import Sketch, Table
from dofnerf.lab.bench.experiments.comparing import draw_crops, lens_table
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Scene

FOCUS, APERTURE, GIVEN = "near and far in turn", "shallow and sharp in turn", "photos as given"


def patterns_of(scene: Scene) -> dict[str, str]:
    """The mixes of photos that a scene has, by what they are called."""
    has = {
        label: all(getattr(frame, label) is not None for frame in scene.frames) for label in ("near", "far", "sharp")
    }
    found = {FOCUS: "near-far"} if has["near"] and has["far"] else {GIVEN: "auto"}
    return found | ({APERTURE: "aperture"} if has["sharp"] else {})


def _plan(choice: Choice) -> list[Cell]:
    cells = []
    for one in choice.scenes:
        for name, mix in patterns_of(choice.loaded[one]).items():
            alone = Choice((one,), choice.loaded, choice.fields, choice.preset, choice.steps, choice.seeds)
            cells += all_with_all(alone, {name: lambda config: config}, mix=mix)
    return cells


def lenses_of(plain: dict[str, Any]) -> PhotoLenses:
    """Those that a cell's findings hold; None is infinity."""

    def lens(value: dict[str, Any] | None) -> Lens | None:
        return None if value is None else Lens(value["aperture"], value["focus_depth"] or math.inf)

    start, found = lens(plain["start"]), [lens(one) for one in plain["found"]]
    true = tuple(lens(one) for one in plain["true"])
    numbers, names = tuple(plain["numbers"]), tuple(plain["names"])
    return PhotoLenses(
        numbers, names, tuple(one for one in found if one), true, start, plain["near"], plain["far"] or math.inf
    )


def _conclude(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    rows = []
    for cell in cells:
        plain = done.found.get(cell.key, {}).get("lenses")
        if plain is None:
            continue
        lenses = lenses_of(plain)
        where = f"{cell.tags['scene']}, {cell.tags['field']}, {cell.tags['variant']}"
        if cell.tags["seed"] == str(choice.seeds[0]):
            name = folder_name(f"lens {cell.tags['scene']} {cell.tags['field']} {cell.tags['variant']}")
            sketch.draw(
                name,
                lens_plot(lenses, f"The lens of every photo: {where}"),
                f"{where}: learned, true (where known), start",
            )
        for parity, words in enumerate(("even", "odd")):
            chosen = [k for k, number in enumerate(lenses.numbers) if number % 2 == parity]
            rows.append(
                (*(cell.tags[name] for name in ("scene", "field", "variant", "seed")), words, *_summary(lenses, chosen))
            )
    head = ("scene", "field", "photos", "seed", "views", "aperture", "true", "focus depth", "true")
    note = "Medians over the training photos of even and of odd number; focus depth in scene units."
    sketch.tables.append(Table("Lenses by pattern (Fig. 9)", head, tuple(rows), (note,)))
    against = lens_table(choice, cells, done)
    if against is not None:
        sketch.tables.append(against)
    draw_crops(choice, cells, done, sketch)


def _summary(lenses: PhotoLenses, chosen: list[int]) -> list[str]:
    """Medians: aperture found, true, focus found, true."""
    found, true = [lenses.found[k] for k in chosen], [lens for k in chosen if (lens := lenses.true[k]) is not None]
    aperture = [_middle([lens.aperture for lens in one]) for one in (found, true)]
    focus = [_middle([lens.focus_disparity for lens in one if lens.aperture > 0], invert=True) for one in (found, true)]
    return [aperture[0], aperture[1], focus[0], focus[1]]


def _middle(values: list[float], invert: bool = False) -> str:
    if not values:
        return "–"
    value = float(np.median(values))
    return f"{inverse(value) if invert else value:.3g}"


LENS = Experiment("lens", "The aperture and focus found for every photo, for two patterns of photos.", _plan, _conclude)
