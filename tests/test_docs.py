"""What the documentation says holds: links resolve, commands parse, flags exist, Python snippets type-check and run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dofnerf
from dofnerf import cli

ROOT = Path(__file__).parent.parent
GUIDE = ["quick-start", "taking-photos", "training", "shooting", "python", "formats", "evaluating"]
USERS = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GUIDE)]
NOTES = sorted((ROOT / "docs/lab").glob("[0-9]*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CHECKED = [page for page in PAGES if page not in NOTES]  # notes keep the commands of their commit
FOREIGN = {"--nproc-per-node"}  # torchrun's


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(    |\t).*$", "", text, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(page: Path) -> list[str]:
    """Command lines in blocks of code, each from `dofnerf` on."""
    lines = re.findall(r"^(?:    )?(?:\w+=\S+ |torchrun .* -m |pip install .*; )?(dofnerf .*)$", page.read_text(), re.M)
    return [line for line in lines if not line.startswith("dofnerf is ")]


def inline(page: Path) -> list[str]:
    """Commands and flags in running text."""
    return [code.strip() for code in re.findall(r"`((?:dofnerf |--)[^`]+)`", prose(page))]


@cache
def flags_of(verb: str) -> frozenset[str]:
    """Every flag of a verb, of every field where it has fields."""
    found: set[str] = set()
    for field in ("splat", "hash", "nerf", "dsnerf") if verb == "train" else ("",):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
            cli.parse([*verb.split(), *(["--field", field] if field else []), "--help-all"])
        found |= set(re.findall(r"--[a-z][a-z0-9-]*", shown.getvalue()))
    return frozenset(found | {"--help", "--help-all"})


def verb_of(words: list[str]) -> str:
    for count in (2, 1):
        if " ".join(words[:count]) in cli.VERBS:
            return " ".join(words[:count])
    raise AssertionError(f"dofnerf {' '.join(words)}: no such verb")


def test_there_is_something_to_check() -> None:
    assert len(NOTES) > 20
    assert sum(len(blocks(page)) for page in CHECKED) > 50
    assert sum(len(inline(page)) for page in USERS) > 50


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{named(page)}: {target}: no such file"
        assert place.is_relative_to(ROOT), f"{named(page)}: {target}: outside of the project"
        if anchor:
            assert anchor in anchors(place), f"{named(page)}: {target}: no such heading"


def test_images_are_all_used() -> None:
    used = {Path(target).name for page in PAGES for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())}
    assert {image.name for image in (ROOT / "docs/images").iterdir()} == used


@pytest.mark.parametrize("page", CHECKED, ids=named)
def test_commands_parse(page: Path, monkeypatch) -> None:
    monkeypatch.setattr(cli, "_refuse_early", lambda name, flags: None)  # examples name folders that are not here
    for line in blocks(page):
        words = shlex.split(line, comments=True)[1:]
        words = words[: words.index(";")] if ";" in words else words
        if words[:1] in (["--help"], ["VERB"], ["--version"], ["--completion"]):
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                cli.parse([word.rstrip(";") for word in words])
        except SystemExit as end:
            assert end.code in (0, None), f"{named(page)}: {line}"


@pytest.mark.parametrize("page", USERS, ids=named)
def test_flags_in_the_text_exist(page: Path) -> None:
    for code in inline(page):
        words = code.split()
        mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", code)) - FOREIGN
        groups = {verb.split()[0] for verb in cli.VERBS} - set(cli.VERBS)  # such as synth
        if words[0] == "dofnerf" and words[1] not in {"VERB", *groups} and not words[1].startswith("-"):
            verb = verb_of(words[1:])
            assert mentioned <= flags_of(verb), f"{named(page)}: {code}: {mentioned - flags_of(verb)}"
        else:
            known = frozenset().union(*(flags_of(verb) for verb in cli.VERBS))
            assert mentioned <= known, f"{named(page)}: {code}: {mentioned - known}"


PRELUDE = """
import torch
from torch import Tensor
import dofnerf
from dofnerf.camera import Camera
photos: list[Tensor] = [torch.rand(12, 16, 3) for _ in range(3)]
near, far, i = 1.0, 5.0, 0
scene = dofnerf.load("demo")
cameras: list[Camera] = [scene.camera(k).resized(16, 12) for k in range(3)]
canvas = torch.rand(12, 16, 3, requires_grad=True)
sharp, depth = canvas.detach(), torch.linspace(near, far, 16).expand(12, 16)
optimizer = torch.optim.Adam([canvas])
def my_renderer(at: Camera) -> tuple[Tensor, Tensor]:
    return canvas, depth
