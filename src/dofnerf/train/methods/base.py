"""The contract between the trainer and a field: how a model of some kind begins, loads and learns.

The trainer knows stages, lens, checkpoints and runs. A `Method` makes a `render.Model` and the `Steps` by which it
learns, and says at which rates; the trainer asks for nothing else. So a field need not be volumetric, nor keep the
number of parameters that it began with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dofnerf.models import Model
from dofnerf.optics import LearnedLens
from dofnerf.scenes import Scene
from dofnerf.train.config import Stage, TrainConfig
from dofnerf.train.data import TrainingData
from dofnerf.train.setting import Setting
from dofnerf.train.workers import ALONE, Workers


class NotFinite(ArithmeticError):
    """The field gave NaN or infinity."""


class Outcome(NamedTuple):
    """A step's `loss`, the mean squared `error` of its pixels (a scalar tensor), how many `rays`, and `photos` whose
    lens it saw (None: no lens).

    Of several processes each returns its share: losses and errors add up to those of the batch, and so do rays;
    `photos` are those of the whole batch.
    """

    loss: Tensor
    error: Tensor
    rays: int
    photos: Tensor | None = None


class Group(NamedTuple):
    """Parameters that Adam moves alike: `rate` is their learning rate at a step (from 0)."""

    name: str
    parameters: list[nn.Parameter]
    rate: Callable[[int], float]
    betas: tuple[float, float] = (0.9, 0.99)


class Steps(ABC):
    """Learning on one scene, step by step. `in_focus` (M, h, w) of 0 and 1, if set, tells where photos are in focus (h,
    w: any size). All that must outlive a checkpoint belongs into the model's state, as a buffer if it does not
    learn."""

    in_focus: Tensor | None = None

    def __init__(
        self, data: TrainingData, model: Model, lens: LearnedLens, config: TrainConfig, workers: Workers = ALONE
    ) -> None:
        self.data, self.model, self.lens, self.config, self.workers = data, model, lens, config, workers

    @abstractmethod
    def __call__(self, stage: Stage, generator: torch.Generator) -> Outcome:
        """A batch in, a loss out. All chance comes from the generator; NotFinite if the field fell apart."""

    def before(self, step: int, generator: torch.Generator) -> None:  # noqa: B027
        """Called before each step, the first is 0."""

    def after(self, step: int, generator: torch.Generator, adam: torch.optim.Adam) -> None:  # noqa: B027
        """Called when the step has moved everything; its gradients are still there.

        Here a model may grow: whoever puts other parameters in place of the model's puts them into the same group of
        `adam` too, and their moments into `adam.state`.
        """


class Method(ABC):
    """How the trainer knows a field: its `name` for --field and the dataclass `config` that is
    `TrainConfig.field_config`.

    `divides` says that its steps share a batch out among their `workers`.
    """

    name: str
    config: type
    divides: bool = False

    @abstractmethod
    def preset(self, name: str) -> TrainConfig:
        """The whole configuration for "fast", "best" or "paper"."""

    @abstractmethod
    def begin(self, config: TrainConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        """A new model for a scene; torch is seeded. Called once in the life of a run."""

    @abstractmethod
    def like(self, config: TrainConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        """A model to load a checkpoint into, whose state has these `shapes` by name; only their lengths are free, what
        else they say is not to be trusted. Also called on the meta device, to compare before memory is spent."""

    @abstractmethod
    def steps(
        self, data: TrainingData, model: Model, lens: LearnedLens, config: TrainConfig, workers: Workers
    ) -> Steps:
        """How the model learns."""

    def groups(self, model: Model, config: TrainConfig) -> list[Group]:
        """What learns, at which rates: everything, at that of the config, if nobody says otherwise."""
        return [Group("field", list(model.parameters()), lambda step: config.rates.rate_at(step, config.steps.total))]
