"""All that training changes: field, lens, their optimizers, the dice, and where it stands. This is what a checkpoint holds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dofnerf.fields import kind
from dofnerf.optics import LearnedLens
from dofnerf.rays import Space, choose_space
from dofnerf.render import VolumeModel
from dofnerf.scenes import Scene
from dofnerf.train.config import TrainConfig
from dofnerf.train.data import aperture_groups, f_numbers
from dofnerf.train.lens_adam import LensAdam
from dofnerf.train.steps import NotFinite, Outcome

_BETAS, _EPSILON = (0.9, 0.99), 1e-15  # most corners of a hash grid have tiny gradients: they must count


@dataclass(frozen=True)
class Setting:
    """What a run is about: with the config, enough to make its field and lens again without the scene.

    Per training photo: `photos` (names), `focal` in pixels, `f_numbers` where EXIF knows, `groups` of shared apertures.
    `disparities` are those of the far and the near end of the scene's depth.
    """

    scene: str
    size: tuple[int, int]
    photos: tuple[str, ...]
    focal: tuple[float, ...]
    f_numbers: tuple[float | None, ...]
    groups: tuple[int, ...]
    disparities: tuple[float, float]
    space: Space

    @classmethod
    def of(cls, scene: Scene, config: TrainConfig, space: str = "auto") -> Setting:
        count = len(scene.train)
        cameras = [scene.camera(i) for i in scene.train]
        return cls(
            scene=scene.name,
            size=scene.size,
            photos=tuple(scene.frames[i].name for i in scene.train),
            focal=tuple(float(camera.fx) for camera in cameras),
            f_numbers=tuple(f_numbers(scene)),
            groups=tuple(aperture_groups(scene, config.lens.share_aperture) or range(count)),
            disparities=(1 / scene.far, 1 / scene.near),
            space=choose_space(cameras, scene.near, scene.far, space),  # type: ignore[arg-type]
        )


@dataclass
class Standing:
    """How far a run is: `step` steps done in `seconds`; `caution` multiplies rates after NaN (`recoveries` times)."""

    step: int = 0
    seconds: float = 0.0
    caution: float = 1.0
    recoveries: int = 0


class Learner:
    """Made for a seed, the same each time."""

    def __init__(self, config: TrainConfig, setting: Setting, device: torch.device | str = "cpu") -> None:
        self.config, self.setting, self.device = config, setting, torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            made = VolumeModel(kind(config.field), config.field_config, setting.space, config.sampling)
            far, near = setting.disparities
            lens = LearnedLens(
                len(setting.photos), 1 / near, 1 / far if far else math.inf, config.lens.max_radius, groups=setting.groups
            )
        self.model = made.to(self.device)
        self.lens = lens.learn(config.lens.learn_aperture, config.lens.learn_focus).to(self.device)
        self.adam = torch.optim.Adam(self.model.parameters(), config.rates.rate, betas=_BETAS, eps=_EPSILON, fused=True)
        self.lens_adam = LensAdam(self.lens)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.standing = Standing()
        self.in_focus: Tensor | None = None

    def update(self, outcome: Outcome) -> None:
        """One step of both optimizers."""
        if not bool(torch.isfinite(outcome.loss.detach())):
            raise NotFinite("the loss is not a number")
        steps, standing = self.config.steps, self.standing
        self.adam.zero_grad()
        outcome.loss.backward()
        rate = self.config.rates.rate_at(standing.step, steps.total)
        for group in self.adam.param_groups:
            group["lr"] = rate * standing.caution
        self.adam.step()
        if outcome.photos is not None:
            with_lens = (standing.step - steps.pinhole_steps) / (steps.total - steps.pinhole_steps)
            rows = outcome.photos if self.config.lens.only_sampled else None
            self.lens_adam.step(rows, self.config.lens.lens_rate * 0.1**with_lens * standing.caution)
        standing.step += 1

    def tensors(self) -> dict[str, Tensor]:
        """Everything, by name."""
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        found |= {f"lens.{name}": value for name, value in self.lens.state_dict().items()}
        found |= {f"lens_adam.{name}": value for name, value in self.lens_adam.state.items()}
        for index, moments in self.adam.state_dict()["state"].items():
            found |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        found["generator"] = self.generator.get_state()
        if self.in_focus is not None:
            found["in_focus"] = self.in_focus
        return {name: value.detach().cpu().contiguous() for name, value in found.items()}

    def restore(self, tensors: dict[str, Tensor], standing: Standing) -> None:
        """Take over what `tensors` gave."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

        self.model.load_state_dict(part("model."))
        self.lens.load_state_dict(part("lens."))
        for name, value in part("lens_adam.").items():
            self.lens_adam.state[name].copy_(value)
        moments: dict[int, dict[str, Any]] = {}
        for name, value in part("adam.").items():
            index, _, key = name.partition(".")
            moments.setdefault(int(index), {})[key] = value
        self.adam.load_state_dict({"state": moments, "param_groups": self.adam.state_dict()["param_groups"]})
        self.generator.set_state(tensors["generator"])
        self.in_focus = tensors["in_focus"].to(self.device) if "in_focus" in tensors else None
        self.standing = Standing(**asdict(standing))

    def healthy(self) -> bool:
        """No parameter is NaN or infinite: only such a state is worth keeping."""
        values = [*self.model.parameters(), *self.lens.parameters()]
        return all(bool(torch.isfinite(value.detach()).all()) for value in values)
