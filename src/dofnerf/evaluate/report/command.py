"""`dofnerf report`: a page about a run or an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from dofnerf.evaluate.command import LpipsConfig
from dofnerf.evaluate.report.bench_page import write_bench_page
from dofnerf.evaluate.report.run_page import write_run_page
from dofnerf.evaluate.scores import Reference
from dofnerf.evaluate.trained import open_trained
from dofnerf.files.outputs import check_file
from dofnerf.lab.bench.cell import CELLS
from dofnerf.lab.bench.conclusions import JSON as CONCLUSIONS

FILE = "report.html"


@dataclass(frozen=True)
class ReportConfig:
    """Make one HTML page about a run, or about an experiment of `dofnerf bench`: pictures before and after under a
    slider, held-out views with their errors, crops, depth, the lens of every photo, figures, the training curve,
    cameras in space.

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
        check_file("--out", config.out, (".html", ".htm"))
    out = config.out or (config.path if config.path.is_dir() else config.path.parent) / FILE
    if (config.path / CONCLUSIONS).is_file():
        check_file("--out", out, (".html", ".htm"))
        write_bench_page(out, config.path)
    elif (config.path / CELLS).is_dir():
        raise ValueError(
            f"{config.path}: an experiment that has not come to its end; run `dofnerf bench` again, it goes on"
        )
    else:
        trained, scene = open_trained(config.path, config.scene)
        check_file("--out", out, (".html", ".htm"))
        write_run_page(out, trained, scene, config.lpips.find(), config.reference)
    print(f"wrote    {out} ({out.stat().st_size / 1e6:.1f} MB)")
    return out
