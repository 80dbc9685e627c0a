"""Occlusion-aware scatter: several depths per pixel, composited back to front.

One depth per pixel is wrong at silhouettes: a blurred near object must let the sharp background through at its rim, and
a sharp near object must not be washed over by a blurred background. Here each layer l, a picture with coverage α and a
blur radius of its own, is scattered by itself, premultiplied colour and coverage alike, both divided by the layer's Σw
so that full coverage stays full, also at the border of the picture. Then, with T the light that all nearer layers let
through,

    out = Σ_l T_l · colour_l  /  Σ_l T_l · coverage_l            T_l = Π_{nearer} (1 − coverage)

The division shares out what no layer knows (a background that nothing was ever seen of). One layer of full coverage is
the plain op.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dofnerf.optics.light import Curve, to_display, to_linear
from dofnerf.optics.scattering import Backend, accumulate, scatter
from dofnerf.optics.shapes import DISC, Norm, Shape

_NOTHING = 1e-6  # coverage below which a pixel of the result is unknown


@dataclass(frozen=True)
class Layers:
    """colour (L, H, W, C) in display values, coverage `alpha` (L, H, W) 0 … 1, `disparity` (L, H, W); index 0 the
    farthest."""

    colour: Tensor
    alpha: Tensor
    disparity: Tensor


def scatter_layers(
    colour: Tensor,
    alpha: Tensor,
    coc_radius: Tensor,
    shape: Shape = DISC,
    light: Curve = 2.2,
    norm: Norm = "paper",
    backend: Backend = "auto",
) -> Tensor:
    """Put a lens in front of layers (L, H, W, C), (L, H, W), (L, H, W), the farthest first → (H, W, C), gradients to
    all."""
    if colour.ndim != 4 or alpha.shape != colour.shape[:3] or coc_radius.shape != alpha.shape or not len(colour):
        raise ValueError(
            f"layers are colour (L, H, W, C), alpha and coc_radius (L, H, W), found "
            f"{tuple(colour.shape)}, {tuple(alpha.shape)}, {tuple(coc_radius.shape)}"
        )
    if bool((alpha < 0).any()) or bool((alpha > 1).any()):
        raise ValueError("alpha must lie between 0 and 1")
    if len(colour) == 1 and not alpha.requires_grad and bool((alpha == 1).all()):
        return scatter(colour[0], coc_radius[0], shape, light, norm, backend)
    cover = alpha[..., None]
    values = torch.cat([to_linear(colour, light) * cover, cover, torch.ones_like(cover)], -1)
    sums = accumulate(values, coc_radius, shape, norm, backend)
    spread = sums[..., :-1] / sums[..., -1:]
    lit = torch.zeros_like(spread[0])
    for layer in spread:
        lit = layer + (1 - layer[..., -1:].clamp(max=1)) * lit
    return to_display(lit[..., :-1] / lit[..., -1:].clamp(min=_NOTHING), light)


def split_layers(image: Tensor, disparity: Tensor, count: int, reach: int = 24, light: Curve = 2.2) -> Layers:
    """Cut a picture (H, W, C) with disparity (H, W) into `count` layers of equal steps in disparity (blur is linear in
    it).

    A photo shows nothing of what near things hide, so each layer is continued behind the nearer ones, up to `reach`
    pixels, with the average of what it has around: a guess, but the eye accepts it where it comes to light, blurred or
    at a blurred rim. Unblurred, the layers give the picture back.
    """
    if count < 1:
        raise ValueError(f"layers must be 1 or more, found {count}")
    if image.ndim != 3 or disparity.shape != image.shape[:2]:
        raise ValueError(f"disparity {tuple(disparity.shape)} does not fit a picture of {tuple(image.shape)}")
    if not bool(torch.isfinite(disparity).all()):
        raise ValueError("disparity holds NaN or infinity")
    linear = to_linear(image, light)
    low, high = float(disparity.min()), float(disparity.max())
    step = max((high - low) / count, 1e-12)
    index = ((disparity - low) / step).long().clamp(0, count - 1)
    nearest, place = torch.nn.functional.max_pool2d(disparity[None], 3, stride=1, padding=1, return_indices=True)
    silhouette = nearest[0] - disparity > step  # beside something nearer by more than a layer: no slanted surface
    picture = torch.cat([linear, disparity[..., None]], dim=-1)
    grown = [
        _continue(picture, (index == l) & ~silhouette, (index > l) | ((index == l) & silhouette), reach)
        for l in range(count)
    ]
    alpha = torch.stack([known | (index == l) for l, (_, known) in enumerate(grown)]).to(image.dtype)
    colour = torch.stack([values[..., :-1] for values, _ in grown])
    middle = low + (torch.arange(count, device=image.device) + 0.5)[:, None, None] * step
    depths = torch.stack([torch.where(known, values[..., -1], middle[l]) for l, (values, known) in enumerate(grown)])
    depths.scatter_(0, index[None], disparity[None])

    # An antialiased pixel at a silhouette has the depth of the far thing and some of the colour of the near one. Left
    # alone it would stay behind as a ghost when the near thing blurs away. So it is taken apart, C = a·N + (1 − a)·F,
    # where F is what the far layer's growth says and N the near neighbour, and a share a of it moves to the near layer.
    guessed = torch.stack([known for _, known in grown]).gather(0, index[None])[0] & silhouette
    far = torch.where(guessed[..., None], colour.gather(0, index[None, ..., None].expand(1, *image.shape))[0], linear)
    near = linear.reshape(-1, image.shape[-1])[place[0].reshape(-1)].reshape(image.shape)
    along = near - far
    share = (((linear - far) * along).sum(-1) / (along * along).sum(-1).clamp(min=1e-4)).clamp(0, 0.95)
    share = torch.where(share > 0.05, share, 0.0)[..., None]
    near = (far + (linear - far) / share.clamp(min=0.05)).clamp(min=0)
    far = torch.where(share > 0, ((linear - share * near) / (1 - share)).clamp(min=0), linear)
    colour.scatter_(0, index[None, ..., None].expand(1, *image.shape), far[None])
    front = ((nearest[0] - low) / step).long().clamp(0, count - 1)
    moved = (torch.arange(count, device=image.device)[:, None, None] == front) & (share[..., 0] > 0)
    colour = torch.where(moved[..., None], near, colour)
    alpha = torch.where(moved, share[..., 0], alpha)
    depths = torch.where(moved, nearest[0], depths)
    return Layers(to_display(colour, light), alpha, depths)


def _continue(picture: Tensor, known: Tensor, allowed: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Grow the `known` pixels of a picture (H, W, C) into the `allowed` ones, a pixel a round, by the mean of
    neighbours.

    Returns the picture, zero where nothing is known, and what is known in the end.
    """
    state = torch.cat([picture * known[..., None], known[..., None].to(picture.dtype)], dim=-1).permute(2, 0, 1)[None]
    for _ in range(reach if bool(known.any()) else 0):
        around = torch.nn.functional.avg_pool2d(state, 3, stride=1, padding=1)
        fresh = allowed & (state[:, -1:] == 0) & (around[:, -1:] > 0)
        if not bool(fresh.any()):
            break
        state = torch.where(fresh, around / around[:, -1:].clamp(min=1e-6), state)
    return state[0, :-1].permute(1, 2, 0), state[0, -1] > 0
