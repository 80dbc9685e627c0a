"""A kind of export in one file of a stranger's, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from small_shots import write_run

from dofnerf.files import read_image

PLUGIN = Path(__file__).with_name("turntable_export.py")


def dofnerf(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "dofnerf", *map(str, arguments)]
    environment = os.environ | {"DOFNERF_PLUGINS": str(PLUGIN)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def test_a_kind_of_export_is_a_flag_and_writes_its_files(tmp_path):
    write_run(tmp_path / "run")
    assert "--turntable" in dofnerf("export", "--help").stdout
    done = dofnerf("export", tmp_path / "run", "--turntable", "--view", 1, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "view-1-turntable"
    assert f"wrote    {folder}  (4 pictures)" in done.stdout
    pictures = [read_image(folder / name) for name in json.loads((folder / "turntable.json").read_text())["pictures"]]
    assert len(pictures) == 4 and all(picture.shape == (24, 32, 3) for picture in pictures)
    assert abs(pictures[0] - pictures[1]).mean() > 0.01  # the camera moves
    refused = dofnerf("export", tmp_path / "run", "--turntable", "--out", tmp_path / "a.html")
    assert refused.returncode == 2 and "--turntable need a folder" in refused.stderr
