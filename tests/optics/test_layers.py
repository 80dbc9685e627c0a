"""Layers: limits and laws; quality at silhouettes is in test_monte_carlo.py."""

import pytest
import torch

from dofnerf.optics import DISC, Blades, scatter, scatter_layers, split_layers, to_display, to_linear


@pytest.mark.parametrize(("shape", "norm"), [(DISC, "paper"), (DISC, "unit"), (Blades(6), "paper")], ids=str)
def test_one_layer_is_the_plain_op(shape, norm):
    image, radius = torch.rand(12, 17, 3), 6 * torch.rand(12, 17)
    plain = scatter(image, radius, shape, norm=norm)
    assert torch.equal(scatter_layers(image[None], torch.ones(1, 12, 17), radius[None], shape, norm=norm), plain)
    # The general path, not the short cut: an empty layer behind changes nothing.
    behind = torch.stack([torch.rand(12, 17, 3), image])
    alpha = torch.stack([torch.zeros(12, 17), torch.ones(12, 17)])
    out = scatter_layers(behind, alpha, torch.stack([radius, radius]), shape, norm=norm)
    torch.testing.assert_close(out, plain, rtol=1e-5, atol=1e-5)


def test_sharp_layers_composite_as_pictures_do():
    far, near = torch.rand(8, 9, 3), torch.rand(8, 9, 3)
    alpha = torch.rand(8, 9)
    out = scatter_layers(
        torch.stack([far, near]), torch.stack([torch.ones(8, 9), alpha]), torch.zeros(2, 8, 9), light=1.0
    )
    torch.testing.assert_close(out, near * alpha[..., None] + far * (1 - alpha[..., None]))


def test_opaque_near_layer_hides_the_far_one_up_to_the_border():
    colour = torch.stack([torch.ones(10, 10, 3), torch.zeros(10, 10, 3)])
    out = scatter_layers(colour, torch.ones(2, 10, 10), torch.full((2, 10, 10), 4.0), light=1.0)
    torch.testing.assert_close(out, torch.zeros(10, 10, 3), atol=1e-6, rtol=0)


def test_gradcheck():
    colour = torch.rand(2, 2, 3, 1, dtype=torch.float64, requires_grad=True)
    alpha = (0.2 + 0.6 * torch.rand(2, 2, 3, dtype=torch.float64)).requires_grad_()
    radius = (0.3 + 1.2 * torch.rand(2, 2, 3, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(scatter_layers, (colour, alpha, radius))


def _unblurred(image, disparity, count):
    layers = split_layers(image, disparity, count)
    return scatter_layers(layers.colour, layers.alpha, torch.zeros(count, *disparity.shape))


def test_unblurred_layers_of_a_slanted_plane_are_the_picture():
    image, disparity = torch.rand(12, 80, 3), torch.linspace(0.2, 1, 80).expand(12, 80)
    torch.testing.assert_close(_unblurred(image, disparity, 8), image, atol=2e-4, rtol=0)


def test_unblurred_layers_at_silhouettes_are_the_picture_too():
    image, disparity = torch.rand(20, 30, 3), torch.full((20, 30), 0.1)
    disparity[5:15, 8:20], disparity[9:12, 10:28] = 0.5, 0.9
    torch.testing.assert_close(_unblurred(image, disparity, 5), image, atol=2e-3, rtol=0)
    noise = torch.rand(20, 30)
    torch.testing.assert_close(_unblurred(image, noise, 5), image, atol=2e-3, rtol=0)
    layers = split_layers(image, disparity, 5)
    opaque = (layers.alpha == 1) * torch.arange(1, 6)[:, None, None]
    torch.testing.assert_close(layers.disparity.gather(0, opaque.amax(0)[None] - 1)[0], disparity)


def test_split_leaves_no_ghost_of_the_near_thing():
    """A red bar before grey, antialiased: out of focus, it must not leave its red, sharp, behind itself."""
    image, disparity = torch.full((24, 40, 3), 0.5), torch.full((24, 40), 0.1)
    image[:, 18:22], disparity[:, 18:22] = torch.tensor([1.0, 0.0, 0.0]), 1.0
    grey, red = to_linear(torch.full((3,), 0.5)), torch.tensor([1.0, 0.0, 0.0])
    image[:, 17] = image[:, 22] = to_display((grey + red) / 2)  # half covered, but with the depth of the background
    layers = split_layers(image, disparity, 4)
    torch.testing.assert_close(layers.colour[0][:, 10:30], torch.full((24, 20, 3), 0.5), atol=1e-3, rtol=0)
    half = layers.alpha[3][:, 17]
    torch.testing.assert_close(half, torch.full((24,), 0.5), atol=0.01, rtol=0)


def test_split_of_a_flat_picture():
    layers = split_layers(torch.rand(4, 4, 3), torch.full((4, 4), 0.5), 3)
    assert torch.equal(layers.alpha[0], torch.ones(4, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda: scatter_layers(torch.ones(4, 5, 3), torch.ones(4, 5), torch.ones(4, 5)),
        lambda: scatter_layers(torch.ones(0, 4, 5, 3), torch.ones(0, 4, 5), torch.ones(0, 4, 5)),
        lambda: scatter_layers(torch.ones(1, 4, 5, 3), 2 * torch.ones(1, 4, 5), torch.ones(1, 4, 5)),
        lambda: split_layers(torch.ones(4, 5, 3), torch.ones(5, 4), 2),
        lambda: split_layers(torch.ones(4, 5, 3), torch.ones(4, 5), 0),
        lambda: split_layers(torch.ones(4, 5, 3), torch.full((4, 5), torch.nan), 2),
    ],
)
def test_bad_input(call):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        call()
