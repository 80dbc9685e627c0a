"""Fig. 3: the weights K_volume of the samples on 1024 rays. Few samples carry nearly all light, so one depth per ray is
enough for the blur."""

from __future__ import annotations

import numpy as np

from dofnerf.evaluate.charts import FOUND, INK, TRUE, pixels_of
from dofnerf.lab.bench.cell import Cell, Findings, Outcomes
from dofnerf.lab.bench.experiment import Choice, Experiment, all_combinations, folder_name
from dofnerf.lab.bench.results import Draft
from dofnerf.lab.bench.tables import draw_crops


def _plan(choice: Choice) -> list[Cell]:
    return all_combinations(choice, {"ours": lambda config: config}, "volume")


def _conclude(choice: Choice, done: Outcomes, draft: Draft) -> None:
    rows = []
    for cell in done.cells:
        found = done.found.get(cell.key, {}).get("volume")
        if found is None:
            continue
        tags = [cell.tags[name] for name in ("scene", "field", "seed")]
        if tags[2] == str(choice.seeds[0]):
            where = ", ".join(tags[:2])
            words = f"{where}: K_volume along three rays, and of all samples of 1024"
            draft.draw(folder_name(f"volume {where}"), volume_plot(found, where), words)
        shares = [found["samples"][0], 1 - found["light"][0]]
        shares += [found[name] for name in ("largest_median", "near_largest", "near_depth")]
        rows.append((*tags, *(f"{100 * share:.1f} %" for share in shares)))
    measured = "samples below 0.05", "light of the others", "largest weight", "largest three", "near the mean"
    note = (
        "Largest weight: that of the median ray. Largest three: the share of a ray's light from its heaviest sample "
        "and the 2 beside it. Near the mean: the share whose disparity is within 5 % of the scene's range from the "
        "ray's mean, where the blur puts all. Both are means over the rays. Samples of hash crowd where something is, "
        "so many share the light there."
    )
    draft.add("K_volume of the samples on 1024 rays (Fig. 3)", ("scene", "field", "seed", *measured), rows, note)
    draw_crops(choice, done, draft)


def volume_plot(found: Findings, where: str) -> np.ndarray:
    """Three rays' weights by depth; and for each bin of weights, the share of samples and of light, (H, W, 3) uint8."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    figure.suptitle(f"Volume weights: {where}", fontsize=12, color=INK, parse_math=False)
    along, bins = figure.subplots(1, 2)
    for k, ray in enumerate(found["rays"]):
        along.plot(ray["depth"], ray["weight"], marker=".", linewidth=1, label=f"ray {k + 1}")
    along.set_xlabel("depth (scene units)", color=INK)
    along.set_ylabel("K_volume", color=INK)
    along.legend()
    edges = np.array(found["edges"])
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    bins.bar(middle, np.maximum(found["samples"], 1e-6), width=0.9 * width, color=TRUE, label="share of the samples")
    bins.plot(middle, np.maximum(found["light"], 1e-6), color=FOUND, marker=".", label="share of the light")
    bins.set_yscale("log")
    bins.set_ylim(1e-4, 1.5)
    bins.set_xlabel("K_volume", color=INK)
    bins.legend()
    for axes in (along, bins):
        axes.grid(alpha=0.25, linewidth=0.6)
    return pixels_of(figure)


EXPERIMENT = Experiment(
    "How the light of 1024 rays is spread over their samples (Fig. 3).",
    _plan,
    _conclude,
    fields=("hash",),
    limited=("hash", "nerf", "dsnerf"),
)
