"""The lens in a renderer of one's own: learn a scene, and the aperture and focus of each photo, from blurred photos.

The renderer here is a textured height field; any that gives colour and depth with gradients would do.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from dofnerf import LearnedLens, Lens, scatter


class HeightField(nn.Module):
    """A texture (S, S, 3), which learns, on a surface that falls away from depth 2 to depth 6, left to right."""

    def __init__(self, texture: Tensor) -> None:
        super().__init__()
        self.texture = nn.Parameter(texture)
        self.depth = 1 / torch.linspace(1 / 2, 1 / 6, len(texture)).expand(len(texture), -1)

    def forward(self, turned: int) -> tuple[Tensor, Tensor]:
        """Colour (S, S, 3) and depth (S, S) for a camera that is turned by so many quarters."""
        return self.texture.rot90(turned), self.depth.rot90(turned)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    world = HeightField(torch.rand(args.size, args.size, 3))
    true = [Lens(15.0, 2.2), Lens(18.0, 4.8), Lens(12.0, 2.6), Lens(20.0, 5.5)]  # of four photos, half near, half far
    with torch.no_grad():
        views = [world(i) for i in range(4)]
        photos = [scatter(sharp, lens.coc_radius(depth)) for (sharp, depth), lens in zip(views, true, strict=True)]
    model = HeightField(torch.full_like(world.texture, 0.5))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    lens = LearnedLens(num_photos=len(photos), near=2.0, far=6.0)
    optimizer.add_param_group({"params": lens.parameters(), "lr": 5e-2})
    for step in range(args.steps):
        i = step % len(photos)
        sharp, depth = model(i)
        loss = (scatter(sharp, lens.coc_radius(depth, photo=i)) - photos[i]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for i, one in enumerate(true):
        found = lens.lens(i)
        print(f"photo {i}: aperture {found.aperture:.2f} (true {one.aperture}),", end=" ")
        print(f"focus at {found.focus_depth:.2f} (true {one.focus_depth})")


if __name__ == "__main__":
    main()
