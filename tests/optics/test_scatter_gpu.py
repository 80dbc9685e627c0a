"""The triton backend of scatter against the reference: interpreted, compiled, and on CUDA where there is one."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dofnerf.optics.learned import LearnedLens
from dofnerf.optics.lens import coc_radius
from dofnerf.optics.scattering import accumulate, reference, scatter
from dofnerf.optics.shapes import DISC, Blades, Norm, Shape
from without_gpu import compile_only, interpreter, new_process

pytest.importorskip("triton", reason="the gpu backend needs triton: pip install dofnerf[gpu]")

__all__ = ["interpreter"]

Kernel = tuple[Shape, Norm]
PAPER: Kernel = DISC, "paper"
UNIT: Kernel = DISC, "unit"
KERNELS = [
    (shape, norm) for shape in (DISC, Blades(5, rotation=0.3), Blades(6, rotation=1.1)) for norm in ("paper", "unit")
]
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
compiling = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="TRITON_INTERPRET is set for this process"
)


def gradients(values: Tensor, radius: Tensor, kernel: Kernel, seen: Tensor, backend: str = "gpu") -> tuple[Tensor, ...]:
    """out, ∂values and ∂radius, for the gradient `seen` of out."""
    values, radius = values.detach().requires_grad_(), radius.detach().requires_grad_()
    if backend == "gpu":
        from dofnerf.optics.scattering import gpu

        out = gpu.accumulate(values, radius, *kernel)
    else:
        out = reference.accumulate(values, radius, *kernel)
    out.backward(seen)
    assert values.grad is not None and radius.grad is not None
    return out.detach(), values.grad, radius.grad


def picture(shape: tuple[int, ...], largest: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """values, radius (a third of it 0, a third below a pixel, one pixel at the largest), and a gradient of the sum."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(shape, generator=generator)
    radius = torch.rand(shape[:-1], generator=generator)
    flat = radius.view(-1)
    flat[0::3] *= min(largest, 3.0)
    flat[1::3] = 0
    flat[-1] = largest
    return values, radius, torch.randn(shape, generator=generator)


def assert_agree(found: tuple[Tensor, ...], case: tuple[Tensor, Tensor, Tensor], kernel: Kernel) -> None:
    values, radius, seen = (tensor.double().cpu() for tensor in case)
    expected = gradients(values, radius, kernel, seen, "reference")
    for name, tolerance, a, b in zip(("out", "∂values", "∂radius"), (1e-5, 1e-4, 1e-4), found, expected, strict=True):
        assert a.dtype == torch.float32 and a.shape == b.shape
        scale = float(b.abs().max())
        assert torch.allclose(a.double().cpu(), b, rtol=tolerance, atol=tolerance * scale), name


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_agrees_with_the_reference(interpreter: Callable, kernel: Kernel) -> None:
    case = picture((1, 5, 6, 4), largest=9.0)  # larger than the picture
    assert_agree(interpreter(gradients, *case[:2], kernel, case[2]), case, kernel)


@pytest.mark.parametrize(
    ("shape", "largest", "kernel"),
    [
        ((1, 1, 1, 3), 2.5, (Blades(5, rotation=0.3), "unit")),
        ((1, 1, 1, 1), 0.0, PAPER),
        ((1, 1, 11, 3), 3.2, (Blades(6, rotation=1.1), "paper")),
        ((1, 11, 1, 3), 3.2, UNIT),
        ((2, 3, 9, 5), 1.3, (Blades(5, rotation=0.3), "paper")),  # two tiles, two pictures, two groups of channels
        ((2, 9, 3, 4), 0.0, UNIT),
    ],
    ids=str,
)
def test_odd_shapes(interpreter: Callable, shape: tuple[int, ...], largest: float, kernel: Kernel) -> None:
    case = picture(shape, largest)
    assert_agree(interpreter(gradients, *case[:2], kernel, case[2]), case, kernel)


