"""A damaged cache of compiled kernels is dropped, and they are compiled again."""

import os
import subprocess
import sys

import pytest

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
