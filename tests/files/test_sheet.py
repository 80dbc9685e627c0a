"""Several pictures on one sheet."""

from __future__ import annotations

import numpy as np

from dofnerf.files import contact_sheet


def test_a_contact_sheet_shows_every_tile():
    tiles = [(f"tile {i}", np.full((40, 60, 3), i / 10, np.float32)) for i in range(1, 6)]
    for heading in ("", "All of them"):
        sheet = contact_sheet(tiles, columns=2, heading=heading)
        for i in range(1, 6):
            assert (sheet == round(25.5 * i + 0.01)).all(axis=-1).sum() >= 40 * 60


def test_captions_and_headings_make_room():
    tiles = [("one line", np.zeros((40, 60, 3), np.float32))]
    plain, titled = contact_sheet(tiles, columns=1), contact_sheet(tiles, columns=1, heading="Title")
    longer = contact_sheet([("one\ntwo", tiles[0][1])], columns=1)
    assert titled.shape[0] > plain.shape[0] < longer.shape[0]
    assert titled[: titled.shape[0] - plain.shape[0]].max() > 200