"""
SMALL = {'dofnerf.load("SCENE")': "scene_of_the_test", '"fast"': "settings_of_the_test"}
SMALL_PRELUDE = """
from dofnerf.train import preset, shortened
scene_of_the_test = dofnerf.load("demo", width=48)
settings_of_the_test = shortened(preset("fast"), 0.008)
from small_shots import card_and_wall, write_ply
write_ply("garden.ply", card_and_wall())
"""


WITH_PYTHON = [ROOT / "README.md", ROOT / "docs/python.md"]


def programs(page: Path, small: bool) -> list[str]:
    """Each snippet of a page as a whole module; names that it takes for granted come first."""
    whole = []
    for snippet in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        before = PRELUDE if "camera[i]" not in snippet else PRELUDE + "camera = cameras\n"
        before = before if "camera = " in snippet or "camera[i]" in snippet else before + "camera = cameras[0]\n"
        if small:
            before += SMALL_PRELUDE
            for name, replaced in SMALL.items():
                snippet = snippet.replace(name, replaced)
        whole.append("from __future__ import annotations\n" + before + snippet)
    return whole


@pytest.mark.skipif("load" not in dofnerf.__all__, reason="the public names are not there yet")
@pytest.mark.slow
def test_snippets_are_typed(tmp_path: Path) -> None:
    files = []
    for number, text in enumerate(text for page in WITH_PYTHON for text in programs(page, small=False)):
        files.append(tmp_path / f"snippet_{number}.py")
        files[-1].write_text(text)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif("load" not in dofnerf.__all__, reason="the public names are not there yet")
@pytest.mark.train
@pytest.mark.parametrize("page", WITH_PYTHON, ids=named)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in programs(page, small=True):
        exec(compile(text, named(page), "exec"), {"__name__": "snippet"})


def test_code_on_how_to_add_things_is_that_of_the_tests() -> None:
    tested = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/extensions").glob("*.py"))
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/adding.md").read_text(encoding="utf-8"), re.M | re.S)
    assert shown
    for code in shown:
        assert code.strip() in tested, code


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_names_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|home|root|tmp/\w|Users)\b", text), (
        f"{named(page)}: a path of somebody's machine"
    )


def test_pages_are_short() -> None:
    for name, most in {"README.md": 149, "docs/design.md": 150}.items():
        assert len((ROOT / name).read_text().splitlines()) <= most, name


def test_the_guide_is_read_in_order() -> None:
    quick_start = (ROOT / "docs/quick-start.md").read_text()
    places = [quick_start.index(f"]({name}.md)", quick_start.index("## Read on")) for name in GUIDE[1:]]
    assert places == sorted(places)


@pytest.mark.parametrize("note", NOTES, ids=named)
def test_a_note_has_a_date_an_answer_and_a_place_in_the_index(note: Path) -> None:
    text = note.read_text(encoding="utf-8")
    assert re.match(r"\d{4}-\d\d-\d\d-", note.name)
    assert text.startswith("# ") and text.splitlines()[0].endswith("?"), "its title is a question"
    assert "**Answer.**" in text or "| question | answer |" in text
    assert f"]({note.name})" in (ROOT / "docs/lab/README.md").read_text(encoding="utf-8")
