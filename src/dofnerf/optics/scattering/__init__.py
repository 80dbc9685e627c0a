"""One public op, three backends: every pixel spreads over its blur disc."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from dofnerf.optics.light import Curve, to_display, to_linear
from dofnerf.optics.scattering import reference
from dofnerf.optics.shapes import DISC, Norm, Shape

Backend = Literal["auto", "reference", "cpu", "gpu"]

LARGEST = 16384.0  # pixels; a larger blur is a mistake in units, and would only cost time


def scatter(
    radiance: Tensor,
    coc_radius: Tensor,
    shape: Shape = DISC,
    light: Curve = 2.2,
    norm: Norm = "paper",
    backend: Backend = "auto",
) -> Tensor:
    """Put a lens in front of a picture (Eq. 14, Algorithm 2): out_j = Σ_i w_ij C_i / Σ_i w_ij, in linear light.

    radiance (…, H, W, C) in display values of the curve `light` (1: already linear), coc_radius (…, H, W) in pixels,
    signed or not → (…, H, W, C). `norm` divides the weights: "paper" by r² + 0.2 (a disc's weights then sum to 1.9 …
    3.5), "unit" by their own sum, so that every source spreads exactly the light it has. Gradients reach both. Where
    every radius is 0 the picture comes back bit for bit.
    """
    _check(radiance, coc_radius)
    if not bool(coc_radius.any()):
        return radiance + 0 * coc_radius[..., None] if coc_radius.requires_grad else radiance.clone()
    linear = to_linear(radiance, light)
    lit = accumulate(torch.cat([linear, torch.ones_like(linear[..., :1])], dim=-1), coc_radius, shape, norm, backend)
    return to_display(lit[..., :-1] / lit[..., -1:], light)


def accumulate(
    values: Tensor, coc_radius: Tensor, shape: Shape = DISC, norm: Norm = "paper", backend: Backend = "auto"
) -> Tensor:
    """The bare sum out_j = Σ_i w_ij values_i: (…, H, W, C), (…, H, W) → (…, H, W, C). The unit norm keeps the light.

    Light from in front of the focal plane (negative radius) has not crossed yet when it meets the sensor, light from
    behind has: the one blurs to the aperture's shape turned by half. It shows with an odd number of blades.
    """
    _check(values, coc_radius)
    height, width, channels = values.shape[-3:]
    flat = values.reshape(-1, height, width, channels)
    signed = coc_radius.expand(values.shape[:-1]).reshape(-1, height, width)
    radius = signed.abs()
    largest = float(radius.detach().max()) if radius.numel() else 0.0
    if not largest <= LARGEST:  # NaN too
        raise ValueError(f"coc_radius reaches {largest:g} pixels: check the units of aperture, focus and depth")
    if norm not in ("paper", "unit"):
        raise ValueError(f"norm must be 'paper' or 'unit', found {norm!r}")
    run = _backend(backend, flat, shape)
    in_front = signed.detach() < 0
    if not shape.is_symmetric and bool(in_front.any()):
        front = flat * in_front[..., None]
        out = run(flat - front, radius, shape, norm) + run(front, radius, shape.flipped(), norm)
    else:
        out = run(flat, radius, shape, norm)
    return out.reshape(values.shape)


def _backend(name: Backend, values: Tensor, shape: Shape) -> Callable[[Tensor, Tensor, Shape, Norm], Tensor]:
    if name == "auto":
        name = choose_backend(values, shape)
    if name == "reference":
        return reference.accumulate
    if name == "cpu":
        if values.device.type != "cpu" or values.dtype != torch.float32:
            raise ValueError(f"the cpu backend takes float32 on the CPU, found {values.dtype} on {values.device}")
        from dofnerf.optics.scattering import cpu

        return cpu.accumulate
    if name == "gpu":
        from dofnerf.optics.scattering import gpu

        return gpu.accumulate
    raise ValueError(f"backend must be auto, reference, cpu or gpu, found {name!r}")


def choose_backend(values: Tensor, shape: Shape = DISC) -> Backend:
    """What "auto" means: numba on the CPU, triton on CUDA; plain PyTorch for other tensors and shapes without sides."""
    if shape.sides() is None:
        return "reference"
    if values.dtype == torch.float32 and values.device.type == "cpu":
        return "cpu"
    if values.dtype == torch.float32 and values.device.type == "cuda" and find_spec("triton") is not None:
        return "gpu"
    return "reference"


def _check(values: Tensor, coc_radius: Tensor) -> None:
    if values.ndim < 3:
        raise ValueError(f"a picture has the shape (…, H, W, C), found {tuple(values.shape)}")
    if 0 in values.shape[-3:]:
        raise ValueError(f"a picture has at least one pixel and one channel, found {tuple(values.shape)}")
    wanted, found = values.shape[:-1], coc_radius.shape
    padded = (1,) * (len(wanted) - len(found)) + tuple(found)
    if (
        found[-2:] != wanted[-2:]
        or len(padded) != len(wanted)
        or any(f not in (1, w) for f, w in zip(padded, wanted, strict=True))
    ):
        raise ValueError(f"coc_radius {tuple(found)} does not fit a picture of {tuple(values.shape)}")
    if not values.is_floating_point() or values.dtype != coc_radius.dtype or values.device != coc_radius.device:
        raise ValueError(
            f"picture and coc_radius must be floats of one type on one device, found {values.dtype} on {values.device} "
            f"and {coc_radius.dtype} on {coc_radius.device}"
        )
    for name, tensor in (("picture", values), ("coc_radius", coc_radius)):
        # The sum is quicker, and finite only if all are.
        if not math.isfinite(float(tensor.detach().sum())) and not bool(torch.isfinite(tensor.detach()).all()):
            where = tuple(int(i) for i in (~torch.isfinite(tensor)).nonzero()[0])
            raise ValueError(f"the {name} holds NaN or infinity, first at index {where}")
