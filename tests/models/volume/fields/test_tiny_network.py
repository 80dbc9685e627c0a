"""The tiny network's two backends against each other, forward and backward."""

import pytest
import torch

from dofnerf.models.volume.fields.hash import FEATURES, Layers, density_only, perceive


def network(inputs, width, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    shapes = [(width, inputs), (FEATURES, width), (width, FEATURES), (3, width)]
    tensors = [torch.randn(s, dtype=dtype) * 0.3 for shape in shapes for s in (shape, shape[:1])]
    return Layers(*(tensor.requires_grad_() for tensor in tensors))


@pytest.mark.parametrize("inputs, width", [(32, 32), (10, 7), (3, 5), (24, 64)])
@pytest.mark.parametrize("rays, per_ray", [(1, 1), (700, 3), (5, 900), (40, 24), (300, 1)])
def test_twins_agree(inputs, width, rays, per_ray):
    layers = network(inputs, width)
    encoded, seen = torch.randn(rays * per_ray, inputs), torch.randn(rays, width)
    pull = torch.randn(rays * per_ray, 3), torch.randn(rays * per_ray)
    found = []
    for backend in ("reference", "cpu"):
        given = [tensor.detach().clone().requires_grad_() for tensor in (encoded, seen, *layers)]
        out = perceive(given[0], given[1], Layers(*given[2:]), backend)
        torch.autograd.backward(out, pull)
        found.append([*(tensor.detach() for tensor in out), *(tensor.grad for tensor in given)])
        torch.testing.assert_close(density_only(given[0], Layers(*given[2:])), out[1], atol=1e-5, rtol=1e-4)
    for slow, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=2e-5 * float(slow.abs().max()) + 1e-6)


def test_any_number_of_threads_gives_the_same_bits():
    layers = network(8, 16)
    encoded, seen = torch.randn(12000, 8), torch.randn(500, 16)
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            given = [tensor.detach().clone().requires_grad_() for tensor in (encoded, seen, *layers)]
            colour, density = perceive(given[0], given[1], Layers(*given[2:]), "cpu")
            (colour.square().sum() + density.square().sum()).backward()
            found.append([tensor.grad for tensor in given])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_bad_input():
    layers = network(8, 16)
    with pytest.raises(ValueError, match="do not divide"):
        perceive(torch.randn(10, 8), torch.randn(3, 16), layers)
    with pytest.raises(ValueError, match="float32"):
        perceive(torch.randn(9, 8).double(), torch.randn(3, 16).double(), layers, "cpu")
