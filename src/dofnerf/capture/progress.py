"""How a capture goes: a bar for each step on a terminal, a line for each finished step elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Display:
    """On stderr. `report(step, done, total)` moves a step's bar, `say` writes a line that stays."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True)
        self.quiet = quiet
        self.live = self.console.is_terminal and not quiet
        columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=self.console, disable=not self.live)
        self.step, self.task, self.last = "", TaskID(0), ""

    def report(self, step: str, done: int, total: int) -> None:
        """`done` of `total` photos or pairs of this step."""
        if step != self.step:
            self._end()
            self.step, self.task = step, self.bars.add_task(step, total=total)
        self.bars.update(self.task, completed=done, total=total)
        self.last = f"dofnerf: {step:<9} {done} of {total}"

    def say(self, words: str) -> None:
        """A line that stays."""
        self._end()
        if self.live:
            self.console.print(f"dofnerf: {words}", highlight=False, markup=False, soft_wrap=True)
        elif not self.quiet:
            print(f"dofnerf: {words}", file=sys.stderr, flush=True)

    def _end(self) -> None:
        """Where there is no bar, say how the step ended."""
        if self.last and not (self.live or self.quiet):
            print(self.last, file=sys.stderr, flush=True)
        self.last, self.step = "", ""

    def __enter__(self) -> Display:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self.bars.stop()
