"""How training goes, on a terminal: stage, step, rays a second, PSNR of the batch, time left, the lenses' range."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from dofnerf.train.learner import Learner

_EVERY = 10  # steps between looks at the lens, which costs a little


class Progress:
    """A bar on stderr, if that is a terminal and nobody asked for quiet."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description:<9}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[words]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        )  # fmt: skip
        self.quiet = quiet
        self.bar = Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self.task = self.bar.add_task("start", total=total, words="")

    def show(self, learner: Learner, psnr: float, speed: float) -> None:
        """After a step."""
        step, steps = learner.standing.step, learner.config.steps
        if step % _EVERY and step != steps.total:
            return
        stage = steps.stage_of(step - 1)
        words = f"PSNR {psnr:.2f}  {speed:,.0f} rays/s"
        if stage != "pinhole":
            aperture, focus = learner.lens.aperture.detach(), learner.lens.focus_depth.detach()
            words += f"  aperture {aperture.min():.3g}–{aperture.max():.3g}  focus {focus.min():.3g}–{focus.max():.3g}"
        self.bar.update(self.task, completed=step, description=stage, words=words)

    def say(self, words: str) -> None:
        """A line that stays."""
        if not self.quiet:
            print(f"dofnerf: {words}", file=sys.stderr)

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