def find_lens(image: Tensor, depth: Tensor, photo: Tensor) -> list[float]:
    """Aperture and focus depth by gradient descent through the gpu backend, from 2 and 2.9."""
    lens = LearnedLens(1, 1.5, 5.0, aperture=2.0, focus_disparity=1 / 2.9)
    optimizer = torch.optim.LBFGS(lens.parameters(), max_iter=14, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        error = (scatter(image, lens.coc_radius(depth, photo=0), backend="gpu") - photo).square().sum()
        error.backward()
        return error

    optimizer.step(loss)
    return [lens.aperture.item(), lens.focus_depth.item()]


def test_gradient_descent_finds_the_lens(interpreter: Callable) -> None:
    image = torch.rand(6, 12, 3, generator=torch.Generator().manual_seed(2))
    depth = torch.linspace(1.5, 5.0, 12).expand(6, 12).contiguous()
    photo = scatter(image, coc_radius(depth, 4.0, 1 / 2.5), backend="reference")
    aperture, focus = interpreter(find_lens, image, depth, photo)
    assert aperture == pytest.approx(4.0, rel=0.01)
    assert focus == pytest.approx(2.5, rel=0.01)


def test_one_blurred_pixel_reaches_far_tiles_and_spares_the_rest(interpreter: Callable) -> None:
    values, radius, seen = picture((1, 2, 25, 4), largest=0.0)
    radius.zero_()
    radius[0, 1, 3] = 9.5
    assert_agree(interpreter(gradients, values, radius, PAPER, seen), (values, radius, seen), PAPER)
    boxes = interpreter(boxes_of, radius)
    left_to_right = boxes[:, 3] - boxes[:, 2]  # columns of offsets less one, of the four tiles side by side
    assert left_to_right[1] > 2 and left_to_right[3] == 2  # the far tile is sharp: a source touches its neighbours only


def boxes_of(radius: Tensor) -> Tensor:
    from dofnerf.optics.scattering import gpu

    return gpu.offset_boxes(radius)


def test_runs_give_the_same_bits(interpreter: Callable) -> None:
    values, radius, seen = picture((1, 3, 4, 4), largest=2.0)
    first, second = (interpreter(gradients, values, radius, PAPER, seen) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_strided_and_empty_pictures(interpreter: Callable) -> None:
    values, radius, seen = picture((1, 4, 3, 4), largest=1.5)
    turned = values.transpose(1, 2), radius.transpose(1, 2), seen.transpose(1, 2)
    assert_agree(interpreter(gradients, *turned[:2], PAPER, turned[2]), turned, PAPER)
    for shape in ((0, 3, 3, 4), (1, 0, 3, 4), (1, 3, 3, 0)):
        ones, radius = torch.ones(shape), torch.ones(shape[:-1])
        out, by_values, by_radius = interpreter(gradients, ones, radius, UNIT, ones)
        assert out.shape == by_values.shape == shape and not by_radius.any()


def test_is_reached_through_the_public_op(interpreter: Callable) -> None:
    values, radius, _ = picture((4, 5, 3), largest=1.8)
    found = interpreter(scatter, values, -radius, DISC, 2.2, "paper", "gpu")
    assert torch.allclose(found, scatter(values, radius, backend="reference"), rtol=1e-5, atol=1e-5)


@compiling
def test_takes_only_float32_on_cuda() -> None:
    values, radius, _ = picture((1, 2, 2, 3), largest=1.0)
    with pytest.raises(ValueError, match=r"float32 on CUDA, found torch\.float32 on cpu"):
        accumulate(values, radius, backend="gpu")


def test_says_how_to_get_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    package = importlib.import_module("dofnerf.optics.scattering")  # the name is also that of its function

    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "dofnerf.optics.scattering.gpu", raising=False)
    monkeypatch.delitem(sys.modules, "dofnerf.optics.scattering.gpu_kernels", raising=False)
    monkeypatch.delitem(sys.modules, "dofnerf.optics.triton_kernels", raising=False)
    monkeypatch.delattr(package, "gpu", raising=False)
    with pytest.raises(ValueError, match=r"pip install 'dofnerf\[gpu\]'"):
        accumulate(torch.ones(2, 2, 3), torch.ones(2, 2), backend="gpu")


def compile_for_cuda() -> dict[str, list[str]]:
    """The assembly of every kernel that `accumulate` and its gradient launch."""
    from dofnerf.optics.scattering import gpu

    names = ("boxes_kernel", "forward_kernel", "backward_kernel", "lattice_sum_kernel")
    kernels = compile_only(gpu, names, 80)
    values, radius, seen = picture((1, 16, 20, 4), largest=3.0)
    gradients(values, radius, (Blades(5, rotation=0.3), "unit"), seen)
    gradients(values[:, :1, :1], radius[:, :1, :1], PAPER, seen[:, :1, :1])  # triton makes sizes of 1 constants
    return {name: kernel.assembly for name, kernel in kernels.items()}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels run on the CUDA device instead")
def test_compiles_for_cuda_where_there_is_none(tmp_path: Path) -> None:
    """The interpreter takes more of Python than the compiler does."""
    with new_process(TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)) as call:
        assembly = call(compile_for_cuda)
    assert {name: len(texts) for name, texts in assembly.items()} == {
        "boxes_kernel": 2,
        "forward_kernel": 2,
        "backward_kernel": 2,
        "lattice_sum_kernel": 1,
    }
    assert not any(re.search(r"\b(atom|red)\.", text) for texts in assembly.values() for text in texts)  # deterministic


@on_cuda
@compiling
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(
    ("shape", "largest"), [((2, 67, 93, 4), 12.0), ((1, 24, 24, 3), 40.0), ((1, 1, 301, 5), 25.0)], ids=str
)
def test_agrees_on_cuda(shape: tuple[int, ...], largest: float, kernel: Kernel) -> None:
    case = picture(shape, largest)
    values, radius, seen = (tensor.cuda() for tensor in case)
    found = gradients(values, radius, kernel, seen)
    again = gradients(values, radius, kernel, seen)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    assert_agree(found, case, kernel)
