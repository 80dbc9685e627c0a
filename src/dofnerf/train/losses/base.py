"""The contract of an additional loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from dofnerf.train.registry import Registry

if TYPE_CHECKING:
    from dofnerf.models import Outcome
    from dofnerf.train.learner import Learner


class Loss(ABC):
    """A term of the loss, set by the dataclass `Config`, whose fields (its weight among them) become flags."""

    name: ClassVar[str]
    Config: ClassVar[type]
    of_parameters: ClassVar[bool] = False
    """It depends on parameters alone; otherwise on pixels, of which each of several processes has some."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    @abstractmethod
    def is_on(cls, config: Any) -> bool:
        """Whether these settings ask for it: its weight is above 0."""

    @abstractmethod
    def __call__(self, outcome: Outcome, learner: Learner) -> Tensor | None:
        """The weighted term for a step, a scalar; None if the step has nothing for it. `outcome.shown` is what was
        rendered: a picture (H, W, 3), single pixels (N, 3), or None. Where a step has several pictures, it is asked for
        each, unless it is `of_parameters`, and the mean counts."""


_registry = Registry("dofnerf.train.losses", "LOSS", "loss")
losses, register = _registry, _registry.register
