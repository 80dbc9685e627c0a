"""The command as a person meets it: help, versions, exit codes, one-line errors."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from dofnerf import __version__, cli
from dofnerf.cli import VERBS, main


def test_help_lists_the_verbs_without_importing_torch():
    code = "import sys; from dofnerf.cli import main\ntry: main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout and verb.about.split(":")[0] in done.stdout for name, verb in VERBS.items())


@pytest.mark.parametrize("name", VERBS)
def test_every_flag_is_in_the_help_of_its_verb(name, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*name.split(), "--help-all"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    renamed = {"estimate": "depth"}  # refocus has a positional argument of that name, so the field has another
    leaves = _leaves(VERBS[name].load()[0])
    flags = [f"--{renamed.get(field, field).replace('_', '-')}" for field in leaves]
    assert flags
    for flag in flags:
        # A flag, its value, and words that explain it.
        assert re.search(rf"{flag}(, --no-\S+)?\s+\S+.*?[a-z]{{3,}} [a-z]", text, re.DOTALL), flag
    assert f"dofnerf {name} " in text.split("usage", 1)[1]
    assert "For example" in text


@pytest.mark.parametrize("name", ["run", "train", "render", "view", "export"])
def test_everyday_help_fits_on_one_screen(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    config = VERBS[name].load()[0]
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert exit_.value.code == 0 and len(lines) <= 40 and max(map(len, lines)) <= 120
    assert lines[0].startswith(f"usage: dofnerf {name} ") and lines[-1].endswith(f"dofnerf {name} --help-all")
    for field in config.EVERYDAY:
        assert any(line.startswith(f"  --{field.replace('_', '-')}") for line in lines), field


@pytest.mark.parametrize("name", ["run", "train", "render", "view", "export"])
def test_everyday_help_is_no_wider_than_the_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 48
    assert sum(line.startswith(f"  dofnerf {name} ") for line in lines) >= 3  # examples


def test_help_explains_the_positional_arguments(capsys):
    with pytest.raises(SystemExit):
        main(["refocus", "--help"])
    text = capsys.readouterr().out
    assert re.search(r"IMAGE +The picture", text)
    assert re.search(r"DEPTH +Its depth", text)


def test_a_group_lists_its_verbs(capsys):
    for arguments in (["synth"], ["synth", "--help"]):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        text = capsys.readouterr().out
        assert "dofnerf synth" in text and "lightfield" in text and "refocus" not in text


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dofnerf {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["refocuss"],
        ["refocus"],
        ["refocus", "a.png", "b.png", "--apertur", "3"],
        ["demo", "x"],
        ["synth", "blurr"],
        ["synth", "blur"],
    ],
)
def test_usage_errors_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


def test_no_arguments_show_the_help(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "refocus" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["train", "--help"], ["info", "demo"], ["--version"]])
def test_output_that_nobody_reads_is_no_error(arguments, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "dofnerf", *arguments], check=False, stdout=writer, stderr=subprocess.PIPE, text=True,
        timeout=60, cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 141 and "error" not in done.stderr.lower() and "Traceback" not in done.stderr, done.stderr


def test_the_command_itself_exits_with_2_and_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dofnerf", "refocus", "missing.png", "depth.png"],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "dofnerf: error: missing.png: No such file or directory\n"
    assert done.stdout == ""
    assert not os.listdir(tmp_path)


@pytest.fixture
def verb_that_raises(monkeypatch):
    def install(error):
        def run(_config):
            raise error

        monkeypatch.setattr(cli, "parse", lambda arguments: (None, run))

    return install


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("two\nlines"), 2, "dofnerf: error: two lines"),
        (ValueError(), 2, "dofnerf: error: ValueError"),
        (PermissionError(13, "Permission denied", "a.png"), 2, "dofnerf: error: a.png: Permission denied"),
        (FileNotFoundError(2, "No such file", "two\nlines.png"), 2, "dofnerf: error: two lines.png: No such file"),
        (OSError(28, "No space left on device"), 2, "dofnerf: error: No space left on device"),
        (OSError("broken data stream"), 2, "dofnerf: error: broken data stream"),
        (MemoryError("Unable to allocate 8 TiB"), 2, "dofnerf: error: Unable to allocate 8 TiB"),
        (KeyboardInterrupt(), 130, "dofnerf: interrupted"),
    ],
)
def test_errors_become_one_line(error, code, line, verb_that_raises, capsys, monkeypatch):
    monkeypatch.delenv("DOFNERF_DEBUG", raising=False)
    verb_that_raises(error)
    assert main(["anything"]) == code
    captured = capsys.readouterr()
    assert captured.err == line + "\n"
    assert captured.out == ""


def test_a_broken_pipe_that_is_not_our_output_is_an_error(verb_that_raises, capsys):
    verb_that_raises(BrokenPipeError(32, "Broken pipe"))  # ffmpeg's, say
    assert main(["anything"]) == 2
    assert capsys.readouterr().err == "dofnerf: error: Broken pipe\n"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_debug_shows_the_traceback(error, verb_that_raises, monkeypatch):
    monkeypatch.setenv("DOFNERF_DEBUG", "1")
    verb_that_raises(error)
    with pytest.raises(type(error)):
        main(["anything"])


def _leaves(config: type) -> list[str]:
    """Names of the flags that a config makes: its fields, and those of the configs in it; not the positional ones."""
    names = []
    for field in dataclasses.fields(config):
        inner = field.default_factory
        if inner is not dataclasses.MISSING and dataclasses.is_dataclass(inner):
            names += _leaves(inner)
        elif dataclasses.is_dataclass(field.default):
            names += _leaves(type(field.default))
        elif field.type != "Any" and field.default is not dataclasses.MISSING and "Positional" not in str(field.type):
            names.append(field.name)
    return names
