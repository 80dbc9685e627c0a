"""The splat rasteriser: the twins agree, and what they agree on is right."""

import numpy as np
import pytest
import torch
from small_splats import awkward_gaussians, camera, learning, random_gaussians

from dofnerf.camera import Camera
from dofnerf.models.splat.raster import (
    Drawn,
    Gaussians,
    Style,
    SubAperture,
    attribute,
    draw,
    from_colour,
    project,
    rasterise,
)
from dofnerf.optics import DISC

BACKENDS = ["reference", "cpu"]
LENSES = {
    "sharp": (0.0, SubAperture()),
    "blurred": (6.0, SubAperture()),
    "strongly blurred": (40.0, SubAperture()),
    "from the rim": (6.0, SubAperture(0.3, -0.9, 0.0)),
    "part": (12.0, SubAperture(-0.5, 0.2, 0.5)),
}


def picture_and_gradients(gaussians, seen_by, aperture, part, style, backend):
    """In float32 by the kernels; by the reference in float64, whose sums do not suffer when large terms cancel."""
    dtype = torch.float64 if backend == "reference" else torch.float32
    gaussians = learning(Gaussians(*(tensor.to(dtype) for tensor in gaussians)))
    lens = torch.tensor([aperture, 0.3], dtype=dtype, requires_grad=True)
    drawn = draw(gaussians, seen_by, lens[0], lens[1], part, style, backend)
    generator = torch.Generator().manual_seed(1)
    sum((part * torch.randn(part.shape, generator=generator)).sum() for part in drawn).backward()
    return Drawn(*(part.float() for part in drawn)), [*(tensor.grad.float() for tensor in gaussians), lens.grad.float()]


