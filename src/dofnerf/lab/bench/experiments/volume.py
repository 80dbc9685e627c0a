"""Fig. 3: the weights K_volume of samples on 1024 rays. Few samples carry nearly all light, so one depth a ray will
do."""

from __future__ import annotations

import numpy as np

from dofnerf.lab.bench.cell import Cell, Findings
from dofnerf.lab.bench.choice import Choice, Experiment, all_with_all, folder_name
from dofnerf.lab.bench.conclusions import Sketch, Table
from dofnerf.lab.bench.experiments.comparing import draw_crops
from dofnerf.lab.bench.schedule import Outcomes

_INK, _BARS, _LINE = "#333333", "#2b6cb0", "#dd6b20"


def _plan(choice: Choice) -> list[Cell]:
    return all_with_all(choice, {"ours": lambda config: config}, "volume")


def _conclude(choice: Choice, cells: list[Cell], done: Outcomes, sketch: Sketch) -> None:
    rows = []
    for cell in cells:
        found = done.found.get(cell.key, {}).get("volume")
        if found is None:
            continue
        where = f"{cell.tags['scene']}, {cell.tags['field']}"
        if cell.tags["seed"] == str(choice.seeds[0]):
            sketch.draw(
                folder_name(f"volume {where}"),
                volume_plot(found, where),
                f"{where}: K_volume along three rays, and of all samples of 1024",
            )
        shares = (
            found["samples"][0],
            1 - found["light"][0],
            found["largest_median"],
            found["near_largest"],
            found["near_depth"],
        )
        rows.append(
            (*(cell.tags[name] for name in ("scene", "field", "seed")), *(f"{100 * share:.1f} %" for share in shares))
        )
    head = (
        "scene",
        "field",
        "seed",
        "samples below 0.05",
        "light of the others",
        "largest weight",
        "largest three",
        "near the mean",
    )
    notes = (
        "Largest weight: that of the median ray. Largest three: the share of a ray's light from its heaviest sample and the 2 "
        "beside it. Near the mean: the share whose disparity is within 5 % of the scene's range from the ray's mean, where the "
        "blur puts all. Both are means over the rays. Samples of hash crowd where something is, so many share the light there.",
    )
    sketch.tables.append(Table("K_volume of the samples on 1024 rays (Fig. 3)", head, tuple(rows), notes))
    draw_crops(choice, cells, done, sketch)


def volume_plot(found: Findings, where: str) -> np.ndarray:
    """Three rays' weights by depth; and for each bin of weights, the share of samples and of light, (H, W, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(f"Volume weights: {where}", fontsize=12, color=_INK)
    along, bins = figure.subplots(1, 2)
    for k, ray in enumerate(found["rays"]):
        along.plot(ray["depth"], ray["weight"], marker=".", linewidth=1, label=f"ray {k + 1}")
    along.set_xlabel("depth (scene units)", color=_INK)
    along.set_ylabel("K_volume", color=_INK)
    along.legend()
    edges = np.array(found["edges"])
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    bins.bar(middle, np.maximum(found["samples"], 1e-6), width=0.9 * width, color=_BARS, label="share of the samples")
    bins.plot(middle, np.maximum(found["light"], 1e-6), color=_LINE, marker=".", label="share of the light")
    bins.set_yscale("log")
    bins.set_ylim(1e-4, 1.5)
    bins.set_xlabel("K_volume", color=_INK)
    bins.legend()
    for axes in (along, bins):
        axes.grid(alpha=0.25, linewidth=0.6)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


VOLUME = Experiment(
    "volume",
    "How the light of a ray is spread over its samples.",
    _plan,
    _conclude,
    ("hash",),
    ("hash", "nerf", "dsnerf"),
)
