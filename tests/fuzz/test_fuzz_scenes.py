"""The other half of 10 000 mutated inputs: scenes of every format, and COLMAP's files alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import SCALE, hammer
from readers import scene_readers
from test_fuzz_files import SHARE


@pytest.mark.parametrize("part", range(4))
def test_mutated(tmp_path: Path, part: int) -> None:
    for reader in scene_readers(tmp_path)[part::4]:
        hammer(reader, tmp_path, round(SHARE * reader.share * SCALE))
