"""The explicit model (Eq. 6–9), a slow oracle for tiny pictures: every sample of every ray scatters over a disc of its
own.

No concentration: sample i of source ray j, of weight w on its own ray and blur radius r, sends w·c · edge(k·r − l) /
norm(r) to the target at distance l. The sum is divided by that of the weights, as in Algorithm 2. The indicator tests
the source's disc (Eq. 8 as printed compares a diameter with a squared distance).
"""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.models.base import PLAIN, Blur
from dofnerf.models.volume.weights import Shaded, ray_weights, thickness_of
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import to_display, to_linear
from dofnerf.optics.scattering.reference import normaliser
from dofnerf.optics.shapes import edge


def render_explicit(shaded: Shaded, lens: Lens, blur: Blur = PLAIN) -> Tensor:
    """The image (H, W, 3) of samples (H, W, N); time and memory are (H · W)² · N."""
    height, width, count = shaded.density.shape
    weights = ray_weights(thickness_of(shaded.density, shaded.distance)).reshape(-1, count)
    light = to_linear(shaded.colour, blur.light).reshape(-1, count, 3)
    radius = lens.coc_radius(shaded.depth).abs().reshape(-1, count)
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    place = torch.stack([column, row], dim=-1).reshape(-1, 2).to(radius)
    offset = place[None, :] - place[:, None]  # (source, target, 2)
    far = offset.norm(dim=-1)
    share = lens.shape.reach(offset[..., 0], offset[..., 1])
    spread = weights / normaliser(radius, lens.shape, "paper")
    lit, total = torch.zeros_like(light[:, 0]), torch.zeros_like(spread[:, :1])
    for i in range(count):
        sent = spread[:, None, i] * edge(share * radius[:, None, i] - far)
        lit = lit + sent.T @ light[:, i]
        total = total + sent.sum(0)[:, None]
    return to_display((lit / total).reshape(height, width, 3), blur.light)
