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
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
LINE_SECONDS = 25.0  # between two lines, where there is no terminal: also while nothing moves on


def in_words(seconds: float) -> str:
    """A duration: 12 s, 5 min, 2.3 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


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
        # In a narrow terminal the message is cut first, then the bar; never the percentage or the time left.
        wide = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        message = TextColumn("{task.fields[message]}", markup=False, table_column=wide)  # a name is no markup
        fixed = {"no_wrap": True, "overflow": "ignore"}
        name, count, share = (
            TextColumn(text, markup=False, table_column=Column(**fixed, min_width=least))  # type: ignore[arg-type]
            for text, least in (
                ("{task.description:<9.24}", 9),
                ("{task.fields[count]}", 1),
                ("{task.fields[share]}", 4),
            )
        )
        left = TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5))
        columns = name, BarColumn(20 if self.console.width >= 100 else 8), share, left, count
        self._bars = Bars(
            *columns, message, console=self.console, transient=not keep, disable=not self.live, expand=True
        )
        self.label, self.total, self.done, self.message = label, total, 0.0, ""
        self._task = self._bars.add_task(label, total=total, count="", share="", message="", visible=bool(label))
        self._line, self._last_line = "", time.monotonic()
        self._begun, self._from, self._over = time.monotonic(), 0.0, threading.Event()

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
                self._task = self._bars.add_task(label, total=total, count="", share="", message="")
            self._begun, self._from = time.monotonic(), done
            self.label = label
        self.done = done
        self.total = self.total if total is None else total
        self.message = self.message if message is None else message
        whole = isinstance(self.total, int)
        share = f"{done / max(self.total, 1e-9):4.0%}"
        count = f"{done:.0f}/{self.total}" if whole else ""
        self._bars.update(
            self._task, completed=done, total=self.total, description=self.label, count=count, share=share,
            message=self.message, visible=True,
        )  # fmt: skip
        shown = count.replace("/", " of ") if whole else share.strip()
        self._line = f"{self.label:<9} {shown}  {self.message}".rstrip()
        self._tell_now_and_then()

    def _tell_now_and_then(self) -> None:
        """Without a terminal: a line if the last one is long ago."""
        now = time.monotonic()
        if self.live or self.quiet or now - self._last_line <= LINE_SECONDS:
            return
        line = self._line or f"{self.label:<9}"
        spent, moved = now - self._begun, self.done - self._from
        left = spent * (self.total - self.done) / moved if moved > 0 else 0.0
        self._write(f"{line}  {in_words(left)} left" if left > 0 else f"{line}  {in_words(spent)} so far")

    def _keep_telling(self) -> None:
        while not self._over.wait(1.0):
            self._tell_now_and_then()

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
        if not (self.live or self.quiet):
            threading.Thread(target=self._keep_telling, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.keep:
            self._finish()
        self._bars.stop()


def track(items: Sequence[T], label: str, quiet: bool = False) -> Iterator[T]:
    """The items, with a bar that moves on after each."""
    with Progress(label, len(items), quiet=quiet) as bar:
        for item in items:
            yield item
            bar.advance()
