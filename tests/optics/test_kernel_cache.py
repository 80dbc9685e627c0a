"""Around the kernels: a damaged cache of compiled ones is dropped, and memory that is freed is kept for the next
picture."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from dofnerf.optics import kernels

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from kernel_here import twice
print(twice(np.arange(3.0)).tolist(), sum(twice.stats.cache_hits.values()))
"""


def run(folder) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", PROGRAM.format(folder=str(folder))]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_damaged_cache_is_dropped(tmp_path):
    (tmp_path / "kernel_here.py").write_text(
        "from dofnerf.optics.kernels import compiled\n\n\n@compiled\ndef twice(x):\n    return 2 * x\n"
    )
    assert run(tmp_path) == "[0.0, 2.0, 4.0] 0"
    assert run(tmp_path) == "[0.0, 2.0, 4.0] 1"
    for suffix, length in ((".nbi", 0), (".nbi", 100), (".nbc", 7)):
        files = list((tmp_path / "cache").rglob(f"*{suffix}"))
        assert files
        for file in files:
            file.write_bytes(file.read_bytes()[:length])
        assert run(tmp_path) == "[0.0, 2.0, 4.0] 0"
    assert run(tmp_path) == "[0.0, 2.0, 4.0] 1"  # and written anew


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_freed_memory_is_kept():
    """Arrays of a picture come from the system, page by page, only once; unless the user's settings say otherwise."""
    program = """
import resource
import dofnerf.optics.kernels
import torch
faults = []
for _ in range(8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one, two, three = (torch.ones(5_000_000) for _ in range(3))
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    del one, two, three
print(min(faults))
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    faults = []
    for own in ({}, {"MALLOC_TRIM_THRESHOLD_": "131072"}):
        environment = {**plain, **own, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        faults.append(int(done.stdout))
    assert faults[0] < 1000 < faults[1]


def test_torch_alone_takes_one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with kernels.single_threaded_torch():
            assert (torch.get_num_threads(), kernels._threads()) == (1, 3)
        with kernels.single_threaded_torch(False):
            assert torch.get_num_threads() == 3
        assert (torch.get_num_threads(), kernels._threads()) == (3, 3)
    finally:
        torch.set_num_threads(before)
