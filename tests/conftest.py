"""Where real captures are, for the tests that measure with them; and a kernel cache that cannot be stale."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

pytest_plugins = ("browser",)  # fixtures for tests of pages, in tests/browser.py

ROOT = Path(__file__).resolve().parents[1]


def _kernel_digest() -> str:
    """Changes with every source file that machine code is made from."""
    source = ROOT / "src" / "dofnerf"
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*.py")):
        content = path.read_bytes()
        if b"compiled" in content or path == source / "optics" / "shapes.py":  # whose numbers the kernels take in
            digest.update(str(path.relative_to(source)).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


# To see whether its cache on disk is fresh, numba looks only at the file of the outermost kernel. After an edit of a
# file that it calls into, old machine code would run, and tests would pass on a broken kernel. So each state of the
# sources has a cache of its own. Set before dofnerf, and so numba, is imported; child processes and xdist's workers
# inherit it.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".pytest_cache" / f"numba-{_kernel_digest()}"))

# What dofnerf sets for itself when it is imported before torch; test files import torch first.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell starts what it puts into the background with Ctrl-C ignored, and children inherit that: tests that interrupt
# them would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)


# What `make quick` leaves out, by folder, file or fixture: training; and what takes as long without it: ray tracing,
# triton's interpreter, kernels compiled afresh, hundreds of damaged files.
_TRAIN = (
    "train/", "lab/bench/", "extensions/", "lab/synth/test_disparity_from_run.py",
    "models/splat/test_splat_training.py",
    "studio/test_demo.py",
)  # fmt: skip
_TRAIN_TESTS = ("test_02_", "test_03_", "test_05_", "test_06_")  # of the examples
_TRAIN_FIXTURES = {"trained", "bench"}
_SLOW = (
    "lab/synth/test_lens", "lab/synth/test_package_scene.py", "models/splat/test_raster_gpu.py",
    "models/splat/test_start.py",
    "models/splat/test_triangulation.py",
    "optics/test_monte_carlo.py", "optics/test_scatter_gpu.py", "scenes/test_mutated_scenes.py", "fuzz/",
)  # fmt: skip
_SLOW_FIXTURES = {"captured"}


def pytest_collection_modifyitems(items) -> None:
    """Set the markers `train`, `slow` and `browser`."""
    for item in items:
        place, fixtures = str(item.path.relative_to(Path(__file__).parent)), {*item.fixturenames}
        if place.startswith(_TRAIN) or item.name.startswith(_TRAIN_TESTS) or _TRAIN_FIXTURES & fixtures:
            item.add_marker("train")
        if place.startswith(_SLOW) or _SLOW_FIXTURES & fixtures:
            item.add_marker("slow")
        if "browser" in fixtures:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures, or a skip."""
    folder = Path(os.environ.get("DOFNERF_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real captures; set DOFNERF_DATA to a folder with fern, flower, room, drinks and tarot")
    return folder


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory) -> Path:
    """Six views of 64 × 48 through a known lens, with sharp photos, depth and points; view 3 is held out."""
    from tiny_world import scene

    from dofnerf.scenes import write_transforms

    folder = tmp_path_factory.mktemp("scenes") / "card"
    write_transforms(scene(6, (48, 64), points=True), folder)
    return folder


@pytest.fixture(scope="session")
def trained(small_folder, tmp_path_factory) -> Path:
    """A folder with two finished runs, ours and pinhole."""
    out = tmp_path_factory.mktemp("runs")
    from tiny_world import config

    from dofnerf import scenes
    from dofnerf.train import KeepConfig, train, without_lens

    small, keep = scenes.load(small_folder), KeepConfig(log_steps=4)
    made = config((10, 10, 0))
    train(small, made, out=out / "ours", keep=keep)
    train(small, without_lens(made), out=out / "pinhole", keep=keep)
    return out
