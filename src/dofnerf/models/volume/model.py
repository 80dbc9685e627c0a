"""A volumetric model: field(s) in a space, and where along a ray to ask them.

The paper's way is a pair of networks: a coarse one at even samples, and a fine one at those and at as many more where
the coarse one found something; both learn. The fast way is one field and a density grid that remembers where something
was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.models.base import PLAIN, Blur, Model, View
from dofnerf.models.volume.fields import FieldKind
from dofnerf.models.volume.rays import (
    DensityGrid,
    Rays,
    Space,
    guided,
    importance,
    merge,
    samples_between,
    stratified,
)
from dofnerf.models.volume.rays.samples import SPREAD
from dofnerf.models.volume.view import march, render_view
from dofnerf.models.volume.weights import Concentrated, Shaded, concentrate, ray_weights, thickness_of
from dofnerf.optics.layers import Layers
from dofnerf.optics.lens import Lens

BEHIND = 0.5  # samples anywhere, for each one where the grid sees something


@dataclass(frozen=True)
class SamplingConfig:
    """How many samples a ray gets."""

    coarse: int = 64
    """Even samples for the coarse network of a coarse-fine pair."""
    fine: int = 64
    """Further samples for the fine network."""
    samples: int = 24
    """Samples of a field with a density grid."""
    steps: int = 64
    """Steps in which the density grid is asked along a ray."""
    grid: int = 64
    """Cells along a side of the density grid."""

    def __post_init__(self) -> None:
        if min(self.coarse, self.fine, self.samples, self.steps) < 2:
            raise ValueError(f"samples and steps must be 2 or more, found {self}")


class VolumeModel(Model):
    """Rays in; colour, depth and disparity out. `fields` are asked in turn; the last one makes the picture."""

    def __init__(self, kind: FieldKind, config: Any, space: Space, sampling: SamplingConfig | None = None) -> None:
        super().__init__()
        self.space = space
        self.sampling = sampling or SamplingConfig()
        pair = kind.sampling == "coarse-fine"
        self.fields = nn.ModuleList(kind.make(config) for _ in range(2 if pair else 1))
        self.density_grid = None if pair else DensityGrid(self.sampling.grid)

    def forward(
        self, rays: Rays, generator: torch.Generator | None = None, places: tuple[Tensor, ...] | None = None
    ) -> tuple[Concentrated, ...]:
        """Rays (…) → one Concentrated per field, the last the picture; the loss takes all. A generator jitters
        samples."""
        return tuple(concentrate(shaded) for shaded in self.shade(rays, generator, places=places))

    def places(
        self, shape: tuple[int, ...], generator: torch.Generator | None = None, device: torch.device | str = "cpu"
    ) -> tuple[Tensor, ...]:
        """All chance that `shade` needs for rays (*shape): where, between 0 and 1, each field takes its samples."""
        config = self.sampling
        counts = (config.coarse, config.fine) if self.density_grid is None else (config.samples,)
        return tuple(stratified(shape, count, generator, device) for count in counts)

    def shade(
        self,
        rays: Rays,
        generator: torch.Generator | None = None,
        only_last: bool = False,
        behind: bool = False,
        places: tuple[Tensor, ...] | None = None,
    ) -> list[Shaded]:
        """What each field says along the rays; `only_last` spares the colours that only a loss would want.

        With `behind`, more samples fall where nearer things hide them: layers want to know. `places`, if given, were
        drawn before.
        """
        config = self.sampling
        even, *further = self.places(rays.shape, generator, rays.origins.device) if places is None else places
        if self.density_grid is not None:
            grid, spread = self.density_grid.density, BEHIND if behind else SPREAD
            edges = guided(rays, self.space, grid, even, config.steps, spread=spread)
            return [self._ask(self.fields[0], rays, edges)]
        coarse = self._ask(self.fields[0], rays, even, without_colour=only_last)
        weights = ray_weights(thickness_of(coarse.density, coarse.distance))
        edges = merge(even, importance(even, weights, config.fine, targets=further[0]))
        fine = self._ask(self.fields[1], rays, edges)
        return [fine] if only_last else [coarse, fine]

    def view(self, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN) -> View:
        return render_view(self, camera, lens, blur)

    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        sharp, layers = march(self, camera, count)
        if layers is None:
            layers = Layers(sharp.colour[None], torch.ones_like(sharp.alpha)[None], sharp.disparity[None])
        return View(sharp.colour, sharp.disparity, sharp.alpha), layers

    def refresh(self, share: float = 1.0, generator: torch.Generator | None = None) -> None:
        """Bring the density grid up to date, a random `share` of its cells; to be called now and then while
        training."""
        if self.density_grid is not None:
            self.density_grid.refresh(self.fields[0].density, share, generator)  # type: ignore[arg-type]

    def _ask(self, field: nn.Module, rays: Rays, edges: Tensor, without_colour: bool = False) -> Shaded:
        samples = samples_between(rays, edges, self.space)
        points = self.space.warp(samples.points)
        if without_colour:
            density = field.density(points)  # type: ignore[operator]
            return Shaded(torch.zeros(0), density, samples.distance, samples.depth)
        colour, density = field(points, rays.view[..., None, :])
        return Shaded(colour, density, samples.distance, samples.depth)
