"""One tiny scene on disk and two tiny runs on it, for all tests of this folder; one thread."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_world import config, scene

from dofnerf import scenes
from dofnerf.scenes import write_transforms
from dofnerf.train import KeepConfig, pinhole_twin, train


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory) -> Path:
    """Six views of 64 × 48 through a known lens, with sharp photos, depth and points; view 3 is held out."""
    folder = tmp_path_factory.mktemp("scenes") / "card"
    write_transforms(scene(6, (48, 64), points=True), folder)
    return folder


@pytest.fixture(scope="session")
def trained(small_folder, tmp_path_factory) -> Path:
    """A folder with two finished runs, ours and pinhole."""
    out = tmp_path_factory.mktemp("runs")
    small, keep = scenes.load(small_folder), KeepConfig(log_steps=4)
    made = config((10, 10, 0))
    train(small, made, out=out / "ours", keep=keep)
    train(small, pinhole_twin(made), out=out / "pinhole", keep=keep)
    return out