@pytest.mark.parametrize("make", [random_gaussians, awkward_gaussians])
@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize(
    "style", [Style(), Style(light=1.0, antialiased=True, degree=1)], ids=["classic", "antialiased"]
)
def test_cpu_agrees_with_the_reference(make, lens, style):
    seen_by = camera()
    expected, found = (
        picture_and_gradients(make(seen_by), seen_by, *LENSES[lens], style, backend) for backend in BACKENDS
    )
    assert expected[0].alpha.max() > 0.5
    for name, wanted, got in zip(Drawn._fields, expected[0], found[0], strict=True):
        torch.testing.assert_close(got, wanted, atol=2e-5, rtol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
    for name, wanted, got in zip((*Gaussians._fields, "lens"), expected[1], found[1], strict=True):
        size = wanted.abs().max()
        assert torch.isfinite(got).all()
        # The lens gets a sum over all Gaussians, of either sign, and is not as large as its terms.
        assert (got - wanted).abs().max() <= (1e-3 if name == "lens" else 1e-4) * size + 1e-12, name


@pytest.mark.parametrize("kinds", [1, 4, 16])
def test_harmonics_of_every_degree_agree(kinds):
    seen_by = camera(20, 12)
    both = [
        picture_and_gradients(
            random_gaussians(seen_by, 20, kinds=kinds), seen_by, 5.0, SubAperture(), Style(light="srgb"), backend
        )
        for backend in BACKENDS
    ]
    for wanted, got in zip(both[0][1], both[1][1], strict=True):
        assert (got - wanted).abs().max() <= 1e-4 * wanted.abs().max()


@pytest.mark.parametrize("part", [SubAperture(), SubAperture(0.5, 0.7, 0.0), SubAperture(0.4, -0.3, 0.6)])
@pytest.mark.parametrize("antialiased", [False, True])
def test_gradients_of_the_reference_by_finite_differences(part, antialiased):
    """Gaussians that end outside the picture: where they end there is a step, which differences would see."""
    seen_by = camera(5, 4)
    gaussians = random_gaussians(seen_by, 4, pixels=6.0, kinds=16, dtype=torch.float64)
    gaussians = gaussians._replace(opacity_logits=gaussians.opacity_logits.clamp(-1, 1.5))
    lens = torch.tensor([4.0, 0.31], dtype=torch.float64)

    def pictures(lens, *tensors):
        return draw(Gaussians(*tensors), seen_by, lens[0], lens[1], part, Style(antialiased=antialiased), "reference")

    inputs = [tensor.clone().requires_grad_() for tensor in (lens, *gaussians)]
    assert torch.autograd.gradcheck(pictures, inputs, eps=1e-7, atol=1e-5, rtol=1e-3, fast_mode=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_at_all(backend):
    seen_by = camera()
    empty = learning(Gaussians(*(tensor[:0] for tensor in random_gaussians(seen_by))))
    aperture = torch.tensor(2.0, requires_grad=True)
    drawn = draw(empty, seen_by, aperture, 0.2, backend=backend)
    assert drawn.light.shape == (29, 37, 3)
    assert not any(part.any() for part in drawn)
    sum(part.sum() for part in drawn).backward()
    assert aperture.grad is None or aperture.grad == 0
    assert attribute(project(empty, seen_by, backend=backend), torch.ones(29, 37, 2), backend).shape == (0, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_behind_the_camera(backend):
    seen_by = camera()
    gaussians = random_gaussians(seen_by)
    behind = learning(gaussians._replace(means=2 * torch.from_numpy(seen_by.position).float() - gaussians.means))
    drawn = draw(behind, seen_by, 3.0, 0.2, backend=backend)
    assert not any(part.any() for part in drawn)
    sum(part.sum() for part in drawn).backward()
    assert not any(tensor.grad.any() for tensor in behind)


def test_the_same_bit_for_bit_with_any_number_of_threads():
    seen_by = camera(150, 90)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            drawn, gradients = picture_and_gradients(
                random_gaussians(seen_by, 2000), seen_by, 6.0, SubAperture(), Style(), backend="cpu"
            )
            results.append([*drawn, *gradients])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_tally_agrees_with_the_reference_and_with_the_picture():
    seen_by = camera()
    gaussians = awkward_gaussians(seen_by)
    values = torch.cat(
        [torch.ones(29, 37, 1), torch.rand(29, 37, 2, generator=torch.Generator().manual_seed(0))], dim=-1
    )
    projected = project(gaussians, seen_by, 6.0, 0.3)
    expected, found = attribute(projected, values, "reference"), attribute(projected, values, "cpu")
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    alpha = rasterise(projected, 37, 29).alpha
    torch.testing.assert_close(found.sum(0), (alpha[..., None] * values).sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_chunks_do_not_show(monkeypatch):
    from dofnerf.models.splat.raster import reference

    seen_by = camera()
    whole = picture_and_gradients(random_gaussians(seen_by), seen_by, 6.0, SubAperture(), Style(), "reference")
    monkeypatch.setattr(reference, "PAIRS", 50 * 100)
    parts = picture_and_gradients(random_gaussians(seen_by), seen_by, 6.0, SubAperture(), Style(), "reference")
    for a, b in zip([*whole[0], *whole[1]], [*parts[0], *parts[1]], strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def one_gaussian(depth: float, deviation: float, opacity: float = 0.9) -> Gaussians:
    """Round, white, straight ahead of a camera at the origin; the deviation in scene units."""
    return Gaussians(
        torch.tensor([[0.0, 0.0, -depth]]),
        torch.full((1, 3), deviation).log(),
        torch.tensor([[1.0, 0.0, 0.0, 0.0]]),
        torch.logit(torch.tensor([opacity])),
        from_colour(torch.ones(1, 1, 3)),
    )


AHEAD = Camera(np.eye(3, 4), 100.0, 100.0, 40.5, 40.5, 81, 81)


def test_one_gaussian_by_hand():
    """Deviation 0.06 at depth 2 through 100 px: 3 px, and the low-pass. The pixel at the centre has the opacity."""
    drawn = draw(one_gaussian(2.0, 0.06), AHEAD)
    aside = torch.arange(-8, 9)
    expected = 0.9 * torch.exp(-0.5 * aside.float() ** 2 / (9 + 0.3))
    torch.testing.assert_close(drawn.alpha[40, 32:49], expected * (expected >= 1 / 255), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(drawn.alpha[32:49, 40], drawn.alpha[40, 32:49])
    torch.testing.assert_close(drawn.mean_disparity()[40, 36:45], torch.full((9,), 0.5))
    torch.testing.assert_close(drawn.light[..., 1], drawn.alpha, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("aperture", "depth"), [(10.0, 2.0), (40.0, 2.0), (40.0, 8.0)])
def test_blur_keeps_the_light_and_has_the_variance_of_a_disc(aperture, depth):
    """Also far out of focus, where the peak falls far below 1/255: there the classic cut would lose it all."""
    sharp, blurred = (draw(one_gaussian(depth, 0.015 * depth, 0.5), AHEAD, a, 0.3).alpha for a in (0.0, aperture))
    assert blurred.sum() == pytest.approx(sharp.sum().item(), rel=0.035)
    radius = aperture * abs(0.3 - 1 / depth)
    x = torch.arange(81.0) - 40
    variance = (blurred.sum(0) * x**2).sum() / blurred.sum()
    assert variance == pytest.approx(1.5**2 + 0.3 + radius**2 / 4, rel=0.15)  # short of it by what the cut takes


def test_a_lens_is_the_mean_of_its_points():
    """Gaussians that do not overlap, moderately blurred: their blur is what a real lens gives, seen point by point."""
    where = torch.tensor([[-0.4, 0.4], [0.4, 0.45], [0.0, -0.35]])
    depth = torch.tensor([1.5, 2.5, 4.0])
    three = [one_gaussian(float(d), 0.03 * float(d), 0.6) for d in depth]
    gaussians = Gaussians(*(torch.cat(parts) for parts in zip(*three, strict=True)))
    gaussians = gaussians._replace(means=torch.cat([where * depth[:, None] * 0.6, -depth[:, None]], dim=1))
    aperture, focus = 14.0, 0.35
    points = DISC.points((1,), 64, torch.Generator().manual_seed(0))[0]
    exact = torch.stack(
        [draw(gaussians, AHEAD, aperture, focus, SubAperture(*p, 0.0)).alpha for p in points.tolist()]
    ).mean(0)
    blurred = draw(gaussians, AHEAD, aperture, focus).alpha
    sharp = draw(gaussians, AHEAD).alpha
    assert (blurred - exact).abs().max() < 0.025
    assert (blurred - exact).abs().mean() < 0.2 * (sharp - exact).abs().mean()


def test_the_focal_plane_stays_where_it_is_from_every_point():
    seen = one_gaussian(2.0, 0.05)
    for point in ((0.0, 1.0), (1.0, 0.0), (-0.6, 0.6)):
        torch.testing.assert_close(
            draw(seen, AHEAD, 20.0, 0.5, SubAperture(*point, 0.0)).alpha, draw(seen, AHEAD).alpha, atol=5e-3, rtol=0
        )
    right = draw(
        seen, AHEAD, 20.0, 0.6, SubAperture(1.0, 0.0, 0.0)
    ).alpha  # focused nearer, at 1/0.6: seen 20 · 0.1 px to the right
    torch.testing.assert_close(right[:, 2:], draw(seen, AHEAD).alpha[:, :-2], atol=5e-3, rtol=0)


def test_lists_hold_every_gaussian_that_touches_a_tile():
    from dofnerf.models.splat.raster.cpu import HIGH, WIDE, boxes, near_to_far, sort_into_tiles

    seen_by = camera(60, 50)
    table, reach, depth = (tensor.numpy() for tensor in project(awkward_gaussians(seen_by), seen_by, 8.0, 0.3))
    order = near_to_far(depth, reach)
    tiles = sort_into_tiles(order, boxes(order, table, reach), np.zeros(5, np.float32), 60, 50)
    y, x = np.mgrid[:50, :60] + 0.5
    listed = np.zeros((len(table), 64, 64), dtype=bool)
    for tile in range(len(tiles.lists) - 1):
        row, column = tile // 8 * HIGH, tile % 8 * WIDE
        for gaussian, _, top, bottom in tiles.entries[tiles.lists[tile] : tiles.lists[tile + 1]]:
            listed[gaussian, row + top : row + bottom, column : column + WIDE] = True
    for i in np.flatnonzero(reach > 0):
        a, b, c = table[i, 2:5].astype(float)
        dx, dy = x - table[i, 0], y - table[i, 1]
        inside = a * dx**2 + 2 * b * dx * dy + c * dy**2 <= reach[i]
        assert not (inside & ~listed[i, :50, :60]).any()
        if inside.any():  # tight: no tile is listed whose pixels it misses, but for rounding
            columns = np.ptp(np.flatnonzero(inside.any(axis=0))) // WIDE + 2
            assert listed[i, :50, :60].sum() <= WIDE * columns * (inside.any(axis=1).sum() + 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"means": torch.zeros(4, 3)}, "shape"),
        ({"harmonics": torch.zeros(50, 5, 3)}, "degree"),
        ({"rotations": torch.zeros(50, 4, dtype=torch.float64)}, "one type"),
    ],
)
def test_bad_gaussians(change, words):
    with pytest.raises(ValueError, match=words):
        draw(random_gaussians(camera())._replace(**change), camera())


def test_bad_lens_and_backend():
    gaussians = random_gaussians(camera())
    with pytest.raises(ValueError, match="aperture"):
        draw(gaussians, camera(), -1.0)
    with pytest.raises(ValueError, match="backend"):
        draw(gaussians, camera(), backend="cuda")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        draw(random_gaussians(camera(), dtype=torch.float64), camera(), backend="cpu")
