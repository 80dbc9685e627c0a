"""A light field written down as a scene is the scene that the reader makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf import scenes
from dofnerf.cli import main


def grid(root: Path, count: int = 5, size: int = 48) -> Path:
    root.mkdir()
    rng = np.random.default_rng(0)
    for r in range(count):
        for c in range(count):
            Image.fromarray(rng.integers(0, 255, (size, size, 3), dtype=np.uint8)).save(
                root / f"view_{r:02d}_{c:02d}.png"
            )
    return root


def test_the_written_scene_is_the_one_read(tmp_path: Path, capsys) -> None:
    source, out = grid(tmp_path / "grid"), tmp_path / "out"
    command = [
        "synth",
        "lightfield",
        str(source),
        "--out",
        str(out),
        "--disparities",
        "-1",
        "0.5",
        "--lens-views",
        "1.5",
    ]
    assert main(command) == 0
    assert f"wrote    {out}" in capsys.readouterr().out
    options = scenes.GridOptions(1.5, (-1.0, 0.5))
    wanted, found = scenes.load(source, grid=options), scenes.load(out)
    assert len(wanted) == len(found) and found.size == wanted.size and found.test == wanted.test
    for i, (mine, theirs) in enumerate(zip(found.frames, wanted.frames, strict=True)):
        assert (mine.lens, mine.near_lens, mine.far_lens) == (theirs.lens, theirs.near_lens, theirs.far_lens)
        for which in ("photo", "sharp", "near", "far"):
            difference = found.picture(i, getattr(mine, which)) - wanted.picture(i, getattr(theirs, which))
            assert np.abs(difference).max() < 0.6 / 255
    assert main(command) == 0
    capsys.readouterr()
    assert main([*command[:-1], "1"]) == 2
    assert "made with another lens_views" in capsys.readouterr().err
    assert main(["synth", "lightfield", str(out), "--out", str(tmp_path / "other")]) == 2
    assert "no light field" in capsys.readouterr().err
