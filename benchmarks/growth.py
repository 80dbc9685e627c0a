"""How does the cost of a training step of splats grow? With pixels, Gaussians, blur, sub-apertures and photos.

    python benchmarks/growth.py                one table, with the exponent fitted to each column of costs

Each quantity is doubled a few times, the others stay: the scene in the package as it is before training, 504 pixels
across, 20 000 Gaussians, blur of up to 8 pixels, 4 sub-apertures. A cost is the least processor time, in one thread, of
a picture, its gradient and the sharp picture of the prior; for photos it is that of the start and of the search for the
lens, since a step takes one photo, whatever their number. An exponent of 1 means twice the cost for twice as much.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from dofnerf import scenes
from dofnerf.models.data import Setting, training_data
from dofnerf.models.splat.model import SplatModel, begin_splats
from dofnerf.models.splat.start import starting_points
from dofnerf.optics import Lens
from dofnerf.train import preset
from dofnerf.train.learner import Learner
from dofnerf.train.loop import find_lens, steps_of

WIDTH, GAUSSIANS, BLUR, PARTS = 504, 20_000, 8.0, 4
LIGHT = 2.2


def least(work: Callable[[], object], times: int = 3) -> float:
    """Seconds of processor time."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def model_of(scene: scenes.Scene, count: int) -> SplatModel:
    start = starting_points(scene, count, swept=count > len(scene.points or ()))
    parts = (torch.from_numpy(part) for part in (start.points, start.colours, start.sizes))
    return begin_splats(*parts, 2, LIGHT, scene.near)


def step(model: SplatModel, scene: scenes.Scene, width: int, blur: float, parts: int) -> float:
    """The cost of a step at this width, with blur of up to `blur` pixels."""
    camera = scene.camera(scene.train[0])
    camera = camera.resized(width, round(width * camera.height / camera.width))
    near, far = 1 / scene.near, 1 / scene.far
    lens = Lens(torch.tensor(2 * blur / (near - far)), focus_disparity=torch.tensor((near + far) / 2))

    def work() -> None:
        model.zero_grad()
        image = model.picture(camera, lens, parts=parts, light=LIGHT).image
        (image.square().mean() + model.picture(camera).image.square().mean()).backward()

    return least(work)


def search(scene: scenes.Scene, photos: int) -> tuple[float, float]:
    """The cost of the start, and of the first search for the lens, with so many photos."""
    scene = replace(scene, train=scene.train[:photos])
    config = preset("fast", "splat")
    data, setting = training_data(scene, config.photos, torch.device("cpu"), None), Setting.of(scene, "none")
    learners: list[Learner] = []
    begun = least(lambda: learners.append(Learner.begin(config, setting, scene, data)), 1)
    steps = steps_of(learners[0], data)
    return begun, least(lambda: find_lens(learners[0], steps, True), 1)


def exponent(values: Sequence[float], costs: Sequence[float]) -> float:
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def row(name: str, values: Sequence[float], costs: Sequence[float]) -> None:
    pairs = ", ".join(f"{value:,.0f}: {1000 * cost:.0f}" for value, cost in zip(values, costs, strict=True))
    print(f"| {name} | {pairs} | {exponent(values, costs):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    scene = scenes.demo()
    usual = model_of(scene, GAUSSIANS)
    step(usual, scene, 64, BLUR, PARTS)  # kernels compiled or read
    print("| what grows | value: milliseconds | exponent |\n|---|---|---|", flush=True)
    widths = (252, 504, 1008)
    row("pixels", [w * w * 2 // 3 for w in widths], [step(usual, scene, w, BLUR, PARTS) for w in widths])
    counts = (5_000, 10_000, 20_000, 40_000)
    row("Gaussians", counts, [step(model_of(scene, n), scene, WIDTH, BLUR, PARTS) for n in counts])
    blurs = (4.0, 8.0, 16.0, 32.0, 64.0)
    row("blur radius", blurs, [step(usual, scene, WIDTH, one, PARTS) for one in blurs])
    parts = (2, 4, 8, 16)
    row("sub-apertures", parts, [step(usual, scene, WIDTH, BLUR, one) for one in parts])
    photos = (10, 14, 20)  # with fewer, a photo has fewer neighbours in the plane sweep
    begun, searched = zip(*(search(scene, count) for count in photos), strict=True)
    row("photos: start", photos, begun)
    row("photos: lens search", photos, searched)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
