"""`dofnerf info`: text, a sheet where it is asked for, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dofnerf.cli import main


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    root = tmp_path / "place/scene"
    (root / "images").mkdir(parents=True)
    rows = []
    for i in range(3):
        Image.fromarray(np.full((16, 24, 3), 60 * i, dtype=np.uint8)).save(root / f"images/{i}.png")
        matrix = np.array([[0, 1, 0, 0.1 * i, 16], [-1, 0, 0, 0, 24], [0, 0, 1, 0, 30]], dtype=float)
        rows.append([*matrix.reshape(-1), 1.0, 4.0])
    np.save(root / "poses_bounds.npy", np.array(rows))
    return root


def test_text_and_a_sheet_on_request(scene: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["info", str(scene), "--width", "12"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("scene: LLFF, 3 photos of 12×8") and "wrote" not in text
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["info", str(scene), "--sheet", str(scene / "asked.png")]) == 0
    assert capsys.readouterr().out.endswith(f"wrote {scene / 'asked.png'}\n")
    assert Image.open(scene / "asked.png").width == 1600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: there is no such scene"),
        (["."], ".: not a scene"),
        (["place/scene", "--format", "colmap"], "place/scene"),
        (["place/scene", "--mix", "near-far"], "no near photo"),
        (["place/scene", "--sheet", "sheet.txt"], "--sheet sheet.txt: unknown file type"),
    ],
)
def test_bad_input_is_one_line(
    scene: Path, tmp_path: Path, monkeypatch, capsys, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["info", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("dofnerf: error: ") and words in captured.err and captured.err.count("\n") == 1
    assert not list(tmp_path.glob("*.png"))
