"""The examples run, at small size, and do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from dofnerf.files import read_image

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *flags: str) -> str:
    return subprocess.run([sys.executable, EXAMPLES / name, *flags], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def test_01_refocus(tmp_path):
    run("01_refocus.py", "--every", "6", "--out", str(tmp_path))
    near, far, blades = (read_image(tmp_path / f"{name}.png") for name in ("near", "far", "near-six-blades"))
    assert near.shape == far.shape
    assert abs(near - far).mean() > 2 * abs(near - blades).mean() > 0


def test_02_lens_in_your_renderer():
    words = run("02_lens_in_your_renderer.py", "--size", "48", "--steps", "800")
    found = [[float(value) for value in re.findall(r"[\d.]+", line)[1:]] for line in words.splitlines()]
    assert len(found) == 4
    for aperture, true_aperture, focus, true_focus in found:
        assert aperture == pytest.approx(true_aperture, rel=0.1)
        assert 1 / focus == pytest.approx(1 / true_focus, abs=0.02)


def test_03_train_and_shoot_and_04_film(tmp_path):
    words = run("03_train_and_shoot.py", "--width", "48", "--steps", "0.02", "--out", str(tmp_path / "run"))
    assert words.count("aperture") == 4 and "focus at pixel 24,16" in words
    sharp, shallow, blades = (read_image(tmp_path / f"run/{name}.png") for name in ("sharp", "shallow", "six-blades"))
    assert abs(sharp - shallow).mean() > abs(shallow - blades).mean() > 0
    run("04_film.py", str(tmp_path / "run"), "--frames", "3", "--width", "32", "--out", str(tmp_path / "film.gif"))
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 3 and film.width == 32


def test_06_notebook(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "06_notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # it is kept without
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source = "WIDTH, STEPS = 48, 0.02"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [{kind for output in cell.get("outputs", []) for kind in output.get("data", {})} for cell in notebook.cells]
    assert [("text/html" in kind, "image/png" in kind) for kind in kinds if kind] == [
        (True, False), (True, False), (False, True), (True, False),
    ]  # fmt: skip
    assert read_image(tmp_path / "refocused.png").shape == (32, 48, 3)
    assert (tmp_path / "scene.html").stat().st_size > 50_000


def test_05_add_a_field():
    decibels = re.search(r"held-out view: ([\d.]+) dB", run("05_add_a_field.py", "0.02"))
    assert decibels and float(decibels[1]) > 8
