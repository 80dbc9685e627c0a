"""Tiny worlds: waking a second thread costs more than it does."""

import os

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """For these tests, and the processes that they start."""
    threads, before = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    torch.set_num_threads(threads)
    if before is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = before
