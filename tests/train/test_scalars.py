"""Curves for TensorBoard, where that is installed; a plain word where it is not."""

import sys

import pytest
from tiny_world import config, scene

from dofnerf.cli import main
from dofnerf.scenes import DEMO
from dofnerf.train import KeepConfig, train


def test_without_tensorboard_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["train", str(DEMO), "--width", "24", "--out", str(tmp_path / "run"), "--tensorboard"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "install the extra 'tensorboard'" in line
    assert not (tmp_path / "run").exists()


def test_curves(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    keep = KeepConfig(tensorboard=True)
    train(scene(), config((11, 5, 4), search=False, refits=()), out=tmp_path / "run", keep=keep)
    train(scene(), config((11, 5, 4), search=False, refits=()), out=tmp_path / "run", keep=keep, resume=True)
    found = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert set(found.Tags()["scalars"]) == {
        "loss", "PSNR of the batch", "rays per second",
        "lens/aperture, least", "lens/aperture, most", "lens/focus disparity, least", "lens/focus disparity, most",
    }  # fmt: skip
    assert [event.step for event in found.Scalars("loss")] == [10, 20]
    assert [event.step for event in found.Scalars("lens/aperture, least")] == [20]
    assert all(event.value > 0 for event in found.Scalars("loss"))
