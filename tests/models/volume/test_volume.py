"""Volume rendering against what can be integrated: slabs by hand, any density by SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from dofnerf.models import Blur
from dofnerf.models.losses import sparse_depth_loss
from dofnerf.models.volume.weights import (
    Shaded,
    concentrate,
    concentrate_layers,
    layer_edges,
    put_lens,
    ray_weights,
    thickness_of,
)
from dofnerf.optics import Lens, coc_radius_from_disparity, scatter, scatter_layers
from oracles.explicit import render_explicit


def along(depths, density, colour):
    """Shaded samples in the middle of the intervals between `depths`, of functions of depth."""
    edges = torch.as_tensor(depths, dtype=torch.float64)
    middle = (edges[1:] + edges[:-1]) / 2
    return Shaded(colour(middle), density(middle), edges.diff(), middle)


def test_homogeneous_slab():
    sigma, start, end = 1.3, 2.0, 3.5

    def density(h):
        return sigma * ((h > start) & (h < end)).double()

    shaded = along(np.linspace(1, 5, 4001), density, lambda h: torch.ones(len(h), 3).double())
    out = concentrate(shaded, opaque_end=False)
    alpha = 1 - math.exp(-sigma * (end - start))
    assert float(out.alpha) == pytest.approx(alpha, abs=1e-9)
    assert out.colour.tolist() == pytest.approx([alpha] * 3, abs=1e-9)
    depth = quad(lambda h: h * sigma * math.exp(-sigma * (h - start)), start, end)[0] / alpha
    disparity = quad(lambda h: sigma * math.exp(-sigma * (h - start)) / h, start, end)[0] / alpha
    assert float(out.depth) == pytest.approx(depth, abs=1e-6)
    assert float(out.disparity) == pytest.approx(disparity, abs=1e-6)


def test_two_slabs_and_their_layers():
    red, blue = torch.tensor([1.0, 0.0, 0.0]).double(), torch.tensor([0.0, 0.0, 1.0]).double()
    near_sigma, far_sigma = 0.7, 2.0

    def density(h):
        return near_sigma * ((h > 1.5) & (h < 2)).double() + far_sigma * ((h > 4) & (h < 6)).double()

    shaded = along(np.linspace(1, 7, 6001), density, lambda h: torch.where((h < 3)[:, None], red, blue))
    out = concentrate(shaded, opaque_end=False)
    front, back = 1 - math.exp(-near_sigma * 0.5), 1 - math.exp(-far_sigma * 2)
    assert out.colour.tolist() == pytest.approx([front, 0, (1 - front) * back], abs=1e-9)
    colour, alpha, disparity = concentrate_layers(shaded, torch.tensor([1 / 7, 1 / 3, 1.0]), opaque_end=False)
    assert alpha.tolist() == pytest.approx([back, front], abs=1e-9)  # the far layer as if nothing stood before it
    torch.testing.assert_close(colour, torch.stack([blue, red]))
    assert 1 / 6 < float(disparity[0]) < 1 / 4
    assert 1 / 2 < float(disparity[1]) < 1 / 1.5


def test_converges_to_quadrature():
    def density(h):
        return 1.5 * np.exp(-((h - 2.4) ** 2) * 6) + 0.4

    def colour(h):
        return 0.5 + 0.4 * np.sin(3 * h)

    def emitted(h):
        return math.exp(-quad(density, 1, h)[0]) * density(h) * colour(h)

    truth = quad(emitted, 1, 4)[0]
    errors = []
    for count in (16, 64, 256):
        shaded = along(np.linspace(1, 4, count + 1), lambda h: torch.from_numpy(density(h.numpy())),
                       lambda h: torch.from_numpy(colour(h.numpy()))[:, None].expand(-1, 3))  # fmt: skip
        errors.append(abs(float(concentrate(shaded, opaque_end=False).colour[0]) - truth))
    assert errors[0] < 1e-2
    assert errors[2] < 1e-4
    assert errors[0] > errors[1] > errors[2]


def random_samples(*shape, dtype=torch.float64):
    depth = 1 + 4 * torch.rand(*shape, dtype=dtype).sort(-1).values
    return Shaded(
        torch.rand(*shape, 3, dtype=dtype), 3 * torch.rand(*shape, dtype=dtype), torch.rand(*shape, dtype=dtype), depth
    )


def test_weights_sum_to_one_and_carry_gradients():
    shaded = random_samples(4, 7)
    weights = ray_weights(thickness_of(shaded.density, shaded.distance))
    torch.testing.assert_close(weights.sum(-1), torch.ones(4).double())
    transmittance = torch.exp(-(shaded.density * shaded.distance)).cumprod(-1)
    torch.testing.assert_close(weights[:, 1], transmittance[:, 0] - transmittance[:, 1])
    inputs = tuple(tensor.requires_grad_() for tensor in shaded)
    assert torch.autograd.gradcheck(lambda *x: tuple(concentrate(Shaded(*x))), inputs)
    edges = layer_edges(1, 5, 3)
    assert torch.autograd.gradcheck(lambda *x: concentrate_layers(Shaded(*x), edges), inputs)


def test_extreme_densities_stay_finite():
    for density in (0.0, 1e-20, 1e12):
        shaded = random_samples(3, 9, dtype=torch.float32)._replace(
            density=torch.full((3, 9), density, requires_grad=True)
        )
        out = concentrate(shaded)
        layers = concentrate_layers(shaded, layer_edges(1, 5, 4))
        (sum(x.sum() for x in out) + sum(x.sum() for x in layers)).backward()
        assert all(torch.isfinite(x).all() for x in (*out, *layers, shaded.density.grad))


def test_one_layer_is_concentrate_and_layers_composite_to_it():
    shaded = random_samples(5, 12)
    whole = concentrate(shaded)
    colour, alpha, disparity = concentrate_layers(shaded, layer_edges(0.9, 6, 1))
    torch.testing.assert_close((colour[0], disparity[0]), (whole.colour, whole.disparity))
    torch.testing.assert_close(alpha, torch.ones_like(alpha))
    colour, alpha, _ = concentrate_layers(shaded, layer_edges(0.9, 6, 5))
    lit = torch.zeros(5, 3).double()
    for one, cover in zip(colour, alpha, strict=True):
        lit = one * cover[:, None] + (1 - cover[:, None]) * lit
    torch.testing.assert_close(lit, whole.colour, atol=1e-3, rtol=0)  # hidden below a thousandth is hidden


def surfaces(height, width, sheets):
    """Samples of thin sheets, each (depth, opacity (H, W) or number, colour (H, W, 3)), near to far."""
    depth = torch.tensor([sheet[0] for sheet in sheets]).double().expand(height, width, -1)
    opacity = torch.stack([torch.as_tensor(sheet[1]).double().expand(height, width) for sheet in sheets], -1)
    return Shaded(
        torch.stack([sheet[2] for sheet in sheets], -2), -torch.log1p(-opacity), torch.ones_like(depth), depth
    )


def test_scatter_agrees_with_the_explicit_model_where_a_ray_has_one_surface():
    torch.manual_seed(0)
    lens = Lens(6.0, focus_disparity=0.5)
    near = (torch.rand(9, 11) > 0.5).double() * (1 - 1e-9)
    shaded = surfaces(
        9, 11, [(1.2, near, torch.rand(9, 11, 3).double()), (4.0, 1 - 1e-9, torch.rand(9, 11, 3).double())]
    )
    concentrated = concentrate(shaded)
    explicit = render_explicit(shaded, lens)
    torch.testing.assert_close(put_lens(concentrated.colour, concentrated, lens), explicit, atol=1e-6, rtol=1e-6)
    by_depth = put_lens(concentrated.colour, concentrated, lens, Blur(blur_by="depth"))
    torch.testing.assert_close(by_depth, explicit, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("focus", [1 / 1.2, 1 / 4.0, 0.5])
def test_layers_are_closer_to_the_explicit_model_where_a_ray_has_two(focus):
    torch.manual_seed(0)
    veil, wall = torch.rand(12, 12, 3).double(), torch.rand(12, 12, 3).double()
    shaded = surfaces(12, 12, [(1.2, 0.5, veil), (4.0, 1 - 1e-9, wall)])
    lens, linear = Lens(5.0, focus_disparity=focus), Blur(light=1.0)
    explicit = render_explicit(shaded, lens, linear)
    plain = concentrate(shaded)
    plain_error = (put_lens(plain.colour, plain, lens, linear) - explicit).square().mean()
    colour, alpha, disparity = concentrate_layers(shaded, layer_edges(1, 5, 4))
    layered = scatter_layers(colour, alpha, lens.coc_radius_from_disparity(disparity), light=1.0)
    layered_error = (layered - explicit).square().mean()
    assert layered_error < 0.2 * plain_error


def test_put_lens_is_scatter():
    shaded = random_samples(6, 7, 5, dtype=torch.float32)
    at = concentrate(shaded)
    image = put_lens(at.colour, at, Lens(3.0, focus_disparity=0.4))
    assert torch.equal(image, scatter(at.colour, coc_radius_from_disparity(at.disparity, 3.0, 0.4)))


def test_sparse_depth_loss():
    depth, truth = torch.tensor([2.0, 3.0, 5.0], requires_grad=True), torch.tensor([2.0, 4.0, 4.0])
    error = torch.tensor([0.1, 0.5, 1.2])
    weight = np.exp(-((error.numpy() / error.numpy().mean()) ** 2))
    loss = sparse_depth_loss(depth, truth, error)
    assert loss.item() == pytest.approx(float((weight * [0, 1 / 16, 1 / 16]).mean()), rel=1e-5)
    loss.backward()
    assert depth.grad[1] < 0 < depth.grad[2]
    assert float(sparse_depth_loss(torch.zeros(0), torch.zeros(0), torch.zeros(0))) == 0
    assert torch.isfinite(sparse_depth_loss(depth, truth, torch.zeros(3)))
    with pytest.raises(ValueError, match="one shape"):
        sparse_depth_loss(depth, truth[:2], error)
