"""Where real captures are, for the tests that measure with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures, or a skip."""
    folder = Path(os.environ.get("DOFNERF_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real captures; set DOFNERF_DATA to a folder with fern, flower, room, drinks and tarot")
    return folder
