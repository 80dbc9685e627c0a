"""Photos shrunk in training keep their detail, and nothing that is masked gets into what counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dofnerf.models.data import shrunk, shrunk_mask

SIZES = [(242, 161), (170, 113), (128, 85), (126, 84)]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_shrunk_wave_is_the_wave_at_the_smaller_size(width, height):
    """8 pixels long at full size, so that every size here can show it; torch's "area" loses up to a tenth."""

    def wave(across: int) -> torch.Tensor:
        phase = (torch.arange(across) + 0.5) / across * 252 / 8
        return (0.5 + 0.4 * torch.sin(2 * torch.pi * phase)).float()

    found = shrunk(wave(252).expand(168, 252)[..., None], width, height)[..., 0]
    np.testing.assert_allclose(found[3:-3, 3:-3], wave(width).expand(height, width)[3:-3, 3:-3], atol=0.05)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_what_is_masked_changes_nothing_that_counts(width, height):
    mask = torch.ones(168, 252)
    mask[40:50, 100:130] = 0.0
    photo = torch.full((168, 252, 3), 0.5)
    spoilt = torch.where(mask[..., None] > 0, photo, 0.0)
    counts = shrunk_mask(mask, width, height)
    changed = (shrunk(spoilt, width, height) - 0.5).abs().amax(-1)
    assert float(changed[counts > 0].max()) < 1e-5 and 0.9 < float(counts.mean()) < 1
