"""A stranger's blur model for splats, one file, trained with through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dofnerf import plugins
from dofnerf.models.splat import blurs

PLUGIN = Path(__file__).parent / "exact_blur.py"
SMALL = ["--width", 32, "--which-frames", 0, 1, 2, 3, "--hold-out", 2, "--seed", 1, "--splats", 300]
SMALL += ["--pinhole-steps", 4, "--lens-steps", 6, "--lens-ray-steps", 0]


def dofnerf(*arguments: object, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, plugins.VARIABLE: str(PLUGIN) if plugin else ""}
    words = [sys.executable, "-m", "dofnerf", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_it_is_offered_and_trained_with(tmp_path):
    assert "{gaussian,scatter,exact}" in dofnerf("train", "--help-all").stdout
    trained = dofnerf("train", "demo", *SMALL, "--blur", "exact", "--out", tmp_path / "exact")
    assert trained.returncode == 0, trained.stderr
    assert '"blur": "exact"' in json.dumps(json.loads((tmp_path / "exact" / "config.json").read_text()))
    other = dofnerf("train", "demo", *SMALL, "--blur", "gaussian", "--out", tmp_path / "gaussian")
    assert other.returncode == 0, other.stderr
    scores = [(tmp_path / name / "checkpoint.safetensors").read_bytes() for name in ("exact", "gaussian")]
    assert scores[0] != scores[1]
    assert dofnerf("render", tmp_path / "exact", "--view", 1, "--out", tmp_path / "view.png").returncode == 0


def test_it_is_unknown_without_the_plugin(tmp_path):
    refused = dofnerf("train", "demo", *SMALL, "--blur", "exact", "--out", tmp_path / "run", plugin=False)
    assert refused.returncode == 2 and "exact" in refused.stdout + refused.stderr
    with pytest.raises(ValueError, match="gaussian, scatter"):
        blurs.blur_model("no such")
