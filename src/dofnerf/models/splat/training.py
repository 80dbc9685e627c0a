"""Splats: 3D Gaussians that begin on the scene's points, learn from whole photos, and move to where the error is.

A step draws one photo whole, through that photo's lens, each Gaussian blurred by its own depth. The stages mean:
*pinhole*, sharp; *patches*, the lens; *lens rays*, the lens in a few parts, whose views are averaged: nearer to a real
lens at the rims of what is out of focus, and a disc's blur rather than a bell's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dofnerf.models import Model
from dofnerf.models.base import BLURS, Group, Method, NotFinite, Outcome, Steps
from dofnerf.models.config import LensLearningConfig, RatesConfig, Stage, StepsConfig, TrainConfig
from dofnerf.models.data import TrainingData, missed
from dofnerf.models.setting import Setting
from dofnerf.models.splat.growth import Growth
from dofnerf.models.splat.model import BlurKind, SplatModel, begin_splats
from dofnerf.models.splat.sharpness import local_sharpness
from dofnerf.models.splat.start import starting_points
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens, Lens
from dofnerf.scenes import Scene

_FEWEST, _MOST = 10_000, 60_000  # Gaussians, unless asked for
_POWER, _SOFT = 0.4, 0.01  # of gradients, in `price_of_edges`


@dataclass(frozen=True)
class SplatConfig:
    """How many Gaussians, and how they learn; rates are Adam's at the start."""

    splats: int = 0
    """Gaussians in all; 0: one for every two pixels of a photo, but 10 000 at the least and 60 000 at the most."""
    degree: int = 2
    """Of the spherical harmonics by which colour depends on direction: 0 … 2; switched on one after the other."""
    blur: BlurKind = "gaussian"
    """Each Gaussian blurred by its own depth, or the picture scattered by its depth, as the paper does."""
    detail: float = 1.0
    """Weight of the squared differences between neighbouring pixels' errors, in photos that have a lens: what blur
    hides learns slowest."""
    edges: float = 0.0
    """Price of edges in the sharp picture of a photo whose lens is seen in parts: few strong ones, not many weak ones
    (see `price_of_edges`)."""
    grow: bool = True
    """Move Gaussians that are hardly seen to where the error is."""
    place_rate: float = 0.1
    """Of means, in median sizes of the Gaussians at the start. All rates fall to `rates.decay` of themselves."""
    size_rate: float = 0.04
    turn_rate: float = 0.02
    opacity_rate: float = 0.1
    colour_rate: float = 0.04
    direction_rate: float = 0.004

    def __post_init__(self) -> None:
        if self.splats < 0 or self.degree not in (0, 1, 2) or not (self.detail >= 0 and self.edges >= 0):
            raise ValueError(f"splats, detail and edges must be 0 or more and degree 0, 1 or 2, found {self}")

    def count(self, size: tuple[int, int]) -> int:
        """Gaussians for photos of `size` (height, width)."""
        return self.splats or min(max(size[0] * size[1] // 2, _FEWEST), _MOST)


class SplatSteps(Steps):
    """One photo a step, in an order that is drawn anew for each round."""

    model: SplatModel

    def __init__(
        self, data: TrainingData, model: Model, lens: LearnedLens, config: TrainConfig, workers: Workers = ALONE
    ) -> None:
        super().__init__(data, model, lens, config, workers)
        assert isinstance(config.field_config, SplatConfig)
        self.own, self.at = config.field_config, 0
        self.growth = Growth(config.steps.total) if self.own.grow else None
        to_come = config.lens.search and config.steps.total > config.steps.pinhole_steps
        self.sharpness = local_sharpness(data.photos) if to_come and config.lens.sharp_first else None

    def before(self, step: int, generator: torch.Generator) -> None:
        self.at = step

    def __call__(self, stage: Stage, generator: torch.Generator) -> Outcome:
        photo = self._next(generator)
        camera, target = self.data.cameras[photo], self.data.photos[photo]
        degree = min(self.own.degree, 5 * self.at // self.config.steps.total)
        lens, blurs, parts = None, False, 1
        if stage != "pinhole":
            lens = Lens(self.lens.aperture[photo], focus_disparity=self.lens.focus_disparity[photo])
            blurs = float(self.lens.largest_radius[photo].detach()) >= BLURS
        if stage == "lens rays" and blurs and self.own.blur == "gaussian":
            parts = self.config.steps.lens_points
        turn = float(torch.rand((), generator=generator, device=generator.device)) if parts > 1 else 0.0
        image = self.model.picture(camera, lens, self.own.blur, degree, parts, turn, self.config.lens.light).image
        off = missed(image, target)
        error = off.square().mean()
        if not bool(torch.isfinite(error.detach())):
            raise NotFinite("the splats gave a colour that is not a number")
        loss = error
        if blurs:
            loss = error + self.own.detail * (off.diff(dim=0).square().mean() + off.diff(dim=1).square().mean())
            if self.own.edges and parts > 1:
                loss = loss + self.own.edges * price_of_edges(self.model.picture(camera, degree=degree).image)
        elif lens is None and self.sharpness is not None:
            loss = (off.square() * self.sharpness[photo][..., None]).mean()
        if self.growth is not None and self.growth.looks(self.at):
            self.model.blame(camera, lens, off.detach().square().sum(-1))
        photos = None if lens is None else self.data.numbers[photo][None]
        return Outcome(loss, error.detach(), target.shape[0] * target.shape[1], photos)

    def after(self, step: int, generator: torch.Generator, adam: torch.optim.Adam) -> None:
        if self.growth is not None and self.growth.due(step):
            self.growth.move(self.model, generator, adam)

    def _next(self, generator: torch.Generator) -> int:
        """The next photo of the round; the order of a round is the model's, so that a checkpoint keeps it."""
        count = len(self.data.photos)
        if self.at % count == 0:
            self.model.order.copy_(torch.randperm(count, generator=generator, device=generator.device))
        return int(self.model.order[self.at % count])


def price_of_edges(image: Tensor) -> Tensor:
    """The mean of |∇|^0.4 over a picture (H, W, 3), all colours together: what pictures of things are like, whose
    gradients are small almost everywhere and large at a few places. Softened below 0.01, and blind above white."""
    seen = image.clamp(max=1.0)
    across, down = seen[:-1].diff(dim=1), seen[:, :-1].diff(dim=0)
    return ((across.square() + down.square()).sum(-1) + _SOFT**2).pow(_POWER / 2).mean()


class SplatMethod(Method):
    """How the trainer knows splats."""

    name, config = "splat", SplatConfig

    def preset(self, name: str) -> TrainConfig:
        lens = LensLearningConfig(
            lens_rate=0.12, together=0.004, refits=(0.1,), refit_all=False, in_focus=0.0, max_radius=48.0
        )
        steps = StepsConfig(160, 440, 640, lens_points=8)
        config = TrainConfig(
            self.name, name, 0, steps, lens, RatesConfig(decay=0.1), field_config=SplatConfig(edges=1e-3)
        )
        if name == "paper":
            raise ValueError("the preset paper is of the fields nerf and dsnerf: splats are not the paper's")
        if name == "best":
            steps = replace(steps, pinhole_steps=200, lens_steps=400, lens_ray_steps=1600, lens_points=28)
            return replace(config, steps=steps)
        return config

    def begin(self, config: TrainConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        own = config.field_config
        assert isinstance(own, SplatConfig)
        start = starting_points(scene, own.count(data.size), config.seed)
        points, colours, sizes = (torch.from_numpy(part) for part in (start.points, start.colours, start.sizes))
        model = begin_splats(points, colours, sizes, own.degree, config.lens.light, len(data.photos))
        model.notes = (start.how,)
        return model

    def like(self, config: TrainConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        own = config.field_config
        assert isinstance(own, SplatConfig)
        count = shapes["means"][0]
        return begin_splats(
            torch.zeros(count, 3),
            torch.zeros(count, 3),
            torch.ones(count),
            own.degree,
            config.lens.light,
            len(setting.photos),
        )

    def steps(
        self, data: TrainingData, model: Model, lens: LearnedLens, config: TrainConfig, workers: Workers
    ) -> Steps:
        return SplatSteps(data, model, lens, config, workers)

    def groups(self, model: Model, config: TrainConfig) -> list[Group]:
        assert isinstance(model, SplatModel) and isinstance(config.field_config, SplatConfig)
        own, total = config.field_config, config.steps.total

        def fall(step: int) -> float:
            return config.rates.decay ** (step / total)

        rates = {
            "log_scales": own.size_rate,
            "rotations": own.turn_rate,
            "opacity_logits": own.opacity_rate,
            "base": own.colour_rate,
            "directional": own.direction_rate,
        }
        places = Group("means", [model.means], lambda step: own.place_rate * float(model.unit) * fall(step))
        others = [
            Group(name, [getattr(model, name)], lambda step, rate=rate: rate * fall(step))  # type: ignore[misc]
            for name, rate in rates.items()
        ]
        return [places, *others]


METHODS = [SplatMethod()]
