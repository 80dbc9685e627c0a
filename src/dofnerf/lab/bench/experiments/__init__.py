"""The experiments, by name: one file each, which carries its `EXPERIMENT`."""

from __future__ import annotations

import importlib
import pkgutil

from dofnerf.lab.bench.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").EXPERIMENT
    for module in pkgutil.iter_modules(__path__)
}
