"""The one progress bar: on stderr where that is a terminal, a line now and then where it is not.

    with Progress("render", total=len(views)) as bar:
        for view in views:
            ...
            bar.advance(message="32.1 dB")

    for view in track(views, "render"): ...

While a bar is drawn, `print` writes above it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
LINE_SECONDS = 60.0  # between two lines, where there is no terminal


class Progress:
    """Progress of one task, or of several in turn, each with its `label` and its `total`.

    An integer total shows counts, a float one a percentage. `quiet` shows nothing at all. `keep` leaves the bar of a
    finished task on the terminal, and writes a line for it where there is none.
    """

    def __init__(self, label: str = "", total: float = 0, *, quiet: bool = False, keep: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
        from rich.table import Column

        self.console = Console(stderr=True)
        self.quiet, self.keep = quiet, keep
        self.live = self.console.is_terminal and not quiet
        message = TextColumn("{task.fields[message]}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = TextColumn("{task.description:<9}"), BarColumn(20), TextColumn("{task.fields[count]}")
        self._bars = Bars(
            *columns, TimeRemainingColumn(), message, console=self.console, transient=not keep, disable=not self.live
        )
        self.label, self.total, self.done, self.message = label, total, 0.0, ""
        self._task = self._bars.add_task(label, total=total, count="", message="", visible=bool(label))
        self._line, self._last_line = "", time.monotonic()

    def advance(self, amount: float = 1, message: str | None = None) -> None:
        """Move on by `amount`; `message` stands behind the bar until the next one."""
        self.update(self.done + amount, message)

    def update(
        self, done: float, message: str | None = None, *, label: str | None = None, total: float | None = None
    ) -> None:
        """Set how much is done. Another `label` begins another task if the finished ones are kept."""
        if label is not None and label != self.label:
            if self.keep:
                self._finish()
                self._task = self._bars.add_task(label, total=total, count="", message="")
            self.label = label
        self.done = done
        self.total = self.total if total is None else total
        self.message = self.message if message is None else message
        whole = isinstance(self.total, int)
        count = f"{done:.0f}/{self.total}" if whole else f"{done / max(self.total, 1e-9):4.0%}"
        self._bars.update(
            self._task, completed=done, total=self.total, description=self.label, count=count, message=self.message,
            visible=True,
        )  # fmt: skip
        self._line = f"{self.label:<9} {count.replace('/', ' of ').strip()}  {self.message}".rstrip()
        if not (self.live or self.quiet) and time.monotonic() - self._last_line > LINE_SECONDS:
            self._write(self._line)

    def say(self, line: str) -> None:
        """Write a line to stderr that stays, after that of the task so far where tasks are kept."""
        if self.keep:
            self._finish()
        self._write(line)

    def _finish(self) -> None:
        if self._line and not self.live:
            self._write(self._line)
        self._line, self.label = "", ""

    def _write(self, line: str) -> None:
        if self.live:
            self.console.print(f"dofnerf: {line}", highlight=False, markup=False, soft_wrap=True)
        elif not self.quiet:
            print(f"dofnerf: {line}", file=sys.stderr, flush=True)
        self._last_line = time.monotonic()

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.keep:
            self._finish()
        self._bars.stop()


def track(items: Sequence[T], label: str, quiet: bool = False) -> Iterator[T]:
    """The items, with a bar that moves on after each."""
    with Progress(label, len(items), quiet=quiet) as bar:
        for item in items:
            yield item
            bar.advance()
