"""Volume rendering: densities along a ray → weights → one colour and depth (concentrate, Eq. 10–13), or layers.

Symbols. Sample i of a ray stands for `distance_i` of it, with density σ_i and colour c_i, at `depth_i` along the
optical axis. Its optical thickness is τ_i = σ_i · distance_i; it lets exp(−τ_i) through (the paper's α(r, Δ)), and its
weight is

    w_i = T_i (1 − exp(−τ_i))         T_i = exp(−Σ_{j<i} τ_j)         (Eq. 2 and 10)

The light left after the last sample goes to the last sample (NeRF's infinite last interval), so weights sum to 1. With
`opaque_end` off it is lost, and `alpha` < 1 says how much.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dofnerf.models.base import PLAIN, Blur
from dofnerf.optics import scatter, to_display, to_linear
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve

_OPAQUE = 20.0  # largest thickness; nothing is seen behind it, and sums stay exact in float32
_HIDDEN = 7.0  # thickness behind which less than a thousandth of the light remains
_NOTHING = 1e-6


class Shaded(NamedTuple):
    """A field along rays: `colour` (…, N, 3), `density`, `distance` and `depth` (…, N), near to far."""

    colour: Tensor
    density: Tensor
    distance: Tensor
    depth: Tensor


class Concentrated(NamedTuple):
    """`colour` (…, 3), `alpha` (…), `depth` (…) = Σwh/Σw (Eq. 11), `disparity` (…) = Σ(w/h)/Σw, in which blur is
    linear, and `spread` (…), the variance of disparity along the ray: 0 for a single surface, as the lens assumes."""

    colour: Tensor
    alpha: Tensor
    depth: Tensor
    disparity: Tensor
    spread: Tensor


def thickness_of(density: Tensor, distance: Tensor) -> Tensor:
    """τ (…, N), bounded."""
    return (density * distance).clamp(max=_OPAQUE)


def ray_weights(thickness: Tensor, opaque_end: bool = True) -> Tensor:
    """w (…, N) of τ (…, N)."""
    passed = torch.exp(-torch.cumsum(thickness, dim=-1))
    before = torch.nn.functional.pad(passed[..., :-1], (1, 0), value=1.0)
    weights = before * -torch.expm1(-thickness)
    return torch.cat([weights[..., :-1], before[..., -1:]], dim=-1) if opaque_end else weights


def concentrate(shaded: Shaded, opaque_end: bool = True) -> Concentrated:
    """All of a ray's light in one point (Eq. 11 and 13; scatter divides by the disc's area)."""
    thickness = thickness_of(shaded.density, shaded.distance)
    weights = ray_weights(thickness, opaque_end)
    total = weights.sum(-1).clamp(min=_NOTHING)
    share, disparities = weights / total[..., None], 1 / shaded.depth
    disparity = (share * disparities).sum(-1)
    return Concentrated(
        colour=(weights[..., None] * shaded.colour).sum(-2),
        alpha=-torch.expm1(-thickness.sum(-1)),
        depth=(share * shaded.depth).sum(-1),
        disparity=disparity,
        spread=(share * (disparities - disparity[..., None]) ** 2).sum(-1),
    )


def layer_edges(near: float, far: float, layers: int) -> Tensor:
    """`layers` + 1 disparities in equal steps, 1/far to 1/near: the bins of `concentrate_layers`."""
    if layers < 1:
        raise ValueError(f"layers must be 1 or more, found {layers}")
    return torch.linspace(1 / far, 1 / near, layers + 1)


def concentrate_layers(shaded: Shaded, edges: Tensor, opaque_end: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The same in bins of disparity with ascending `edges` (L + 1,): colour (L, …, 3), alpha and disparity (L, …).

    The farthest layer comes first, as in `optics.scatter_layers`. A layer is what a ray would see that *starts* at its
    near end, so it includes what nearer layers occlude. One layer is `concentrate`.
    """
    thickness = thickness_of(shaded.density, shaded.distance)
    opacity = -torch.expm1(-thickness)
    before = torch.cumsum(thickness, dim=-1) - thickness
    disparity = 1 / shaded.depth
    layer = torch.bucketize(disparity.detach(), edges[1:-1].to(disparity))
    if opaque_end:
        # Only where light reaches the last sample's layer: else that sample was never learned.
        hidden = (thickness.detach() * (layer > layer[..., -1:])).sum(-1, keepdim=True) > _HIDDEN
        opacity = torch.cat([opacity[..., :-1], torch.where(hidden, opacity[..., -1:], 1.0)], dim=-1)
    colours, alphas, disparities = [], [], []
    for index in range(len(edges) - 1):
        inside = layer == index
        nearer = (thickness * (layer > index)).sum(-1, keepdim=True)
        weights = inside * torch.exp(nearer - torch.where(inside, before, nearer)) * opacity
        alpha = weights.sum(-1)
        known = alpha > _NOTHING
        total = torch.where(known, alpha, 1.0)
        middle = (edges[index] + edges[index + 1]).to(disparity) / 2
        colours.append((weights[..., None] * shaded.colour).sum(-2) / total[..., None])
        disparities.append(torch.where(known, (weights * disparity).sum(-1) / total, middle))
        alphas.append((alpha * known).clamp(max=1.0))
    return torch.stack(colours), torch.stack(alphas), torch.stack(disparities)


def put_lens(colour: Tensor, at: Concentrated, lens: Lens, blur: Blur = PLAIN) -> Tensor:
    """The paper's concentrate-and-scatter: blur `colour` (H, W, 3) by the depth of `at`. Gradients reach colour, depth
    and lens."""
    disparity = 1 / at.depth if blur.blur_by == "depth" else at.disparity
    return scatter(colour, lens.coc_radius_from_disparity(disparity), lens.shape, blur.light)


def average_light(colour: Tensor, light: Curve = 2.2) -> Tensor:
    """Colours (…, K, 3) of K rays through a lens → their mean (…, 3) in linear light."""
    return to_display(to_linear(colour, light).mean(-2), light)
