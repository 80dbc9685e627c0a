"""A volumetric model: one or two fields in a space, evaluated at samples along rays.

The paper's way is a pair of networks: a coarse one at even samples, and a fine one at those and at as many more where
the coarse one found weight; both learn. The fast way is one field, and a density grid that guides the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.models.base import PLAIN, Blur, Model, View
from dofnerf.models.volume.fields import FieldKind
from dofnerf.models.volume.rays.cameras import Rays, camera_rays
from dofnerf.models.volume.rays.samples import (
    SPREAD,
    DensityGrid,
    guided,
    importance,
    merge,
    samples_between,
    stratified,
)
from dofnerf.models.volume.rays.space import Space
from dofnerf.models.volume.weights import (
    Concentrated,
    Shaded,
    concentrate,
    concentrate_layers,
    layer_edges,
    put_lens,
    ray_weights,
    thickness_of,
)
from dofnerf.optics import scatter_layers
from dofnerf.optics.layers import Layers
from dofnerf.optics.lens import Lens

BEHIND = 0.5  # share of uniform samples, relative to the guided ones, if occluded things matter


@dataclass(frozen=True)
class CoarseFineConfig:
    """How many samples a ray of a coarse-fine pair of networks gets."""

    coarse: int = 64
    """Even samples for the coarse network."""
    fine: int = 64
    """Further samples for the fine network."""

    def __post_init__(self) -> None:
        if min(self.coarse, self.fine) < 2:
            raise ValueError(f"samples must be 2 or more, found {self}")


@dataclass(frozen=True)
class DensityGridConfig:
    """How many samples a ray of a field with a density grid gets."""

    samples: int = 24
    """Samples along a ray."""
    steps: int = 64
    """Steps along a ray in which the density grid is looked up."""
    grid: int = 64
    """Cells along a side of the density grid."""

    def __post_init__(self) -> None:
        if min(self.samples, self.steps) < 2:
            raise ValueError(f"samples and steps must be 2 or more, found {self}")


SamplingConfig = CoarseFineConfig | DensityGridConfig
SAMPLING: dict[str, type[SamplingConfig]] = {"coarse-fine": CoarseFineConfig, "density-grid": DensityGridConfig}


class VolumeModel(Model):
    """Fields in a `space`; the last one makes the picture. `chunk` is the number of rays in memory at once in a
    view."""

    chunk = 8192

    def __init__(self, kind: FieldKind, config: Any, space: Space, sampling: SamplingConfig | None = None) -> None:
        super().__init__()
        self.space = space
        self.sampling = sampling or SAMPLING[kind.sampling]()
        pair = isinstance(self.sampling, CoarseFineConfig)
        self.fields = nn.ModuleList(kind.make(config) for _ in range(2 if pair else 1))
        self.density_grid = None if isinstance(self.sampling, CoarseFineConfig) else DensityGrid(self.sampling.grid)

    def forward(
        self, rays: Rays, generator: torch.Generator | None = None, places: tuple[Tensor, ...] | None = None
    ) -> tuple[Concentrated, ...]:
        """Rays (…) → one Concentrated per field, for the loss; the last is the picture. A generator jitters samples."""
        return tuple(concentrate(shaded) for shaded in self.shade(rays, generator, places=places))

    def places(
        self, shape: tuple[int, ...], generator: torch.Generator | None = None, device: torch.device | str = "cpu"
    ) -> tuple[Tensor, ...]:
        """All random numbers of `shade` for rays (*shape): edges of each field's samples, 0 … 1."""
        config = self.sampling
        counts = (config.coarse, config.fine) if isinstance(config, CoarseFineConfig) else (config.samples,)
        return tuple(stratified(shape, count, generator, device) for count in counts)

    def shade(
        self,
        rays: Rays,
        generator: torch.Generator | None = None,
        only_last: bool = False,
        behind: bool = False,
        places: tuple[Tensor, ...] | None = None,
    ) -> list[Shaded]:
        """Colour and density of each field along the rays; `only_last` omits those that only the loss needs.

        `behind` puts more samples where nearer things occlude them, for layers. `places` are those of `places()`.
        """
        config = self.sampling
        even, *further = self.places(rays.shape, generator, rays.origins.device) if places is None else places
        if isinstance(config, DensityGridConfig):
            assert self.density_grid is not None
            grid, spread = self.density_grid.density, BEHIND if behind else SPREAD
            edges = guided(rays, self.space, grid, even, config.steps, spread=spread)
            return [self._evaluate(self.fields[0], rays, edges)]
        coarse = self._evaluate(self.fields[0], rays, even, without_colour=only_last)
        weights = ray_weights(thickness_of(coarse.density, coarse.distance))
        edges = merge(even, importance(even, weights, config.fine, targets=further[0]))
        fine = self._evaluate(self.fields[1], rays, edges)
        return [fine] if only_last else [coarse, fine]

    @torch.no_grad()
    def view(self, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN) -> View:
        sharp, layers = self._march(camera, blur.layers if lens else 1)
        if lens is None:
            image = sharp.colour
        elif layers is not None:
            radius = lens.coc_radius_from_disparity(layers.disparity)
            image = scatter_layers(layers.colour, layers.alpha, radius, lens.shape, blur.light)
        else:
            image = put_lens(sharp.colour, sharp, lens, blur)
        return View(image, sharp.disparity, sharp.alpha)

    @torch.no_grad()
    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        sharp, layers = self._march(camera, count)
        if layers is None:
            layers = Layers(sharp.colour[None], torch.ones_like(sharp.alpha)[None], sharp.disparity[None])
        return View(sharp.colour, sharp.disparity, sharp.alpha), layers

    def _march(self, camera: Camera, count: int) -> tuple[Concentrated, Layers | None]:
        """All rays of a camera, (H, W): concentrated, and for a `count` above 1 also in layers of depth."""
        rays = camera_rays(camera, next(self.parameters()).device).reshape(-1)
        edges = layer_edges(self.space.near, self.space.far, count).to(rays.origins.device)
        sharp_parts, layer_parts = [], []
        for first in range(0, len(rays.origins), self.chunk):
            shaded = self.shade(rays.pick(slice(first, first + self.chunk)), only_last=True, behind=count > 1)[-1]
            sharp_parts.append(concentrate(shaded))
            if count > 1:
                layer_parts.append(concentrate_layers(shaded, edges))
        size = camera.height, camera.width
        sharp = Concentrated(*(torch.cat(part).unflatten(0, size) for part in zip(*sharp_parts, strict=True)))
        if count == 1:
            return sharp, None
        return sharp, Layers(*(torch.cat(part, dim=1).unflatten(1, size) for part in zip(*layer_parts, strict=True)))

    def refresh(self, share: float = 1.0, generator: torch.Generator | None = None) -> None:
        """Update a random `share` of the density grid's cells; called regularly in training."""
        if self.density_grid is not None:
            self.density_grid.refresh(self.fields[0].density, share, generator)  # type: ignore[arg-type]

    def _evaluate(self, field: nn.Module, rays: Rays, edges: Tensor, without_colour: bool = False) -> Shaded:
        samples = samples_between(rays, edges, self.space)
        points = self.space.warp(samples.points)
        if without_colour:
            density = field.density(points)  # type: ignore[operator]
            return Shaded(torch.zeros(0), density, samples.distance, samples.depth)
        colour, density = field(points, rays.view[..., None, :])
        return Shaded(colour, density, samples.distance, samples.depth)
