"""All that training changes: model, photo quantities, their optimisers, the random generator and the progress. This is
what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dofnerf.models import Model, NotFinite, Outcome, method
from dofnerf.models.adam import Adam
from dofnerf.models.data import Setting, TrainingData
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens
from dofnerf.optics.shapes import RealLens
from dofnerf.scenes import Scene
from dofnerf.train.config import TrainConfig
from dofnerf.train.losses import losses
from dofnerf.train.photos import PhotoQuantities, PhotoQuantity
from dofnerf.train.photos.base import TRIAL
from dofnerf.train.row_adam import RowAdam

_EPSILON = 1e-15  # most corners of a hash grid have tiny gradients: they must count


@dataclass
class Progress:
    """How far a run is: `step` steps done in `seconds`; after NaN (`recoveries` times), `rate_scale` multiplies all
    learning rates."""

    step: int = 0
    seconds: float = 0.0
    rate_scale: float = 1.0
    recoveries: int = 0


class Learner:
    """A model and photo quantities that learn. `begin` for a new run, `like` for one whose tensors are to be
    restored."""

    def __init__(self, config: TrainConfig, setting: Setting, model: Model, device: torch.device | str = "cpu") -> None:
        self.config, self.setting, self.device = config, setting, torch.device(device)
        self.model = model.to(self.device)
        own, by = config.method, method(config.field)
        searches = config.lens.search and own.total > own.pinhole_steps
        self.quantities = PhotoQuantities(config.quantities, setting, config.light, searches).to(self.device)
        self.losses = [losses.get(name)(one) for name, one in config.losses.items()]
        memory = by.memory(self.model, len(setting.photos))
        self.memory = {name: value.to(self.device) for name, value in memory.items()}
        groups = by.groups(self.model, config)
        self.rates = [group.rate for group in groups]
        parts = [{"params": group.parameters, "name": group.name, "betas": group.betas} for group in groups]
        self.adam = Adam(parts, eps=_EPSILON)
        self.row_adams = {name: RowAdam(one) for name, one in self.quantities.by_name.items()}
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.progress = Progress()
        self.settled: dict[str, Tensor] = {}
        self.in_focus: Tensor | None = None
        self.precision: Tensor | None = None  # see precision.py; known at the end

    @classmethod
    def begin(
        cls, config: TrainConfig, setting: Setting, scene: Scene, data: TrainingData, device: torch.device | str = "cpu"
    ) -> Learner:
        """A new one for a scene; for a seed, the same each time. The scene's cameras may be better than those of
        `data`, which are as given."""
        with _seeded(config.seed):
            model = method(config.field).begin(config, setting, scene, data)
        learner = cls(config, setting, model, device)
        for name, quantity in learner.quantities.by_name.items():
            quantity.begin(data.cameras, [scene.camera(i) for i in scene.train])
            if quantity.look(scene, data, config.light):
                learner._settle(name, quantity, keep=False)
        return learner

    @classmethod
    def like(
        cls, config: TrainConfig, setting: Setting, shapes: Mapping[str, torch.Size], device: torch.device | str = "cpu"
    ) -> Learner:
        """One to restore tensors into; `shapes` are those of the model's state."""
        with _seeded(config.seed):
            model = method(config.field).like(config, setting, shapes)
        return cls(config, setting, model, device)

    @property
    def lens(self) -> LearnedLens:
        return self.quantities.lens

    def update(self, outcome: Outcome, workers: Workers = ALONE) -> Outcome:
        """One step of all optimisers; returns the outcome of the whole batch."""
        own, progress = self.config.method, self.progress
        self.adam.zero_grad()
        for one in self.quantities.by_name.values():
            one.zero_grad()
        if bool(torch.isfinite(outcome.loss.detach())):
            self._with_losses(outcome, workers).backward()
        whole = self._added(outcome, workers)
        if not bool(torch.isfinite(whole.loss)):
            raise NotFinite("the loss is not a number")
        for group, rate in zip(self.adam.param_groups, self.rates, strict=True):
            group["lr"] = rate(progress.step) * progress.rate_scale
        self.adam.step()
        for name, quantity in self.quantities.by_name.items():
            photos = outcome.through_lens if quantity.uses_lens else outcome.photos
            if photos is not None and self.row_adams[name].state:
                before = own.pinhole_steps if quantity.uses_lens else 0
                share = (progress.step - before) / (own.total - before)
                if name not in self.settled and share >= TRIAL:
                    self._settle(name, quantity, keep=not quantity.is_negligible())
                rows = photos if quantity.only_sampled else None
                if bool(self.settled.get(name, True)):
                    self.row_adams[name].step(rows, quantity.rate(share) * progress.rate_scale)
        progress.step = own.together(progress.step).stop
        return whole

    def _with_losses(self, outcome: Outcome, workers: Workers) -> Tensor:
        """This process's share of the loss with all that is added to it."""
        loss = outcome.loss
        for one in self.losses:
            for part in (outcome,) if one.of_parameters else outcome.parts or (outcome,):
                term = one(part, self)
                if term is not None:
                    loss = loss + (workers.learned_once(term) if one.of_parameters else part.share * term)
        return loss

    def _added(self, outcome: Outcome, workers: Workers) -> Outcome:
        """The outcomes and gradients of all processes together, in one message."""
        if workers.count == 1:
            return outcome._replace(loss=outcome.loss.detach())
        learning = [value for group in self.adam.param_groups for value in group["params"]]
        learning += [value for one in self.quantities.by_name.values() for value in one.parameters()]
        own = torch.stack([outcome.loss.detach(), outcome.error, torch.full_like(outcome.error, outcome.rays)])
        loss, error, rays = workers.add_gradients(learning, own)
        return outcome._replace(loss=loss, error=error, rays=int(rays))

    def _settle(self, name: str, quantity: PhotoQuantity, keep: bool) -> None:
        """Learn a quantity on, or undo one of which no photo has any to speak of: it would only add noise."""
        self.settled[name] = torch.tensor(keep)
        if not self.settled[name]:
            self.quantities.undone.add(name)
            for value in quantity.parameters():
                value.data.zero_()

    def tensors(self) -> dict[str, Tensor]:
        """Everything, by name."""
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for kind, quantity in self.quantities.by_name.items():
            found |= {f"{kind}.{name}": value for name, value in quantity.state_dict().items()}
            found |= {f"{kind}_adam.{name}": value for name, value in self.row_adams[kind].state.items()}
        for index, moments in self.adam.state_of().items():
            found |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        found |= {f"memory.{name}": value for name, value in self.memory.items()}
        found |= {f"settled.{name}": value for name, value in self.settled.items()}
        found["generator"] = self.generator.get_state()
        if self.in_focus is not None:
            found["in_focus"] = self.in_focus
        if self.precision is not None:
            found["precision"] = self.precision
        if isinstance(self.lens.shape, RealLens):
            found["character"] = self.lens.shape.tensor()
        return {name: value.detach().cpu().contiguous() for name, value in found.items()}

    def restore(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        """Take over what `tensors` gave."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

        self.model.load_state_dict(part("model."))
        for kind, quantity in self.quantities.by_name.items():
            quantity.load_state_dict(part(f"{kind}."))
            for name, value in part(f"{kind}_adam.").items():
                self.row_adams[kind].state[name].copy_(value)
        moments: dict[int, dict[str, Any]] = {}
        for name, value in part("adam.").items():
            index, _, key = name.partition(".")
            moments.setdefault(int(index), {})[key] = value
        self.adam.restore(moments)
        for name, value in part("memory.").items():
            self.memory[name].copy_(value)
        self.settled = part("settled.")
        self.quantities.undone = {name for name, one in self.settled.items() if not one}
        self.generator.set_state(tensors["generator"])
        self.in_focus = tensors["in_focus"].to(self.device) if "in_focus" in tensors else None
        self.precision = tensors.get("precision")
        if "character" in tensors:
            self.lens.shape = RealLens.of(tensors["character"])
        self.progress = progress

    def healthy(self) -> bool:
        """No parameter is NaN or infinite: only such a state is worth keeping."""
        values = [*self.model.parameters(), *(p for one in self.quantities.by_name.values() for p in one.parameters())]
        return all(bool(torch.isfinite(value.detach()).all()) for value in values)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's global generator seeded for a while, and then as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
