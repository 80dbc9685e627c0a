"""Occlusion-aware scatter: several depths per pixel, composited back to front.

One depth per pixel is wrong at silhouettes: a blurred near object must let the sharp background through at its rim, and a sharp
near object must not be washed over by a blurred background. Here each layer l, a picture with coverage α and a blur radius of
its own, is scattered by itself, premultiplied colour and coverage alike, both divided by the layer's Σw so that full coverage
stays full, also at the border of the picture. Then, with T the light that all nearer layers let through,

    out = Σ_l T_l · colour_l  /  Σ_l T_l · coverage_l            T_l = Π_{nearer} (1 − coverage)

The division shares out what no layer knows (a background that nothing was ever seen of). One layer of full coverage is the
plain op.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.optics.aperture import Kernel
from dofnerf.optics.light import Curve, to_display, to_linear
from dofnerf.optics.scatter import DISC, Backend, accumulate, scatter

_NOTHING = 1e-6  # coverage below which a pixel of the result is unknown


@dataclass(frozen=True)
class Layers:
    """colour (L, H, W, C) in display values, coverage `alpha` (L, H, W) 0 … 1, `disparity` (L, H, W); index 0 the farthest."""

    colour: Tensor
    alpha: Tensor
    disparity: Tensor


def scatter_layers(
    colour: Tensor,
    alpha: Tensor,
    coc_radius: Tensor,
    kernel: Kernel = DISC,
    light: Curve = 2.2,
    backend: Backend = "auto",
) -> Tensor:
    """Put a lens in front of layers (L, H, W, C), (L, H, W), (L, H, W), the farthest first → (H, W, C), gradients to all."""
    if colour.ndim != 4 or alpha.shape != colour.shape[:3] or coc_radius.shape != alpha.shape or not len(colour):
        raise ValueError(
            f"layers are colour (L, H, W, C), alpha and coc_radius (L, H, W), found "
            f"{tuple(colour.shape)}, {tuple(alpha.shape)}, {tuple(coc_radius.shape)}"
        )
    if bool((alpha < 0).any()) or bool((alpha > 1).any()):
        raise ValueError("alpha must lie between 0 and 1")
    if len(colour) == 1 and not alpha.requires_grad and bool((alpha == 1).all()):
        return scatter(colour[0], coc_radius[0], kernel, light, backend)
    cover = alpha[..., None]
    sums = accumulate(
        torch.cat([to_linear(colour, light) * cover, cover, torch.ones_like(cover)], -1), coc_radius, kernel, backend
    )
    spread = sums[..., :-1] / sums[..., -1:]
    lit = torch.zeros_like(spread[0])
    for layer in spread:
        lit = layer + (1 - layer[..., -1:].clamp(max=1)) * lit
    return to_display(lit[..., :-1] / lit[..., -1:].clamp(min=_NOTHING), light)


def split_layers(image: Tensor, disparity: Tensor, count: int, reach: int = 24) -> Layers:
    """Cut a picture (H, W, C) with disparity (H, W) into `count` layers of equal steps in disparity (blur is linear in it).

    A photo shows nothing of what near things hide, so each layer is continued behind the nearer ones, up to `reach` pixels,
    with the average of what it has around: a guess, but the eye accepts it where it comes to light, blurred or at a blurred
    rim.
    """
    if count < 1:
        raise ValueError(f"layers must be 1 or more, found {count}")
    if image.ndim != 3 or disparity.shape != image.shape[:2]:
        raise ValueError(f"disparity {tuple(disparity.shape)} does not fit a picture of {tuple(image.shape)}")
    low, high = float(disparity.min()), float(disparity.max())
    step = max((high - low) / count, 1e-12)
    index = ((disparity - low) / step).long().clamp(0, count - 1)
    picture = torch.cat([image, disparity[..., None]], dim=-1)
    colours, alphas, disparities = [], [], []
    for l in range(count):
        filled, known = _continue(picture, index == l, index > l, reach)
        colours.append(filled[..., :-1])
        disparities.append(torch.where(known, filled[..., -1], low + (l + 0.5) * step))
        alphas.append(known.to(image.dtype))
    return Layers(torch.stack(colours), torch.stack(alphas), torch.stack(disparities))


def _continue(picture: Tensor, known: Tensor, allowed: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Grow the `known` pixels of a picture (H, W, C) into the `allowed` ones, a pixel a round, by the mean of neighbours."""
    # An antialiased pixel at a silhouette has the far thing's depth and some of the near thing's colour. It must not seed the
    # growth, or the near thing leaves a ghost behind itself; it is guessed like the rest, or kept if no other seed is near.
    rim = known & (torch.nn.functional.max_pool2d(allowed[None, None].float(), 3, stride=1, padding=1)[0, 0] > 0)
    seed = known & ~rim
    room = (allowed | rim)[None, None]
    original = picture.permute(2, 0, 1)[None]
    state = torch.cat([original * seed, seed.to(picture.dtype)[None, None]], dim=1)  # the last channel says what is known
    for _ in range(reach if bool(seed.any()) else 0):
        around = torch.nn.functional.avg_pool2d(state, 3, stride=1, padding=1)
        fresh = room & (state[:, -1:] == 0) & (around[:, -1:] > 0)
        if not bool(fresh.any()):
            break
        state = torch.where(fresh, around / around[:, -1:].clamp(min=1e-6), state)
    found = state[0, -1] > 0
    values = torch.where(rim & ~found, original, state[:, :-1])
    return values[0].permute(1, 2, 0), found | rim
