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

_CLEAR = 4.0  # squared difference of two colours, in their variances, above which a mix of them is taken apart
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
    # Where a layer is full, as the farthest often is, its coverage is its Σw: a channel less.
    first = int(not alpha.requires_grad and bool((alpha[0] == 1).all()))
    spread = []
    if first:
        sums = accumulate(values[:1, ..., :-1], coc_radius[:1], shape, norm, backend)
        spread += [sums / sums[..., -1:]]
    if len(values) > first:
        sums = accumulate(values[first:], coc_radius[first:], shape, norm, backend)
        spread += [sums[..., :-1] / sums[..., -1:]]
    lit = torch.zeros_like(values[0, ..., :-1])
    for layer in torch.cat(spread):
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

    # A pixel at a silhouette mixes near and far, C = a·N + (1 − a)·F, on either side of the edge of the depth map. Left
    # alone, a far one would stay behind as a ghost when the near thing blurs away, and a near one would carry a rim of
    # the far thing along: all of a stalk that is no wider than its rims. So it is taken apart. F is what the far
    # layer's growth says, N the purest colour of the near layer around.
    layer = torch.arange(count, device=image.device)[:, None, None]
    front = ((nearest[0] - low) / step).long().clamp(0, count - 1)
    matte = _Matte(linear, index, silhouette, colour, alpha)
    guessed = torch.stack([known for _, known in grown]).gather(0, index[None])[0] & silhouette
    far = torch.where(guessed[..., None], _take(colour, index), linear)
    beside = linear.reshape(-1, image.shape[-1])[place[0].reshape(-1)].reshape(image.shape)
    pure, clear = matte.purest(front, far)
    share = _share(linear, far, torch.where(clear[..., None], pure, beside)).clamp(max=0.95)
    share = torch.where(share > 0.05, share, 0.0)[..., None]
    near = (far + (linear - far) / share.clamp(min=0.05)).clamp(min=0)
    far = torch.where(share > 0, ((linear - share * near) / (1 - share)).clamp(min=0), linear)

    pure, clear = matte.purest(index, matte.behind)
    farthest = -torch.nn.functional.max_pool2d(-disparity[None], 3, stride=1, padding=1)[0]
    rim = clear & matte.has_behind & (disparity - farthest > step) & ~silhouette
    least = ((matte.behind - linear) / matte.behind.clamp(min=1e-6)).amax(-1)  # with less, the near colour is below 0
    part = torch.maximum(_share(linear, matte.behind, pure), least).clamp(0.05, 1)
    part = torch.where(rim & (part < 0.95), part, 1.0)
    own = torch.where((part < 1)[..., None], matte.behind + (linear - matte.behind) / part[..., None], far)

    here = layer == index
    colour = torch.where(here[..., None], own.clamp(min=0), colour)
    alpha = torch.where(here, part, alpha)
    moved = (layer == front) & (share[..., 0] > 0)
    colour = torch.where(moved[..., None], near, colour)
    alpha = torch.where(moved, share[..., 0], alpha)
    depths = torch.where(moved, nearest[0], depths)
    return Layers(to_display(colour, light), alpha, depths)


class _Matte:
    """Colours around each pixel, layer by layer, to take mixed pixels apart. `behind` (H, W, C) is what the layers
    beyond a pixel's own show there, where `has_behind`; all in linear light."""

    def __init__(self, linear: Tensor, index: Tensor, silhouette: Tensor, colour: Tensor, alpha: Tensor) -> None:
        self.behind, self.has_behind = torch.zeros_like(linear), torch.zeros_like(silhouette)
        for l in range(len(colour)):
            beyond = (alpha[l] > 0) & (l < index)
            self.behind = torch.where(beyond[..., None], colour[l], self.behind)
            self.has_behind = self.has_behind | beyond
        purity = (linear - self.behind).square().sum(-1).square()  # a high power: close to the purest of all
        purity = torch.where(self.has_behind, purity, 1.0) + 1e-9
        self.near, self.near_variance = self._around(linear, index, purity, len(colour), 5)
        plain = (~silhouette).to(linear.dtype)
        _, self.far_variance = self._around(linear, index, plain, len(colour), 7)

    @staticmethod
    def _around(linear: Tensor, index: Tensor, weight: Tensor, count: int, size: int) -> tuple[Tensor, Tensor]:
        """Weighted mean (L, H, W, C) and variance (L, H, W) of each layer's own pixels in a window; infinite for
        none."""
        layer = torch.arange(count, device=linear.device)[:, None, None]
        held = (weight * (layer == index))[:, None]
        square = linear.square().sum(-1)
        values = torch.cat([linear.permute(2, 0, 1), square[None], torch.ones_like(square)[None]])
        sums = torch.nn.functional.avg_pool2d(held * values, size, stride=1, padding=size // 2)
        known = sums[:, -1] > 1e-12
        mean = sums[:, :-2] / sums[:, -1:].clamp(min=1e-12)
        variance = sums[:, -2] / sums[:, -1].clamp(min=1e-12) - mean.square().sum(1)
        return mean.permute(0, 2, 3, 1), torch.where(known, variance.clamp(min=0), torch.inf)

    def purest(self, index: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
        """The purest colour (H, W, C) of the layers of `index` around, and whether it differs clearly from `far`, by
        more than either varies."""
        near, variance = _take(self.near, index), self.near_variance.gather(0, index[None])[0]
        layer = torch.arange(len(self.near), device=index.device)[:, None, None]
        beyond = torch.where((layer < index) & self.far_variance.isfinite(), self.far_variance, 0.0).amax(0)
        return near, (near - far).square().sum(-1) > _CLEAR * (variance + beyond)


def _take(layers: Tensor, index: Tensor) -> Tensor:
    """(L, H, W, C) at the layers (H, W) → (H, W, C)."""
    return layers.gather(0, index[None, ..., None].expand(1, *layers.shape[1:]))[0]


def _share(linear: Tensor, far: Tensor, near: Tensor) -> Tensor:
    """How much of each colour is near, where it is a mix of `near` and `far` (H, W, C): (H, W), 0 … 1."""
    along = near - far
    return (((linear - far) * along).sum(-1) / (along * along).sum(-1).clamp(min=1e-4)).clamp(0, 1)


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
