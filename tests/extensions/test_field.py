"""A stranger's volumetric field, one file, trained and rendered through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from dofnerf import plugins
from dofnerf.files import read_image

PLUGIN = Path(__file__).parent / "triplane_field.py"
SMALL = ["--field", "triplane", "--width", 32, "--which-frames", 0, 1, 2, 3, "--hold-out", 2, "--seed", 1]
SMALL += ["--pinhole-steps", 60, "--lens-steps", 2, "--lens-ray-steps", 2, "--rays", 256, "--patch-size", 16]


def dofnerf(*arguments: object, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, plugins.VARIABLE: str(PLUGIN) if plugin else ""}
    words = [sys.executable, "-m", "dofnerf", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_it_is_trained_rendered_and_resumed(tmp_path):
    run = tmp_path / "run"
    trained = dofnerf("train", "demo", *SMALL, "--out", run)
    assert trained.returncode == 0, trained.stderr
    drawn = dofnerf("render", run, "--view", 1, "--aperture", 2, "--focus", 2, "--out", tmp_path / "view.png")
    assert drawn.returncode == 0, drawn.stderr
    assert read_image(tmp_path / "view.png").std() > 0.02
    again = dofnerf("train", "demo", *SMALL, "--out", run, "--resume")
    assert again.returncode == 0, again.stderr
    without = dofnerf("render", run, "--view", 1, plugin=False)
    assert without.returncode == 2 and "triplane" in without.stderr


def test_it_keeps_the_contract(monkeypatch):
    """Density alone is that of `forward`, and gradients reach the points."""
    monkeypatch.setenv(plugins.VARIABLE, str(PLUGIN))
    plugins.load_plugins()
    from dofnerf.models import method
    from dofnerf.models.volume.fields import kind

    made = kind("triplane")
    field = made.make(made.config())
    points = (torch.rand(5, 7, 3) * 2 - 1).requires_grad_()
    colour, density = field(points, torch.nn.functional.normalize(torch.randn(5, 1, 3), dim=-1))
    torch.testing.assert_close(density, field.density(points))
    (colour.sum() + density.sum()).backward()
    assert points.grad.abs().sum() > 0
    assert method("triplane").name == "triplane"
