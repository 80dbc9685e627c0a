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
from dofnerf.optics.kernels import single_threaded_torch
from dofnerf.scenes import Scene

_CAPTURE = 1.5, 0.04  # seconds a photo, and a pair
# Seconds, on a machine that takes _USUAL for a pixel of a view; `benchmarks/plan.py` measures them.
_BEGIN = 5.0  # imports, and all that is done once
_EACH, _LARGE, _POWER = 3.0, 440_000, 0.7  # a photo: start, lens search, registration, errors; less of fewer pixels
_READ = 0.03e-6  # a pixel of a photo: to read it
_REPORT, _SCORED = 1.5, 5e-6  # in all; a pixel of a held-out photo
_COMPARED = 0.7, 270_000  # a photo in the report, less of fewer pixels
_PAGE = 0.5, 6e-6, 800_000  # in all, and for each pixel of a photo, up to so many: the most Gaussians
_WIDE, _HIGH, _VIEWS = 288, 192, 8  # the picture by which the machine's speed is measured
_MEASURE = 1.5  # seconds, at the least
_USUAL = 1.6e-7
_NARROWEST, _SPARE = 160, 1.15
_PHOTOS = 30  # as long as nobody knows how many


class Plan:
    """How long each stage will take, roughly.

    `photos` are to be captured, 0 if there are poses already; `budget` are the seconds for all stages, from now on,
    unless a `width` is given.
    """

    def __init__(self, method: MethodConfig, photos: int, budget: float, width: int | None) -> None:
        self.method, self.budget, self.photos = method, budget, photos or _PHOTOS
        self.begun = self.since = time.monotonic()
        capture = _CAPTURE[0] * photos + _CAPTURE[1] * min(photos * (photos - 1) / 2, 20 * photos)
        self.left = {"capture": capture, **self.stages(0.7 * width * width)} if width else {"everything": budget}

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
        model = begin_splats(places, torch.rand(count, 3, generator=chance), torch.full((count,), 0.0225), 2, 2.2)
        pose = torch.eye(4)[:3].numpy()
        camera = Camera(pose, float(_WIDE), float(_WIDE), _WIDE / 2, _HIGH / 2, _WIDE, _HIGH)
        took: list[float] = []
        with single_threaded_torch():  # as training does
            while len(took) < 4 or sum(took[1:]) < _MEASURE:  # the first may compile
                begun = time.perf_counter()
                model.picture(camera, Lens(40.0, focus_depth=3.0), parts=_VIEWS).image.mean().backward()
                took.append(time.perf_counter() - begun)
        return sum(took[1:]) / len(took[1:]) / (_WIDE * _HIGH * _VIEWS)

    def stages(self, pixels: float) -> dict[str, float]:
        """Seconds of training on photos of so many pixels, and of what comes after."""
        own, slowness = self.method.for_photos_of(pixels), self.view / _USUAL
        each = _EACH * min(pixels / _LARGE, 1.0) ** _POWER + _READ * pixels
        compared = _COMPARED[0] * min(pixels / _COMPARED[1], 1.0) + _SCORED * pixels / 8
        report, page = _REPORT + self.photos * compared, _PAGE[0] + _PAGE[1] * min(pixels, _PAGE[2])
        train = slowness * (_BEGIN + self.photos * each) + self.view * own.work(pixels)
        return {"train": train, "report": slowness * report, "page": slowness * page}

    def width(self, size: tuple[int, int]) -> int:
        """The largest width for photos of `size` (width, height) that what is left of the time allows. Photos that just
        miss it are not resized: that would blur them a little, which is found as a wider lens."""
        left = self.budget - (time.monotonic() - self.begun)
        if sum(self.stages(size[0] * size[1]).values()) <= _SPARE * left:
            return size[0]
        low, high = min(_NARROWEST, size[0]), size[0]
        while low < high:
            middle = (low + high + 1) // 2
            fits = sum(self.stages(middle * middle * size[1] / size[0]).values()) <= left
            low, high = (middle, high) if fits else (low, middle - 1)
        needed = sum(self.stages(low * low * size[1] / size[0]).values())
        if needed > _SPARE * left:
            known = f"{in_words(left)} are left" if left > 0 else "no time is left"
            words = f"{known}, and at {low} pixels across it still takes about {in_words(needed)}"
            print(f"plan     --minutes is too little: {words}; --steps 0.3 takes less", flush=True)
        return low

    def say(self, before: str = "") -> None:
        """One line: the stages to come."""
        known = {name: seconds for name, seconds in self.left.items() if seconds > 0}
        parts = ", ".join(f"{name} {in_words(seconds)}" for name, seconds in known.items())
        print(f"plan     {before}about {in_words(sum(known.values()))} to go: {parts}", flush=True)

    def done(self, name: str, scene: Scene) -> None:
        """After a stage: what is left, now that number and size of the photos are known."""
        took = time.monotonic() - self.since
        self.since, self.photos = time.monotonic(), len(scene.train)
        stages = {"capture": 0.0} | self.stages(scene.size[0] * scene.size[1])
        names = list(stages)
        self.left = {one: stages[one] for one in names[names.index(name) + 1 :]}
        self.say(f"{name} took {in_words(took)}; ")
