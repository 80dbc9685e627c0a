"""A stranger's kind of model, one file: trained, resumed, rendered and evaluated through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dofnerf import plugins
from dofnerf.cli import main
from dofnerf.files import read_image
from dofnerf.models import _registered
from dofnerf.train import Run

FILE = Path(__file__).parent / "cards_model.py"


@pytest.fixture(scope="module", autouse=True)
def plugin():
    """As a user sets it; forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, str(FILE))
        yield
    _registered.pop("cards", None)
    plugins._loaded.discard(str(FILE))


@pytest.fixture(scope="module")
def run(small_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "cards"
    assert main(["train", str(small_folder), "--field", "cards", "--side", "16", "--out", str(out)]) == 0
    return out


def test_it_is_trained_with_its_own_settings(run, capsys):
    trained = Run.load(run)
    assert trained.config.method.side == 16 and trained.has_lens
    assert trained.model.colour.shape[-1] == 16
    assert main(["train", "demo", "--field", "cards", "--splats", "5"]) == 2
    assert "--splats is for splats (splat), not cards" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "--field", "cards", "--help"])
    assert "--pinhole-steps" in capsys.readouterr().out


def test_it_is_rendered_and_evaluated(run, tmp_path):
    for name, flags in {
        "sharp": [],
        "lens": ["--aperture", "12", "--focus", "2"],
        "exact": ["--lens-samples", "8", "--aperture", "12", "--focus", "2"],
    }.items():
        assert main(["render", str(run), "--view", "3", *flags, "--out", str(tmp_path / f"{name}.png")]) == 0
    sharp, lens, exact = (read_image(tmp_path / f"{name}.png") for name in ("sharp", "lens", "exact"))
    assert sharp.shape == lens.shape == (48, 64, 3)
    assert 0 < np.abs(lens - exact).mean() < np.abs(lens - sharp).mean() + 0.05
    assert main(["eval", str(run), "--out", str(tmp_path / "eval")]) == 0
    assert json.loads(next((tmp_path / "eval").glob("*.json")).read_text())


def test_it_is_exported(run, tmp_path):
    assert main(["export", str(run), "--html", "--view", "3", "--out", str(tmp_path / "photo.html")]) == 0
    assert (tmp_path / "photo.html").stat().st_size > 1000
