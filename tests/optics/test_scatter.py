"""The scatter op: laws that hold for every backend, and agreement of the backends."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch

from dofnerf.optics import DISC, Blades, LearnedLens, accumulate, coc_radius, scatter, shape_of
from dofnerf.optics.kernels import run_jobs
from dofnerf.optics.scattering import reference

KERNELS = [
    (DISC, "paper"),
    (DISC, "unit"),
    (Blades(5, rotation=0.3), "paper"),
    (Blades(6, rotation=1.0), "unit"),
    (Blades(3), "paper"),
]
BACKENDS = ["reference", "cpu"]
SIZES = [(1, 1), (1, 9), (8, 1), (7, 11)]


def _picture(height, width, seed=0, dtype=torch.float32, channels=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(height, width, channels, generator=generator, dtype=dtype)


def _radius(height, width, largest, seed=1, dtype=torch.float32):
    """A quarter each: zero, sub-pixel, up to the largest, negative."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.rand(height, width, generator=generator, dtype=dtype)
    kind = torch.randint(0, 4, (height, width), generator=generator)
    return torch.where(
        kind == 0, 0 * value, torch.where(kind == 1, value, torch.where(kind == 2, largest * value, -largest * value))
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("light", [1.0, 2.2, "srgb"])
def test_aperture_zero_is_the_identity_bit_for_bit(backend, light):
    image = _picture(9, 14)
    aperture = torch.zeros(1, requires_grad=True)
    blur = coc_radius(torch.rand(9, 14) + 0.5, aperture, 0.7)
    out = scatter(image.requires_grad_(), blur, light=light, backend=backend)
    assert torch.equal(out, image)
    out.sum().backward()
    assert torch.equal(image.grad, torch.ones_like(image))
    assert torch.isfinite(aperture.grad).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("shape", "norm"), KERNELS, ids=str)
def test_constant_picture_stays_constant(backend, shape, norm):
    image = torch.tensor([0.9, 0.0, 0.3]).expand(15, 12, 3).contiguous()
    out = scatter(image, _radius(15, 12, 30.0), shape, norm=norm, backend=backend)
    torch.testing.assert_close(out, image, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("blades", [0, 3, 6])
def test_unit_kernel_keeps_the_light_away_from_borders(backend, blades):
    image = torch.zeros(40, 40, 2)
    image[14:26, 14:26] = _picture(12, 12, channels=2)
    out = accumulate(image, _radius(40, 40, 11.0), shape_of(None, blades), "unit", backend)
    torch.testing.assert_close(out.sum((0, 1)), image.sum((0, 1)), rtol=1e-5, atol=0)


def test_brute_force_numpy_disc_agrees_with_the_reference():
    """Algorithm 2 as printed, loops and all, with l < r + 1 as its neighbourhood; the radius is our radius."""
    image = _picture(13, 10, dtype=torch.float64).numpy()
    radius = np.abs(_radius(13, 10, 6.0, dtype=torch.float64).numpy())
    linear, light, weight = image**2.2, np.zeros((13, 10, 3)), np.zeros((13, 10))
    for y, x in np.ndindex(13, 10):
        for v, u in np.ndindex(13, 10):
            r, l = radius[y, x], math.hypot(v - y, u - x)
            if l < r + 1:
                w = (0.5 + 0.5 * math.tanh(4 * (r - l))) / (r * r + 0.2)
                light[v, u] += w * linear[y, x]
                weight[v, u] += w
    expected = (light / weight[..., None]) ** (1 / 2.2)
    out = scatter(torch.from_numpy(image), torch.from_numpy(radius), backend="reference")
    np.testing.assert_allclose(out, expected, atol=1e-3)  # the cut-off's own size, 0.034 % of a weight


@pytest.mark.parametrize(("shape", "norm"), KERNELS[:4], ids=str)
def test_reference_gradcheck(shape, norm):
    image = _picture(2, 3, dtype=torch.float64, channels=1).requires_grad_()
    radius = (_radius(2, 3, 1.5, dtype=torch.float64) + 0.013).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda i, r: scatter(i, r, shape, norm=norm, backend="reference"), (image, radius), atol=1e-6
    )


def test_reference_gradcheck_of_aperture_and_focus():
    image, depth = _picture(3, 4, dtype=torch.float64), 1 + 3 * _picture(3, 4, seed=3, dtype=torch.float64)[..., 0]
    lens = (
        torch.tensor(3.1, dtype=torch.float64, requires_grad=True),
        torch.tensor(0.41, dtype=torch.float64, requires_grad=True),
    )
    assert torch.autograd.gradcheck(lambda a, f: scatter(image, coc_radius(depth, a, f)), lens)


