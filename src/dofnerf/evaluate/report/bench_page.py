"""The page about an experiment."""

from __future__ import annotations

from pathlib import Path

import dofnerf
from dofnerf.evaluate.report import page
from dofnerf.files import read_image
from dofnerf.lab.bench.conclusions import read_conclusions


def write_bench_page(path: Path, folder: Path) -> None:
    """Write the page about the experiment in a folder."""
    found = read_conclusions(folder)
    body = [page.paragraph(found.about), page.paragraph(found.command)]
    if found.slider is not None:
        pair = found.slider
        before, after = (read_image(_inside(folder, name)) for name in (pair.before, pair.after))
        body.append(page.heading("Before and after", "A view that no training has seen."))
        body.append(page.slider((pair.before_words, page.at_least(before)), (pair.after_words, page.at_least(after))))
    for table in found.tables:
        rows = [[cell.replace("**", "") for cell in row] for row in table.rows]
        body += [
            page.heading(table.title),
            page.table(table.head, rows),
            *(page.paragraph(note) for note in table.notes),
        ]
    if found.figures:
        body.append(page.heading("Figures"))
        body += [page.sheet(read_image(_inside(folder, one.file)), one.caption) for one in found.figures]
    if found.failed:
        body += [page.heading("Not done"), *(page.paragraph(words) for words in found.failed)]
    page.write_page(path, f"Experiment: {found.experiment}", body, f"dofnerf {dofnerf.__version__}; {found.command}")


def _inside(folder: Path, name: str) -> Path:
    """A picture of the folder; names that lead out of it are refused."""
    if Path(name).name != name:
        raise ValueError(f"{folder}: results.json names a picture outside of its folder ({name!r:.60})")
    return folder / name
