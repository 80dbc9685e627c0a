"""What a model is, whatever the scene is made of: camera + optional lens in → image, disparity, alpha out.

Volumetric fields march along rays, splats are drawn; nobody who asks for a view needs to know. A model is a torch
module: its parameters learn, and its state (parameters and buffers) is all that a checkpoint keeps of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve

if TYPE_CHECKING:
    from dofnerf.files.ply import Splats
    from dofnerf.models.config import Stage, TrainConfig
    from dofnerf.models.data import TrainingData
    from dofnerf.models.setting import Setting
    from dofnerf.scenes import Scene

BLURS = 0.5  # pixels of blur radius: with less a photo is sharp, and the aperture has almost no gradient


@dataclass(frozen=True)
class Blur:
    """How the blur of a lens is made.

    `layers` 1 is the paper's blur, more are right at occlusions too; `light` is the curve between display values and
    linear light, in which blur adds up. `blur_by` is the depth that counts in one layer: the mean of depth (the paper's
    Eq. 11) or of disparity.
    """

    layers: int = 1
    light: Curve = 2.2
    blur_by: Literal["depth", "disparity"] = "disparity"


PLAIN = Blur()


class View(NamedTuple):
    """`image` (H, W, 3) in display values (lamps may be beyond 1), `disparity` (H, W) and `alpha` (H, W) of the sharp
    view."""

    image: Tensor
    disparity: Tensor
    alpha: Tensor


class Model(nn.Module, ABC):
    """What training changes and a run shows. `notes` say what a person should know about how it began."""

    notes: tuple[str, ...] = ()
    is_quick: ClassVar[bool] = False  # whether a viewer need not draw it in strips, and in steps of detail

    @abstractmethod
    def view(self, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN) -> View:
        """The picture that a camera takes, sharp or through a lens, on the model's device; without gradients."""

    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        """The sharp view, and the same cut into `count` layers by depth, the farthest first; without gradients.

        `optics.scatter_layers` puts any lens before them, without asking the model again. A model that can say what
        near things hide does so; this one guesses from what is around.
        """
        sharp = self.view(camera)
        return sharp, split_layers(sharp.image, sharp.disparity, count)

    def quick_view(self, camera: Camera, lens: Lens, light: Curve) -> View | None:
        """A blurred picture about as quick as a sharp one, whose disparity and alpha may be blurred too; None if the
        model has no such way for this lens."""
        return None

    def warm_up(self, camera: Camera) -> None:
        """Use once what training uses only now and then, so that it is compiled."""

    def splats(self) -> tuple[Splats, tuple[float, ...]] | None:
        """The Gaussians that it is made of, as a .ply holds them, and the background, display values; or None."""
        return None


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
