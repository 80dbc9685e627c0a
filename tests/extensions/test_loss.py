"""A stranger's loss, one file: weighted by its own flag, kept in the settings, and felt."""

from __future__ import annotations

from pathlib import Path

import pytest

from dofnerf import plugins
from dofnerf.cli import main
from dofnerf.scenes import DEMO, read_cameras
from dofnerf.train import Run
from dofnerf.train.losses import losses

FILE = Path(__file__).parent / "total_variation.py"
FLAGS = {
    "splat": ["--pinhole-steps", "30", "--lens-steps", "0", "--sub-aperture-steps", "0", "--splats", "300"],
    "hash": ["--field", "hash", "--pinhole-steps", "2", "--lens-steps", "80", "--lens-ray-steps", "0", "--no-search",
             "--rays", "64", "--patch-size", "12", "--field.log2-size", "10", "--sampling.samples", "8"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    """As a user sets it; forgotten afterwards."""
    monkeypatch.setenv(plugins.VARIABLE, str(FILE))
    yield
    losses.registered.pop("total_variation", None)
    plugins._loaded.discard(str(FILE))


def variation(out, *flags):
    """Of the sharp view of a run that the command trained; and its settings."""
    some = ["--width", "32", "--which-frames", "0", "1", "2", "3", "--hold-every", "0", "--out", str(out)]
    assert main(["train", str(DEMO), *some, *flags]) == 0
    run = Run.load(out)
    image = run.render(read_cameras(out / "cameras.json")[0].camera).image
    return float(image.diff(dim=0).abs().mean() + image.diff(dim=1).abs().mean()), run.config


@pytest.mark.parametrize("field", list(FLAGS))
def test_its_weight_makes_pictures_smoother(tmp_path, field):
    plain, without = variation(tmp_path / "plain", *FLAGS[field])
    smooth, config = variation(tmp_path / "smooth", *FLAGS[field], "--total-variation", "2")
    assert smooth < 0.8 * plain
    assert config.losses["total_variation"].total_variation == 2 and "total_variation" not in without.losses


def test_help_explains_it(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    assert "--total-variation" in capsys.readouterr().out
