"""The loss of a photo in numba is that of plain PyTorch, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from dofnerf.models.losses import gradient_loss, photo_loss, residual


@pytest.mark.parametrize("size", [(37, 53), (8, 8), (65, 3), (2, 40), (1, 9), (9, 1)])
@pytest.mark.parametrize("weight", [0.0, 1.0, 0.3])
def test_photo_loss_is_that_of_the_reference(size, weight):
    torch.manual_seed(0)
    photo = torch.rand(*size, 3).mul(1.2).clamp(max=1.0)  # some are clipped
    shown, same = ((photo + 0.2 * torch.rand(*size, 3) - 0.1).requires_grad_() for _ in range(2))
    same.data = shown.detach().clone()
    found, wanted = photo_loss(shown, photo, weight), photo_loss(same, photo, weight, backend="reference")
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)
    assert bool((found[2] == 0).any())
    (3 * found[0]).backward()
    (3 * wanted[0]).backward()
    torch.testing.assert_close(shown.grad, same.grad, rtol=1e-4, atol=1e-5 * float(same.grad.abs().max()))


def test_photo_loss_with_a_mask_and_in_float64_is_made_of_its_parts():
    torch.manual_seed(0)
    shown, photo, mask = torch.rand(9, 7, 3), torch.rand(9, 7, 3), (torch.rand(9, 7) > 0.3).float()
    off = residual(shown, photo, mask=mask)
    loss, error, found = photo_loss(shown, photo, 0.5, mask)
    assert torch.equal(found, off)
    assert float(loss) == pytest.approx(float(off.square().mean() + 0.5 * gradient_loss(off, mask)))
    assert float(error) == pytest.approx(float(off.square().mean()))
    whole = photo_loss(shown.double(), photo.double(), 0.5)
    assert whole[0].dtype == torch.float64


def test_what_is_not_a_number_shows_in_the_loss():
    shown = torch.zeros(6, 6, 3)
    shown[2, 3, 1] = torch.nan
    assert not bool(torch.isfinite(photo_loss(shown, torch.ones(6, 6, 3), 1.0)[1]))
