"""The contract of a quantity that each photo has: a module with a row a photo, and how it acts on renders of the photo.

It is set by a dataclass `Config`, whose fields become flags of `dofnerf train`. Its tensors are in the checkpoint under
its name, its columns in the run's table of photos, and renders "as shot" apply it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.models.data import Setting, TrainingData
from dofnerf.optics import LearnedLens, to_display, to_linear
from dofnerf.optics.light import Curve
from dofnerf.scenes import Scene
from dofnerf.train.registry import Registry


class PhotoQuantity(nn.Module):
    """One row of each parameter for each of the M training photos, or for each group of photos (see `rows`)."""

    name: ClassVar[str]
    Config: ClassVar[type]
    uses_lens: ClassVar[bool] = False
    """Learn only in steps that render through the lens, from the photos that they see through it."""
    only_sampled: bool = True
    """Move only the rows of photos in the batch; otherwise Adam's momentum moves all."""

    @classmethod
    def is_on(cls, config: Any) -> bool:
        """Whether these settings ask for it."""
        return True

    @classmethod
    def make(cls, config: Any, setting: Setting) -> PhotoQuantity:
        """A new one for the photos of a run."""
        raise NotImplementedError

    def begin(self, given: Sequence[Camera], adjusted: Sequence[Camera]) -> None:
        """Called once in the life of a run, with the photos' cameras as the scene has them and as the start found
        them."""

    def look(self, scene: Scene, data: TrainingData, light: Curve) -> bool:
        """Called after that: what the photos themselves tell before training. True if they tell that there is nothing
        to learn."""
        return False

    def rate(self, share: float) -> float:
        """The learning rate (Adam) after that share of the steps in which it learns."""
        raise NotImplementedError

    def rows(self, parameter: str, photos: Tensor) -> Tensor:
        """Which rows of a parameter belong to photos (N,)."""
        return photos

    def is_negligible(self) -> bool:
        """Whether what was found is only noise: asked once, after a `TRIAL` share of the steps, unless `look` knew. If
        so, it is undone."""
        return False

    def constrain(self) -> None:
        """Called after each step, without gradients: a zero mean, say."""

    def camera(self, camera: Camera, photo: int) -> Camera:
        """The camera with which the photo was taken, given the scene's."""
        return camera

    def develop(self, light: Tensor, photo: Tensor, places: Tensor) -> Tensor:
        """Rendered linear light (…, 3) as photos (…), or one photo (), show it, at `places` (…, 2): (x, y) from 0 to 1
        over the photo."""
        return light

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        """For the table of photos: M values by column. `setting` has their focal lengths as they were refined."""
        return {}

    def values(self) -> dict[str, Tensor]:
        """For progress and curves: M values by name."""
        return {}

    def summary(self) -> str:
        """A few words for the progress bar."""
        return "  ".join(f"{name} {spread(value)}" for name, value in self.values().items())

    def findings(self) -> str:
        """A sentence at the end of training on what was found; nothing if that is no news."""
        return ""


class CameraQuantity(PhotoQuantity):
    """One that changes cameras and is not learned by gradients: cameras are adjusted to the scene now and then
    (`train.loop`)."""

    def move(self, given: Sequence[Camera], found: Sequence[Camera]) -> None:
        """Take over what was found for the M photos, whose cameras in the scene are `given`."""
        raise NotImplementedError


TRIAL = 0.25  # share of the steps after which a quantity that found nothing is left alone
_registry = Registry("dofnerf.train.photos", "QUANTITY", "photo quantity")
quantities, register = _registry, _registry.register


class PhotoQuantities:
    """All quantities of a run's photos. See `models.base.Quantities` for how steps use them."""

    def __init__(self, configs: Mapping[str, Any], setting: Setting, light: Curve, searches: bool) -> None:
        first = sorted(configs, key=lambda name: name != "lens")  # its columns lead the table of photos
        self.by_name = {name: _registry.get(name).make(configs[name], setting) for name in first}
        self.setting, self.light, self.searches = setting, light, searches
        self.undone = set[str]()  # names of those that turned out to be negligible: their values are 0

    @property
    def lens(self) -> LearnedLens:
        lens = self.by_name["lens"]
        assert isinstance(lens, LearnedLens)
        return lens

    def to(self, device: torch.device) -> PhotoQuantities:
        for one in self.by_name.values():
            one.to(device)
        return self

    @property
    def moves_cameras(self) -> bool:
        return bool(self._with("camera"))

    @property
    def registers(self) -> bool:
        """Whether photos may differ from the scene in camera or exposure, so that held-out views must be registered."""
        return bool(self._with("camera") or self._with("develop"))

    def camera(self, camera: Camera, photo: int) -> Camera:
        for one in self._with("camera"):
            camera = one.camera(camera, photo)
        return camera

    def develop(self, colour: Tensor, photo: int | Tensor, pixels: Tensor | None = None) -> Tensor:
        if not self._developing():
            return colour
        return to_display(self.develop_light(to_linear(colour, self.light), photo, pixels), self.light)

    def develop_light(self, light: Tensor, photo: int | Tensor, pixels: Tensor | None = None) -> Tensor:
        """The same for linear light."""
        developing = self._developing()
        if not developing:
            return light
        if pixels is None:
            rows, columns = (torch.arange(count, device=light.device) + 0.5 for count in light.shape[:2])
            grid = torch.meshgrid(rows / len(rows), columns / len(columns), indexing="ij")
            places = torch.stack(grid[::-1], dim=-1)
        else:
            places = pixels / torch.tensor(self.setting.size, device=light.device)
        photos = torch.as_tensor(photo, device=light.device)
        for one in developing:
            light = one.develop(light, photos, places)
        return light

    def _developing(self) -> list[PhotoQuantity]:
        undone = [self.by_name[name] for name in self.undone]
        return [one for one in self._with("develop") if one not in undone]

    def _with(self, way: str) -> list[PhotoQuantity]:
        return [one for one in self.by_name.values() if getattr(type(one), way) is not getattr(PhotoQuantity, way)]


def spread(values: Tensor) -> str:
    """The least and the largest of some values, in words."""
    return f"{values.detach().min():.4g} to {values.detach().max():.4g}"
