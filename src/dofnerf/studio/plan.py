"""How long `dofnerf run` will take, and how wide photos may be for a given time."""

from __future__ import annotations

import time
from functools import cached_property

import torch

from dofnerf.camera import Camera
from dofnerf.files.progress import in_words
from dofnerf.models.base import MethodConfig
from dofnerf.models.splat.model import begin_splats
from dofnerf.optics import Lens
from dofnerf.scenes import Scene

_CAPTURE = 1.5, 0.04  # seconds a photo, and a pair
_BEGIN, _OTHERS = 30.0, {"report": 30.0, "page": 20.0}  # seconds before the first step, and of the stages after
_WIDE, _HIGH, _VIEWS = 144, 96, 8  # the picture by which the machine's speed is measured
_MEASURE = 1.5  # seconds, at the least
_USUAL = 3.5e-7  # seconds a pixel of a view of the machine for which the times above are
_NARROWEST, _SPARE = 160, 1.15


class Plan:
    """How long each stage will take, roughly; corrected by how long those before took.

    `photos` are to be captured; `budget` are the seconds for training, unless a `width` is given.
    """

    def __init__(self, method: MethodConfig, photos: int, budget: float, width: int | None) -> None:
        self.method, self.budget, self.since, self.slowness = method, budget, time.monotonic(), 1.0
        capture = _CAPTURE[0] * photos + _CAPTURE[1] * min(photos * (photos - 1) / 2, 20 * photos)
        training = self.train_seconds(0.7 * width * width) if width else budget
        self.left = {"capture": capture, "train": training, **_OTHERS}

    @cached_property
    def view(self) -> float:
        """Seconds that this machine takes for a pixel of a view: the mean of pictures through a lens, with gradients,
        of Gaussians as many and as large as those of a photo of that size. The quickest would tell how fast the machine
        is when idle, and other programs would make every training late."""
        chance = torch.Generator().manual_seed(0)
        count = _WIDE * _HIGH // 2
        places = (torch.rand(count, 3, generator=chance) - 0.5) * torch.tensor([3.0, 2.0, 1.0]) - torch.tensor(
            [0, 0, 3.0]
        )
        model = begin_splats(places, torch.rand(count, 3, generator=chance), torch.full((count,), 0.04), 2, 2.2)
        pose = torch.eye(4)[:3].numpy()
        camera = Camera(pose, float(_WIDE), float(_WIDE), _WIDE / 2, _HIGH / 2, _WIDE, _HIGH)
        took: list[float] = []
        while len(took) < 4 or sum(took[1:]) < _MEASURE:  # the first may compile
            begun = time.perf_counter()
            model.picture(camera, Lens(20.0, focus_depth=3.0), parts=_VIEWS).image.mean().backward()
            took.append(time.perf_counter() - begun)
        return sum(took[1:]) / len(took[1:]) / (_WIDE * _HIGH * _VIEWS)

    def train_seconds(self, pixels: float) -> float:
        """Of training on photos of so many pixels."""
        return self.view * (_BEGIN / _USUAL + self.method.for_photos_of(pixels).work(pixels))

    def width(self, size: tuple[int, int]) -> int:
        """The largest width for photos of `size` (width, height) that the time allows. Photos that just miss it are not
        resized: that would blur them a little, which is found as a wider lens."""
        if self.train_seconds(size[0] * size[1]) <= _SPARE * self.budget:
            return size[0]
        low, high = min(_NARROWEST, size[0]), size[0]
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.train_seconds(middle * middle * size[1] / size[0]) <= self.budget
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def say(self, before: str = "") -> None:
        """One line: the stages to come."""
        known = {name: seconds * self.slowness for name, seconds in self.left.items() if seconds > 0}
        parts = ", ".join(f"{name} {in_words(seconds)}" for name, seconds in known.items())
        print(f"plan     {before}about {in_words(sum(known.values()))} to go: {parts}", flush=True)

    def done(self, name: str, scene: Scene) -> None:
        """After a stage: what is left, now that the size of the photos is known."""
        took = time.monotonic() - self.since
        self.since = time.monotonic()
        stages = {"capture": 0.0, "train": self.train_seconds(scene.size[0] * scene.size[1])} | _OTHERS
        names = list(stages)
        self.left = {one: stages[one] for one in names[names.index(name) + 1 :]}
        self.say(f"{name} took {in_words(took)}; ")
