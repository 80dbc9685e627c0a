"""How splats learn: 3D Gaussians that begin on the scene's points, learn from whole photos, and move to where the error
is.

A step renders one photo. Stages: *pinhole*, sharp; *lens*, through the photo's lens, each Gaussian blurred by its own
depth; *sub-apertures*, the mean of views through parts of the lens, nearer to a real lens at the rims of what is out of
focus, and with a disc's blur rather than a Gaussian's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dofnerf.models.base import BLURS, Group, Method, Model, NotFinite, Outcome, Preset, RunConfig, Steps
from dofnerf.models.data import Setting, TrainingData
from dofnerf.models.losses import gradient_loss, residual, sparse_gradient_prior
from dofnerf.models.splat.blurs import blur_model
from dofnerf.models.splat.config import SplatConfig
from dofnerf.models.splat.growth import Growth
from dofnerf.models.splat.model import SplatModel, begin_splats
from dofnerf.models.splat.sharpness import SharpnessWeights
from dofnerf.models.splat.start import starting_points
from dofnerf.optics import Lens
from dofnerf.scenes import Scene


class SplatSteps(Steps):
    """One photo a step; every round takes all photos in a new random order, kept in `memory["order"]`."""

    model: SplatModel
    config: SplatConfig

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.step = 0
        self.growth = Growth(self.config.total) if self.config.grow else None
        weighted = self.config.sharp_first and self.quantities.searches
        self.sharpness = SharpnessWeights(self.data.photos, self.data.masks) if weighted else None

    def before(self, step: int, generator: torch.Generator) -> None:
        self.step = step

    def __call__(self, stage: str, generator: torch.Generator) -> Outcome:
        photo = self._next(generator)
        camera, target = self.quantities.camera(self.data.cameras[photo], photo), self.data.photos[photo]
        degree = min(self.config.degree, 5 * self.step // self.config.total)
        lens, blurs, parts = None, False, 1
        if stage != "pinhole":
            lens = Lens(self.lens.aperture[photo], focus_disparity=self.lens.focus_disparity[photo])
            blurs = float(self.lens.largest_radius[photo].detach()) >= BLURS
        if stage == "sub-apertures" and blurs and blur_model(self.config.blur).divides:
            parts = self.config.sub_apertures
        turn = float(torch.rand((), generator=generator, device=generator.device)) if parts > 1 else 0.0
        means = self.quantities.carry(self.model.means, camera, photo)
        image = self.model.picture(camera, lens, self.config.blur, degree, parts, turn, self.light, means).image
        image = self.quantities.develop(image, photo)
        mask = self.data.mask(photo)
        off = residual(image, target, mask=mask)
        error = off.square().mean()
        if not bool(torch.isfinite(error.detach())):
            raise NotFinite("the splats gave a colour that is not a number")
        loss = error
        if blurs:
            loss = error + self.config.gradient_loss * gradient_loss(off, mask)
            if self.config.gradient_prior and parts > 1:
                sharp = self.model.picture(camera, degree=degree).image
                loss = loss + self.config.gradient_prior * sparse_gradient_prior(sharp)
        elif lens is None and self.sharpness is not None:
            loss = (off.square() * self.sharpness[photo][..., None]).mean()
        if self.growth is not None and self.growth.is_due(self.step):
            self.growth.note(self.model.error_share(camera, lens, off.detach().square().sum(-1)), self.memory)
        if mask is not None:
            error = error / mask.mean().clamp(min=1e-6)
        number = self.data.numbers[photo][None]
        rays = target.shape[0] * target.shape[1]
        return Outcome(loss, error.detach(), rays, number, None if lens is None else number, image, target)

    def after(self, step: int, generator: torch.Generator, adam: torch.optim.Adam) -> None:
        if self.growth is not None and self.growth.moves_after(step):
            self.growth.move(self.model, self.memory, generator, adam)

    def _next(self, generator: torch.Generator) -> int:
        order = self.memory["order"]
        if self.step % len(order) == 0:
            order.copy_(torch.randperm(len(order), generator=generator, device=generator.device))
        return int(order[self.step % len(order)])


class SplatMethod(Method):
    """The method for --field splat."""

    carries = True
    name, family, steps, rate_flags = "splat", "splats", SplatSteps, "--place-rate, --size-rate or --opacity-rate"

    def preset(self, name: str) -> Preset:
        if name == "paper":
            raise ValueError("the preset paper is of the fields nerf and dsnerf: splats are not the paper's")
        lens: dict[str, object] = {"lens_rate": 0.12, "refits": (0.1,), "refit_all": False, "max_radius": 48.0}
        others: dict[str, dict[str, object]] = {
            "lens": lens,
            "aperture_consistency": {"aperture_consistency": 0.004},
            "exposure": {"exposure": True},
            "pose": {"refine_poses": True},
        }
        if name == "best":
            return Preset(SplatConfig(200, 400, sub_aperture_steps=1600, sub_apertures=28), others)
        return Preset(SplatConfig(), others)

    def begin(self, config: RunConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        start = starting_points(scene, config.method.count(data.size), config.seed)
        points, colours, sizes = (torch.from_numpy(part) for part in (start.points, start.colours, start.sizes))
        model = begin_splats(points, colours, sizes, config.method.degree, config.light, _nearest(setting))
        model.notes = (start.how,)
        return model

    def like(self, config: RunConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        count = shapes["means"][0]
        places = torch.zeros(count, 3)
        return begin_splats(places, places, torch.ones(count), config.method.degree, config.light, _nearest(setting))

    def memory(self, model: SplatModel, photos: int) -> dict[str, Tensor]:
        """`order` of the photos of a round; each Gaussian's share of the `error` and its `coverage` in pixels."""
        none = torch.zeros_like(model.means[:, 0].detach())
        return {"order": torch.zeros(photos, dtype=torch.long), "error": none, "coverage": none.clone()}

    def groups(self, model: SplatModel, config: RunConfig) -> list[Group]:
        own: SplatConfig = config.method
        rates = {
            "log_scales": own.size_rate,
            "rotations": own.turn_rate,
            "opacity_logits": own.opacity_rate,
            "base": own.colour_rate,
            "directional": own.direction_rate,
        }

        def fall(step: int) -> float:
            return own.decay ** (step / own.total)

        # The unit is read at each step: a model that is being loaded does not have it yet.
        places = Group("means", [model.means], lambda step: own.place_rate * float(model.unit) * fall(step))
        others = [
            Group(name, [getattr(model, name)], lambda step, rate=rate: rate * fall(step))  # type: ignore[misc]
            for name, rate in rates.items()
        ]
        return [places, *others]


def _nearest(setting: Setting) -> float:
    """The least depth of a scene, in its units."""
    if not setting.disparities[1] > 0:
        raise ValueError(f"setting: a disparity of {setting.disparities[1]:g} at the near end")
    return 1 / setting.disparities[1]


def methods() -> list[Method]:
    return [SplatMethod()]
