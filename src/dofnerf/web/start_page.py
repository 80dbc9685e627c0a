"""The page that `dofnerf run` ends with: the scene to walk around in, and the way to everything else."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dofnerf.files.guard import read_text
from dofnerf.files.outputs import write_text
from dofnerf.web import fill, read_part, source_hash

START, FILMS = "index.html", "films"
_LINKS_END = "</nav>\n<h2>Go on</h2>"


@dataclass(frozen=True)
class StartPage:
    """`scene` is the page to walk around in (or of a view); `links` are (words, file); `lenses` the rows of the table,
    its heads first; `commands` go on, `made` are those that made it. Files are named from the page's folder."""

    title: str
    scene: str | None
    links: Sequence[tuple[str, str]]
    lenses: Sequence[Sequence[str]]
    about: str
    commands: Sequence[str]
    made: Sequence[str]

    def write(self, path: Path) -> None:
        style = read_part("start.css")
        scene = ""
        if self.scene is not None:
            scene = (
                f'<iframe src="{quote(self.scene)}" title="The scene, to walk around in" allow="fullscreen *"></iframe>'
            )
        links = "".join(_link(words, file) for words, file in self.links)
        words = fill(
            read_part("start.html"),
            policy=f"default-src 'none'; img-src data:; style-src '{source_hash(style)}'; frame-src 'self' file:",
            title=html.escape(self.title), style=style, scene=scene, links=links,
            about=html.escape(self.about), lenses=_table(self.lenses),
            commands=html.escape("\n".join(self.commands)), made=html.escape("\n".join(self.made)),
        )  # fmt: skip
        write_text(path, words)


def add_film(film: Path) -> None:
    """Link a film, in the films/ of a run, from the start page of its `dofnerf run`, if it has one."""
    film = film.resolve()
    folder = film.parent.parent.parent
    if film.parent.name != FILMS or not (folder / START).is_file():
        return
    link = _link(film.name, film.relative_to(folder).as_posix())
    with contextlib.suppress(OSError, ValueError):  # the film is there all the same
        words = read_text(folder / START)
        if link not in words and _LINKS_END in words:
            write_text(folder / START, words.replace(_LINKS_END, link + _LINKS_END, 1))


def _link(words: str, file: str) -> str:
    return f'<a href="{quote(file)}">{html.escape(words)}</a>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    if len(rows) < 2:
        return ""
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows[1:])
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'
