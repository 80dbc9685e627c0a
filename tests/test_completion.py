"""Completion, by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from dofnerf.cli import main


def printed(capsys, shell: str) -> str:
    assert main(["--completion", shell]) == 0
    return capsys.readouterr().out


def shell(name: str, *arguments: str) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} on this machine")
    return subprocess.run([name, *arguments], capture_output=True, text=True, check=True).stdout


BASH = 'source {}; COMP_WORDS=({}); COMP_CWORD={}; _dofnerf; printf "%s\\n" "${{COMPREPLY[@]}}"'


LINES = [
    ("dofnerf re", {"refocus", "render", "report"}),
    ("dofnerf render runs/a --lens-s", {"--lens-samples"}),
    ("dofnerf render runs/a --format e", {"exr"}),
    ("dofnerf synth l", {"lens", "lightfield"}),
    ("dofnerf synth lens --sam", {"--samples"}),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash(line, expected, capsys, tmp_path):
    (tmp_path / "bash").write_text(printed(capsys, "bash"))
    found = shell("bash", "-c", BASH.format(tmp_path / "bash", line, len(line.split()) - 1))
    assert set(found.split()) == expected


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish(line, expected, capsys, tmp_path):
    (tmp_path / "fish").write_text(printed(capsys, "fish"))
    found = shell("fish", "--no-config", "-c", f"source {tmp_path / 'fish'}; complete -C '{line}'")
    assert expected <= {row.split("\t")[0].split("=")[-1] for row in found.splitlines()}


def test_zsh_reads_it(capsys, tmp_path):
    (tmp_path / "_dofnerf").write_text(printed(capsys, "zsh"))
    words = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -D -u; print $_comps[dofnerf]; _dofnerf 2>&1"
    assert shell("zsh", "-f", "-c", words).splitlines()[0] == "_dofnerf"
    shell("zsh", "-n", str(tmp_path / "_dofnerf"))


def test_other_shells_are_refused(capsys):
    assert main(["--completion", "ksh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
