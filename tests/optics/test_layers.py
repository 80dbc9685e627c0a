"""Layers: limits and laws; quality at silhouettes is in test_monte_carlo.py."""

import pytest
import torch

from dofnerf.optics import Kernel, scatter, scatter_layers, split_layers


@pytest.mark.parametrize("kernel", [Kernel(), Kernel(norm="unit"), Kernel(blades=6)], ids=str)
def test_one_layer_is_the_plain_op(kernel):
    image, radius = torch.rand(12, 17, 3), 6 * torch.rand(12, 17)
    assert torch.equal(scatter_layers(image[None], torch.ones(1, 12, 17), radius[None], kernel), scatter(image, radius, kernel))
    # The general path, not the short cut: an empty layer behind changes nothing.
    behind = torch.stack([torch.rand(12, 17, 3), image])
    alpha = torch.stack([torch.zeros(12, 17), torch.ones(12, 17)])
    out = scatter_layers(behind, alpha, torch.stack([radius, radius]), kernel)
    torch.testing.assert_close(out, scatter(image, radius, kernel), rtol=1e-5, atol=1e-5)


def test_sharp_layers_composite_as_pictures_do():
    far, near = torch.rand(8, 9, 3), torch.rand(8, 9, 3)
    alpha = torch.rand(8, 9)
    out = scatter_layers(torch.stack([far, near]), torch.stack([torch.ones(8, 9), alpha]), torch.zeros(2, 8, 9), light=1.0)
    torch.testing.assert_close(out, near * alpha[..., None] + far * (1 - alpha[..., None]))


def test_opaque_near_layer_hides_the_far_one_up_to_the_border():
    colour = torch.stack([torch.ones(10, 10, 3), torch.zeros(10, 10, 3)])
    out = scatter_layers(colour, torch.ones(2, 10, 10), torch.full((2, 10, 10), 4.0), light=1.0)
    torch.testing.assert_close(out, torch.zeros(10, 10, 3), atol=1e-6, rtol=0)


def test_gradcheck():
    colour = torch.rand(2, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    alpha = (0.2 + 0.6 * torch.rand(2, 3, 4, dtype=torch.float64)).requires_grad_()
    radius = (0.3 + 2 * torch.rand(2, 3, 4, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(scatter_layers, (colour, alpha, radius))


def test_split_keeps_every_pixel_once_in_front():
    image, disparity = torch.rand(20, 30, 3), torch.rand(20, 30)
    layers = split_layers(image, disparity, 5)
    out = scatter_layers(layers.colour, layers.alpha, torch.zeros(5, 20, 30), light=1.0)
    torch.testing.assert_close(out, image)
    front = layers.alpha * torch.arange(1, 6)[:, None, None]
    index = front.amax(0).long() - 1
    torch.testing.assert_close(layers.disparity.gather(0, index[None])[0], disparity)


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
    ],
)
def test_bad_input(call):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        call()
