"""The rasteriser's triton kernels against the reference: interpreted, compiled, and on CUDA where there is one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_splats import awkward_gaussians, camera, learning, random_gaussians
from torch import Tensor

from dofnerf.models.splat.raster import (
    Drawn,
    Gaussians,
    Style,
    SubAperture,
    attribute,
    draw,
    project,
    rasterise,
    rasterise_mean,
)
from without_gpu import compile_only, interpreter, new_process

pytest.importorskip("triton", reason="the gpu backend needs triton: pip install dofnerf[gpu]")

__all__ = ["interpreter"]

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
compiling = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="TRITON_INTERPRET is set for this process"
)
WHOLE = [SubAperture()]
PARTS = [SubAperture(-0.5, 0.2, 0.5), SubAperture(0.3, -0.9, 0.0), SubAperture(0.0, 0.1, 0.5)]
STYLES = {"classic": Style(), "antialiased": Style(light=1.0, antialiased=True, degree=1), "sRGB": Style(light="srgb")}
Case = tuple[Gaussians, float, list[SubAperture], Style]


def picture_and_gradients(case: Case, backend: str, place: str = "cpu") -> tuple[Drawn, list[Tensor]]:
    """In float32 by the kernels; by the reference in float64, whose sums do not suffer when large terms cancel."""
    gaussians, aperture, parts, style = case
    dtype = torch.float64 if backend == "reference" else torch.float32
    gaussians = learning(Gaussians(*(tensor.to(place, dtype) for tensor in gaussians)))
    lens = torch.tensor([aperture, 0.3], dtype=dtype, device=place, requires_grad=True)
    seen_by = camera()
    projected = {part.radius: project(gaussians, seen_by, *lens, part.radius, style, backend) for part in parts}
    drawn = rasterise_mean([projected[part.radius] for part in parts], parts, *lens, 37, 29, backend)
    generator = torch.Generator().manual_seed(1)
    sum((part * torch.randn(part.shape, generator=generator).to(place)).sum() for part in drawn).backward()
    return Drawn(*(part.detach() for part in drawn)), [*(tensor.grad for tensor in gaussians), lens.grad]


def assert_agree(found: tuple[Drawn, list[Tensor]], case: Case) -> None:
    expected = picture_and_gradients(case, "reference")
    assert expected[0].alpha.max() > 0.5
    for name, wanted, got in zip(Drawn._fields, expected[0], found[0], strict=True):
        assert got.dtype == torch.float32
        difference = (got.cpu() - wanted).abs().max()
        assert difference <= 2e-5, f"{name}: {difference}"
    for name, wanted, got in zip((*Gaussians._fields, "lens"), expected[1], found[1], strict=True):
        assert torch.isfinite(got).all()
        # The lens gets a sum over all Gaussians, of either sign, and is not as large as its terms.
        assert (got.cpu() - wanted).abs().max() <= (1e-3 if name == "lens" else 1e-4) * wanted.abs().max() + 1e-12, name


@pytest.mark.parametrize("make", [random_gaussians, awkward_gaussians])
@pytest.mark.parametrize(
    ("aperture", "parts", "style"),
    [(0.0, WHOLE, "antialiased"), (6.0, WHOLE, "sRGB"), (40.0, WHOLE, "classic"), (10.0, PARTS, "classic")],
    ids=str,
)
def test_agrees_with_the_reference(interpreter: Callable, make, aperture, parts, style) -> None:
    case = make(camera()), aperture, parts, STYLES[style]
    assert_agree(interpreter(picture_and_gradients, case, "gpu"), case)


@pytest.mark.parametrize("kinds", [1, 4, 16])
def test_harmonics_of_every_degree_agree(interpreter: Callable, kinds) -> None:
    case = random_gaussians(camera(), 20, kinds=kinds), 5.0, WHOLE, Style()
    assert_agree(interpreter(picture_and_gradients, case, "gpu"), case)


def in_small_groups(case: Case, entries: int) -> tuple[Drawn, list[Tensor]]:
    from dofnerf.models.splat.raster import gpu

    before, gpu.ENTRIES = gpu.ENTRIES, entries
    try:
        return picture_and_gradients(case, "gpu")
    finally:
        gpu.ENTRIES = before


def test_groups_of_views_do_not_show_and_runs_give_the_same_bits(interpreter: Callable) -> None:
    case = random_gaussians(camera(), 30), 8.0, PARTS, Style()
    whole, parts, again = (interpreter(in_small_groups, case, entries) for entries in (1 << 25, 1, 1))
    for a, b in zip([*parts[0], *parts[1]], [*whole[0], *whole[1]], strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip([*parts[0], *parts[1]], [*again[0], *again[1]], strict=True))


def test_alphas_far_below_1_255_are_drawn(interpreter: Callable) -> None:
    """What other CUDA rasterisers cut off: here the brightest pixel is below 1/255, and the light is all there."""
    gaussians = random_gaussians(camera(), 1, pixels=0.7)._replace(opacity_logits=torch.zeros(1))
    faint = project(gaussians, camera(), 90.0, 0.7, backend="reference")
    found = interpreter(rasterise, faint, 37, 29, "gpu")
    assert 0 < found.alpha.max() < 1 / 255
    torch.testing.assert_close(found.alpha, rasterise(faint, 37, 29, "reference").alpha, atol=1e-8, rtol=1e-4)


def test_attribution_agrees(interpreter: Callable) -> None:
    projected = project(awkward_gaussians(camera()), camera(), 6.0, 0.3, backend="reference")
    values = torch.rand(29, 37, 3, generator=torch.Generator().manual_seed(0))
    found = interpreter(attribute, projected, values, "gpu")
    torch.testing.assert_close(found, attribute(projected, values, "reference"), atol=1e-4, rtol=1e-4)


def test_nothing_and_nothing_in_view(interpreter: Callable) -> None:
    gaussians = random_gaussians(camera(), 5)
    behind = gaussians._replace(means=2 * torch.from_numpy(camera().position).float() - gaussians.means)
    for none in (behind, Gaussians(*(tensor[:0] for tensor in gaussians))):
        drawn, gradients = interpreter(picture_and_gradients, (none, 3.0, PARTS, Style()), "gpu")
        assert drawn.light.shape == (29, 37, 3)
        assert not any(tensor.any() for tensor in [*drawn, *gradients] if tensor is not None)


def compile_for_cuda(capability: int, kinds: int) -> dict[str, list[str]]:
    """The assembly of every kernel that drawing, its gradient and attribution launch."""
    from dofnerf.models.splat.raster import gpu, project_gpu

    given = project(random_gaussians(camera(), 40), camera(), 5.0, 0.3, backend="reference")
    names = ("attribute_kernel", "backward_kernel", "boxes_kernel", "forward_kernel", "tiles_kernel")
    kernels = compile_only(gpu, names, capability)
    kernels |= compile_only(project_gpu, ("project_backward", "project_forward"), capability)

    def one_tile_each(rows, table, reach, shifts, boxes, counts, *_):
        boxes[:] = torch.tensor([0, 0, 1])
        counts.fill_(1)

    kernels["boxes_kernel"].instead = one_tile_each
    kernels["tiles_kernel"].instead = lambda *arguments: arguments[7].zero_()
    draw(
        learning(random_gaussians(camera(), 40, kinds=kinds)), camera(), 5.0, 0.3, backend="gpu"
    ).light.sum().backward()
    projected = given._replace(table=given.table.requires_grad_())
    parts = [part._replace(radius=1.0) for part in PARTS]
    rasterise_mean([projected] * 3, parts, 5.0, 0.3, 37, 29, "gpu").light.sum().backward()
    attribute(given, torch.ones(29, 37, 2), "gpu")
    return {name: kernel.assembly for name, kernel in kernels.items()}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels run on the CUDA device instead")
@pytest.mark.parametrize(("capability", "kinds"), [(80, 4), (90, 1)])
def test_compiles_for_cuda_where_there_is_none(tmp_path: Path, capability, kinds) -> None:
    """The interpreter takes more of Python than the compiler does."""
    with new_process(TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)) as call:
        assembly = call(compile_for_cuda, capability, kinds)
    assert len(assembly) == 7
    for name, texts in assembly.items():
        assert texts and all(f".target sm_{capability}" in text for text in texts), name
        assert not any(re.search(r"\b(atom|red)\.", text) for text in texts), name  # deterministic


@on_cuda
@compiling
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("make", [random_gaussians, awkward_gaussians])
def test_agrees_on_cuda(make, style) -> None:
    for aperture, parts in ((0.0, WHOLE), (40.0, WHOLE), (10.0, PARTS)):
        case = make(camera()), aperture, parts, STYLES[style]
        assert_agree(picture_and_gradients(case, "gpu", "cuda"), case)


@compiling
def test_without_cuda_it_says_so() -> None:
    with pytest.raises(ValueError, match="the gpu backend takes float32 on CUDA"):
        draw(random_gaussians(camera()), camera(), backend="gpu")
