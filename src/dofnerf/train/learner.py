"""All that training changes: model, lens, their optimizers, the dice, and where it stands. This is what a checkpoint
holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dofnerf.models import Model, NotFinite, Outcome, method
from dofnerf.models.config import LensLearningConfig, TrainConfig
from dofnerf.models.data import TrainingData
from dofnerf.models.setting import Setting
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens, inverse
from dofnerf.scenes import Scene
from dofnerf.train.lens_adam import LensAdam
from dofnerf.train.lens_search import apart

_EPSILON = 1e-15  # most corners of a hash grid have tiny gradients: they must count


@dataclass
class Standing:
    """How far a run is: `step` steps done in `seconds`; `caution` multiplies rates after NaN (`recoveries` times)."""

    step: int = 0
    seconds: float = 0.0
    caution: float = 1.0
    recoveries: int = 0


class Learner:
    """A model and a lens that learn. `begin` for a new run, `like` for one whose tensors are to be restored."""

    def __init__(self, config: TrainConfig, setting: Setting, model: Model, device: torch.device | str = "cpu") -> None:
        self.config, self.setting, self.device = config, setting, torch.device(device)
        self.model = model.to(self.device)
        lens = starting_lens(setting, config.lens)
        self.lens = lens.learn(config.lens.learn_aperture, config.lens.learn_focus).to(self.device)
        groups = method(config.field).groups(self.model, config)
        self.rates = [group.rate for group in groups]
        parts = [{"params": group.parameters, "name": group.name, "betas": group.betas} for group in groups]
        self.adam = torch.optim.Adam(parts, config.rates.rate, eps=_EPSILON, fused=True)
        self.lens_adam = LensAdam(self.lens)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.standing = Standing()
        self.in_focus: Tensor | None = None

    @classmethod
    def begin(
        cls, config: TrainConfig, setting: Setting, scene: Scene, data: TrainingData, device: torch.device | str = "cpu"
    ) -> Learner:
        """A new one for a scene; for a seed, the same each time."""
        with _seeded(config.seed):
            model = method(config.field).begin(config, setting, scene, data)
        return cls(config, setting, model, device)

    @classmethod
    def like(
        cls, config: TrainConfig, setting: Setting, shapes: Mapping[str, torch.Size], device: torch.device | str = "cpu"
    ) -> Learner:
        """One to restore tensors into; `shapes` are those of the model's state."""
        with _seeded(config.seed):
            model = method(config.field).like(config, setting, shapes)
        return cls(config, setting, model, device)

    def update(self, outcome: Outcome, workers: Workers = ALONE) -> Outcome:
        """One step of both optimizers; returns the outcome of the whole batch."""
        whole = _whole(outcome, workers)
        if not bool(torch.isfinite(whole.loss)):
            raise NotFinite("the loss is not a number")
        steps, standing = self.config.steps, self.standing
        loss, lens = outcome.loss, self.config.lens
        if outcome.photos is not None and lens.together and lens.share_aperture == "none":
            loss = loss + lens.together * workers.learned_once(apart(self.lens, outcome.photos))
        self.adam.zero_grad()
        loss.backward()
        workers.add_gradients(value for group in self.adam.param_groups for value in group["params"])
        for group, rate in zip(self.adam.param_groups, self.rates, strict=True):
            group["lr"] = rate(standing.step) * standing.caution
        self.adam.step()
        if outcome.photos is not None:
            with_lens = (standing.step - steps.pinhole_steps) / (steps.total - steps.pinhole_steps)
            workers.add_gradients(self.lens.parameters())
            rows = outcome.photos if lens.only_sampled else None
            self.lens_adam.step(rows, lens.lens_rate * 0.1**with_lens * standing.caution)
        standing.step += 1
        return whole

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


def _whole(outcome: Outcome, workers: Workers) -> Outcome:
    """What all processes' outcomes are together."""
    if workers.count == 1:
        return outcome._replace(loss=outcome.loss.detach())
    parts = (
        outcome.loss.detach().double(),
        outcome.error.double(),
        torch.full_like(outcome.error, outcome.rays).double(),
    )
    loss, error, rays = workers.add(torch.stack(parts))
    return Outcome(loss, error, int(rays), outcome.photos)


def starting_lens(setting: Setting, config: LensLearningConfig) -> LearnedLens:
    """Every photo's lens as it starts."""
    far, near = setting.disparities
    usual = min(config.start_blur, config.max_radius / 2) / (near - far)
    widest = 0.9 * config.max_radius / (near - far)
    known = setting.apertures or [None] * len(setting.photos)
    margin = 0.02 * (near - far)
    middle, focused = far + config.start_focus * (near - far), setting.focuses or [None] * len(setting.photos)
    return LearnedLens(
        len(setting.photos), 1 / near, inverse(far), config.max_radius, groups=setting.groups,
        aperture=[usual if aperture is None else min(aperture, widest) for aperture in known],
        focus_disparity=[middle if one is None else min(max(one, far + margin), near - margin) for one in focused],
    )  # fmt: skip


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's own dice for a while, and then as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
