"""Plug-ins: found by the variable, loaded once, and an error that names the file."""

import os
import pickle
import subprocess
import sys

import pytest

from dofnerf import plugins
from dofnerf.cli import main

COUNTS = "import os\nos.environ['COUNTED'] = os.environ.get('COUNTED', '') + __file__[-4]\nclass Own:\n    pass\n"


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setenv("COUNTED", "")
    monkeypatch.setattr(plugins, "_loaded", set())


def test_files_and_folders_are_loaded_once_in_order(tmp_path, monkeypatch):
    folder = tmp_path / "some"
    folder.mkdir()
    for path in (tmp_path / "x.py", folder / "b.py", folder / "a.py"):
        path.write_text(COUNTS)
    monkeypatch.setenv(plugins.VARIABLE, os.pathsep.join([str(tmp_path / "x.py"), "", str(folder)]))
    plugins.load_plugins()
    plugins.load_plugins()
    assert os.environ["COUNTED"] == "xab"


def test_an_error_names_the_file(tmp_path, monkeypatch, capsys):
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0")
    monkeypatch.setenv(plugins.VARIABLE, str(bad))
    assert main(["info", "demo"]) == 2
    assert f"{bad} cannot be loaded: ZeroDivisionError" in capsys.readouterr().err
    bad.write_text("raise SystemExit(0)")
    assert main(["info", "demo"]) == 2
    assert f"{bad} cannot be loaded: SystemExit" in capsys.readouterr().err
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path / "none.py"))
    assert main(["info", "demo"]) == 2
    assert "none.py" in capsys.readouterr().err
    assert main(["--version"]) == 0


def test_a_worker_unpickles_what_a_plugin_defines(tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    path.write_text(COUNTS)
    monkeypatch.setenv(plugins.VARIABLE, str(path))
    plugins.load_plugins()
    (name,) = (name for name in sys.modules if name.startswith("dofnerf_plugin_own"))
    pickled = pickle.dumps(sys.modules[name].Own())
    code = f"import dofnerf.lab.bench.engines, pickle; pickle.loads({pickled!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