@pytest.mark.parametrize(("shape", "norm"), KERNELS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("largest", [2.0, 20.0])
def test_cpu_agrees_with_the_reference(shape, norm, size, largest):
    results = []
    for backend in BACKENDS:
        image, radius = _picture(*size).requires_grad_(), _radius(*size, largest).requires_grad_()
        out = scatter(image, radius, shape, norm=norm, backend=backend)
        (out * _picture(*size, seed=5)).sum().backward()
        results.append((out.detach(), image.grad, radius.grad))
    for tolerance, expected, found in zip((1e-5, 1e-4, 1e-4), *results, strict=True):
        scale = max(float(expected.abs().max()), 1e-3)
        assert float((expected - found).abs().max()) <= tolerance * scale


def test_cpu_in_batches_and_other_channel_counts():
    values, radius = torch.rand(2, 3, 9, 8, 5), 4 * torch.rand(2, 3, 9, 8)
    out = accumulate(values, radius, backend="cpu")
    torch.testing.assert_close(out, accumulate(values, radius, backend="reference"), rtol=1e-5, atol=1e-6)
    shared = accumulate(values, radius[0, 0], backend="cpu")
    torch.testing.assert_close(shared[1, 2], accumulate(values[1, 2], radius[0, 0], backend="cpu"))


def test_a_bright_pixel_leaves_its_row_alone():
    """Running sums must not drag a highlight's rounding along the row."""
    image, radius = torch.full((1, 200, 3), 1e-3), torch.zeros(1, 200)
    image[0, 20], radius[0, :] = 1e4, 0.3
    expected = scatter(image.double(), radius.double(), light=1.0, backend="reference")
    torch.testing.assert_close(scatter(image, radius, light=1.0, backend="cpu").double(), expected, rtol=1e-5, atol=0)


def test_cpu_does_not_depend_on_the_number_of_threads():
    image, radius = _picture(50, 40), _radius(50, 40, 12.0)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            i, r = image.clone().requires_grad_(), radius.clone().requires_grad_()
            out = scatter(i, r, backend="cpu")
            out.square().sum().backward()
            results.append((out.detach(), i.grad, r.grad))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("blades", [0, 3, 4, 12])
def test_rim_arrays_are_large_enough(blades):
    """The kernels write without bounds checks, so the room they are given is checked here, over all radii."""
    from dofnerf.optics.scattering.cpu_kernels import CHUNK, footprint, make_room

    normals, apothem = (Blades(blades, rotation=0.1) if blades else DISC).sides()
    normals = normals.numpy()
    for radius in [*np.arange(0, 12, 0.61), 50.2, 333.3]:
        room = make_room(radius, apothem)
        count = footprint(radius, 10**6, normals, apothem, room)
        assert count + 2 * CHUNK < room.shape[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("shape", "norm"), [(DISC, "paper"), (Blades(6), "unit")], ids=str)
def test_gradient_descent_finds_the_lens(backend, shape, norm):
    """A sharp picture with depth and its blurred version: aperture and focus come back to 1 %."""
    generator = torch.Generator().manual_seed(4)
    image = torch.nn.functional.interpolate(
        torch.rand(1, 3, 10, 14, generator=generator), size=(20, 28), mode="bicubic"
    )
    image = image[0].permute(1, 2, 0).clamp(0, 1).contiguous()
    depth = torch.linspace(1.5, 6.0, 28).expand(20, 28)
    with torch.no_grad():
        blurred = scatter(image, coc_radius(depth, 6.0, 1 / 2.5), shape, norm=norm, backend="reference")
    lens = LearnedLens(1, 1.5, 6.0, aperture=3.0, focus_disparity=0.3)
    optimizer = torch.optim.LBFGS(lens.parameters(), max_iter=15, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        error = (
            (scatter(image, lens.coc_radius(depth, photo=0), shape, norm=norm, backend=backend) - blurred)
            .square()
            .sum()
        )
        error.backward()
        return error

    optimizer.step(loss)
    assert lens.aperture.item() == pytest.approx(6.0, rel=0.01)
    assert lens.focus_depth.item() == pytest.approx(2.5, rel=0.01)


@pytest.mark.parametrize(
    ("image", "radius", "words"),
    [
        (torch.ones(4, 5), torch.ones(4, 5), "shape"),
        (torch.ones(4, 5, 3), torch.ones(5, 4), "does not fit"),
        (torch.ones(4, 5, 3), torch.ones(4, 5, dtype=torch.float64), "one type"),
        (torch.ones(4, 5, 3, dtype=torch.int32), torch.ones(4, 5, dtype=torch.int32), "floats"),
        (torch.full((4, 5, 3), math.nan), torch.ones(4, 5), r"picture.*\(0, 0, 0\)"),
        (torch.ones(4, 5, 3), torch.full((4, 5), math.inf), r"coc_radius.*\(0, 0\)"),
        (torch.ones(4, 5, 3), torch.full((4, 5), 1e9), "units"),
    ],
)
def test_bad_input(image, radius, words):
    with pytest.raises(ValueError, match=words):
        scatter(image, radius)


def test_bad_backend():
    with pytest.raises(ValueError, match="backend"):
        scatter(torch.ones(2, 2, 3), torch.ones(2, 2), backend="fast")
    with pytest.raises(ValueError, match="float32"):
        scatter(torch.ones(2, 2, 3, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64), backend="cpu")


def test_jobs_pass_errors_on():
    class Broken:
        overloads: ClassVar[dict] = {(): "compiled"}

        def __call__(self, first, last):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_jobs(Broken(), 8, ())


def test_normaliser_of_the_unit_kernel_is_close_to_the_area():
    radius = torch.tensor([10.0, 25.0], dtype=torch.float64)
    torch.testing.assert_close(reference.normaliser(radius, DISC, "unit"), math.pi * radius**2, rtol=5e-3, atol=0)
    hexagon = reference.normaliser(radius, Blades(6), "unit")
    torch.testing.assert_close(hexagon, 1.5 * math.sqrt(3) * radius**2, rtol=1e-2, atol=0)
