"""`dofnerf report`: a page about a run, or about an experiment of `dofnerf bench`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.report.page import check_page
from dofnerf.evaluate.report.run_page import report_run
from dofnerf.evaluate.scores import Reference
from dofnerf.lab.bench.results import is_experiment, report_experiment


@dataclass(frozen=True)
class ReportConfig:
    """Make one HTML page about a run, or about an experiment of `dofnerf bench`: pictures before and after under a
    slider, held-out views with their errors, crops, depth, the lens of every photo, figures, the training curve,
    and the scene in space with its cameras, to fly to.

    The page is one file that needs no network.

    For example:
      dofnerf report runs/mine
      dofnerf report bench/shallow --out shallow.html
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|BENCH")]
    """The folder of a run, or of an experiment."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: report.html in that folder)")] = None
    """The page, an .html file."""
    scene: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: where the run was trained)")] = None
    """Where the run's scene is now, if it has moved."""
    reference: Reference = "sharp"
    """Compare with all-in-focus photos, or with the held-out photos themselves (of a scene whose photos are all in
    focus)."""
    lpips: LpipsConfig = field(default_factory=LpipsConfig)


def run(config: ReportConfig) -> Path:
    """Write the page; returns its path."""
    if config.out is not None:
        check_page(config.out)
    if is_experiment(config.path):
        return report_experiment(config.path, config.out)
    return report_run(config.path, config.out, config.scene, config.reference, config.lpips)
