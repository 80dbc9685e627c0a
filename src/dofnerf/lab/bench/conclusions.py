"""What an experiment concludes: tables and figures, as Markdown for reading and JSON for the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dofnerf.evaluate.scores import Score
from dofnerf.files import atomic, write_image, write_json
from dofnerf.train.plain import from_plain

MARKDOWN, JSON = "results.md", "results.json"


@dataclass(frozen=True)
class Table:
    """`head` and `rows` of words; `notes` stand beneath."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FigureFile:
    """A picture in the experiment's folder."""

    file: str
    caption: str


@dataclass(frozen=True)
class SliderFiles:
    """Two pictures to compare, and their names."""

    before: str
    after: str
    before_words: str
    after_words: str


@dataclass(frozen=True)
class Conclusions:
    """All of it; `command` is the line that made it, `about` what it shows."""

    experiment: str
    command: str
    about: str
    tables: tuple[Table, ...] = ()
    figures: tuple[FigureFile, ...] = ()
    slider: SliderFiles | None = None
    failed: tuple[str, ...] = ()


@dataclass
class Sketch:
    """Conclusions in the making, in a folder."""

    out: Path
    tables: list[Table] = field(default_factory=list)
    figures: list[FigureFile] = field(default_factory=list)
    slider: SliderFiles | None = None

    def draw(self, name: str, image: np.ndarray, caption: str) -> None:
        """Keep a picture (H, W, 3) as a figure."""
        write_image(self.out / f"{name}.png", image)
        self.figures.append(FigureFile(f"{name}.png", caption))


def write_conclusions(found: Conclusions, out: Path) -> None:
    """results.md and results.json."""
    write_json(out / JSON, asdict(found))
    with atomic(out / MARKDOWN) as temporary:
        temporary.write_text(markdown(found), encoding="utf-8")


def read_conclusions(folder: Path) -> Conclusions:
    """Those of an experiment's folder."""
    path = folder / JSON
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: not JSON; the file is damaged, `dofnerf bench` writes it anew") from None
    return from_plain(Conclusions, found, str(path))


def markdown(found: Conclusions) -> str:
    """For people."""
    parts = [f"# {found.experiment}", found.about, f"    {found.command}"]
    for table in found.tables:
        parts += [f"## {table.title}", markdown_table(table), *table.notes]
    parts += [f"![{figure.caption}]({figure.file})\n\n*{figure.caption}*" for figure in found.figures]
    if found.failed:
        parts += ["## Not done", "\n".join(f"- {words}" for words in found.failed)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(table.head), "|" + "---|" * len(table.head), *(line(row) for row in table.rows)])


def number(value: Any, digits: int = 2, missing: str = "–") -> str:
    """A score in a table: a number, words, or a dash for nothing."""
    if value is None:
        return missing
    return value if isinstance(value, str) else f"{value:.{digits}f}"


def mean_score(values: Sequence[Score | None]) -> Score | None:
    """Of the numbers among them; else the first words; else nothing."""
    numbers = [value for value in values if isinstance(value, int | float)]
    words = [value for value in values if isinstance(value, str)]
    return float(np.mean(numbers)) if numbers else words[0] if words else None
