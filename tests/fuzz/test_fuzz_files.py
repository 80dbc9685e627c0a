"""Half of 10 000 mutated inputs: pictures, arrays, .ply, checkpoints and what lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import SCALE, hammer
from readers import arrays, pictures, plys, runs, splat_files

SHARE = 45  # inputs for each share; together with the scenes more than 10 000


@pytest.mark.parametrize("which", ["arrays", "pictures", "plys", "splat_files", "runs"])
def test_mutated(tmp_path: Path, which: str) -> None:
    of_folder = {"pictures": pictures, "plys": plys, "splat_files": splat_files}
    for reader in of_folder[which](tmp_path) if which in of_folder else {"arrays": arrays, "runs": runs}[which]():
        hammer(reader, tmp_path / reader.name, round(SHARE * reader.share * SCALE))


def test_there_are_ten_thousand(tmp_path: Path) -> None:
    from readers import scene_readers

    every = [*arrays(), *pictures(tmp_path), *plys(tmp_path), *runs(), *scene_readers(tmp_path)]
    assert sum(reader.share for reader in every) * SHARE >= 10_000
