"""The experiments, by name."""

from __future__ import annotations

from dofnerf.lab.bench.choice import Experiment
from dofnerf.lab.bench.experiments import ablation, cost, design, lens, shallow, volume

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        shallow.SHALLOW, shallow.DSNERF, shallow.SHARP, ablation.ABLATION, lens.LENS, volume.VOLUME, cost.COST, design.DESIGN,
    )
}  # fmt: skip
