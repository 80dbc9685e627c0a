"""What an experiment concludes: tables and figures, as Markdown, as JSON, and as the page of `dofnerf report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dofnerf
from dofnerf.evaluate.report import page
from dofnerf.files import atomic, read_image, write_image, write_json
from dofnerf.files.guard import inside, read_json_value
from dofnerf.lab.bench.cell import CELLS
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
class Results:
    """`command` is the command line that gives the same, `about` what the experiment shows."""

    experiment: str
    command: str
    about: str
    tables: tuple[Table, ...] = ()
    figures: tuple[FigureFile, ...] = ()
    slider: SliderFiles | None = None
    failed: tuple[str, ...] = ()


@dataclass
class Draft:
    """Results in the making, in the folder `out`."""

    out: Path
    tables: list[Table] = field(default_factory=list)
    figures: list[FigureFile] = field(default_factory=list)
    slider: SliderFiles | None = None

    def add(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *notes: str) -> None:
        """Add a table."""
        self.tables.append(Table(title, tuple(head), tuple(tuple(row) for row in rows), notes))

    def draw(self, name: str, image: np.ndarray, caption: str) -> None:
        """Keep a picture (H, W, 3) as a figure."""
        write_image(self.out / f"{name}.png", image)
        self.figures.append(FigureFile(f"{name}.png", caption))


def number(value: Any, digits: int = 2, missing: str = "–") -> str:
    """A score in a table: a number, words, or a dash for nothing."""
    if value is None:
        return missing
    return value if isinstance(value, str) else f"{value:.{digits}f}"


def write_results(found: Results, out: Path) -> None:
    """results.md and results.json."""
    write_json(out / JSON, asdict(found))
    with atomic(out / MARKDOWN) as temporary:
        temporary.write_text(markdown(found), encoding="utf-8")


def read_results(folder: Path) -> Results:
    """From the results.json of an experiment's folder."""
    path = folder / JSON
    try:
        found = read_json_value(path)
    except ValueError:
        raise ValueError(f"{path}: not JSON; the file is damaged, `dofnerf bench` writes it anew") from None
    return from_plain(Results, found, str(path))


def markdown(found: Results) -> str:
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


def is_experiment(folder: Path) -> bool:
    """Whether the folder is one of `dofnerf bench`."""
    return (folder / JSON).is_file() or (folder / CELLS).is_dir()


def report_experiment(folder: Path, out: Path | None = None) -> Path:
    """Write the page about an experiment; returns its path."""
    if not (folder / JSON).is_file():
        raise ValueError(f"{folder}: an experiment that is not finished; run `dofnerf bench` again, it goes on")
    out = out or folder / page.FILE
    page.check_page(out)
    found = read_results(folder)

    def picture(name: str) -> np.ndarray:
        return read_image(inside(folder, name, str(folder / JSON)))

    body = [page.paragraph(found.about), page.paragraph(found.command)]
    if found.slider is not None:
        pair = found.slider
        before, after = (picture(name) for name in (pair.before, pair.after))
        body.append(page.heading("Before and after", "A view that no training has seen."))
        body.append(page.slider((pair.before_words, before), (pair.after_words, after)))
    for table in found.tables:
        rows = [[cell.replace("**", "") for cell in row] for row in table.rows]
        body += [page.heading(table.title), page.table(table.head, rows), *map(page.paragraph, table.notes)]
    if found.figures:
        body.append(page.heading("Figures"))
        body += [page.sheet(picture(one.file), one.caption) for one in found.figures]
    if found.failed:
        body += [page.heading("Not done"), *map(page.paragraph, found.failed)]
    page.write_page(out, f"Experiment: {found.experiment}", body, f"dofnerf {dofnerf.__version__}; {found.command}")
    return out
