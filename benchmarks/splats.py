"""Speed of the splat rasteriser on the CPU: python benchmarks/splats.py

    python benchmarks/splats.py --run RUN        pictures of 1920×1280 of a run: sharp, through a round lens, exact

With a run, wall and processor time: on a machine that is not idle, processor time over the number of threads is about
what an idle one takes.

Milliseconds are of this machine as busy as it is; the ratios are what to compare. Runs are interleaved and the best of
several counts. Random Gaussians of about a pixel's deviation, 2 to 8 away, opacities all over, harmonics of degree 2.
"""

# ruff: noqa: I001  (dofnerf comes before torch: it sets how torch's threads wait)
from __future__ import annotations

import dofnerf

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.models import Blur
from dofnerf.models.splat.raster import Gaussians, draw
from dofnerf.optics import to_linear
from dofnerf.studio.shoot import exact
from dofnerf.train import Run

FOCUS = 0.3


def camera(width: int, height: int) -> Camera:
    return Camera(np.eye(3, 4), 1.1 * width, 1.1 * width, width / 2, height / 2, width, height)


def gaussians(count: int, seen_by: Camera, pixels: float) -> Gaussians:
    generator = torch.Generator().manual_seed(0)
    depth = 1 / (1 / 8 + torch.rand(count, generator=generator) * (1 / 2 - 1 / 8))
    where = (torch.rand(count, 2, generator=generator) * 1.1 - 0.05) * torch.tensor([seen_by.width, seen_by.height])
    x, y = (where[:, 0] - seen_by.cx) / seen_by.fx * depth, -(where[:, 1] - seen_by.cy) / seen_by.fy * depth
    tensors = (
        torch.stack([x, y, -depth], dim=-1),
        torch.log(pixels * depth / seen_by.fx)[:, None] + 0.5 * torch.randn(count, 3, generator=generator),
        torch.randn(count, 4, generator=generator),
        2 * torch.randn(count, generator=generator),
        0.3 * torch.randn(count, 9, 3, generator=generator),
    )
    return Gaussians(*(tensor.requires_grad_() for tensor in tensors))


@dataclass
class Case:
    """What is timed: the seconds (forward, backward, Adam) of each run."""

    name: str
    seen_by: Camera
    scene: Gaussians
    aperture: float

    def __post_init__(self) -> None:
        self.times: list[tuple[float, float, float]] = []
        self.lens = torch.tensor([self.aperture, FOCUS], requires_grad=self.aperture > 0)
        self.adam = torch.optim.Adam([{"params": [tensor]} for tensor in self.scene], lr=0.0, fused=True)

    def run(self) -> None:
        self.adam.zero_grad()
        marks = [time.perf_counter()]
        drawn = draw(self.scene, self.seen_by, self.lens[0], self.lens[1])
        marks.append(time.perf_counter())
        torch.autograd.backward(drawn, [torch.full_like(part, 1e-3) for part in drawn])
        marks.append(time.perf_counter())
        self.adam.step()
        marks.append(time.perf_counter())
        self.times.append((marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]))

    def best(self) -> tuple[float, float, float]:
        forward, backward, adam = (min(column) * 1e3 for column in zip(*self.times[1:], strict=True))
        return forward, backward, adam


def pictures(folder: Path, runs: int = 3, samples: int = 64) -> None:
    """Views of the first photo's camera at 1920×1280, through its lens."""
    run = Run.load(folder)
    seen_by, threads = run.views[0].camera, torch.get_num_threads()
    large = seen_by.resized(1920, 1280)
    lens = run.lenses[0].scaled(large.fx, seen_by.fx)
    kinds: dict[str, Callable[[], object]] = {
        "sharp view": lambda: run.model.view(large),
        "through a round lens": lambda: run.model.view(large, lens, Blur(1, run.config.light)),
        f"exact lens, {samples} samples": lambda: exact(run.model, large, lens, run.config.light, samples),
        "the same by way of display values": lambda: [
            to_linear(run.model.view(large).image, run.config.light) for _ in range(samples)
        ],
    }
    print(f"{threads} threads, load {os.getloadavg()[0]:.1f}\n")
    print(f"| 1920×1280 | wall | processor | frames/s by processor time on {threads} cores |\n|---|---|---|---|")
    for name, act in kinds.items():
        times = []
        for _ in range(1 if "samples" in name or "display" in name else runs + 1):
            begun, spent = time.perf_counter(), time.process_time()
            act()
            times.append((time.process_time() - spent, time.perf_counter() - begun))
        spent, wall = min(times)
        print(f"| {name} | {wall:.2f} s | {spent:.2f} s | {threads / spent:.2f} |", flush=True)


def main(runs: int = 12) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run of splats")
    parser.add_argument("--samples", type=int, default=64, help="of the exact lens")
    given = parser.parse_args()
    if given.run is not None:
        return pictures(given.run, samples=given.samples)
    small, large = camera(252, 168), camera(504, 378)
    cases = [
        Case(f"{count // 1000}k, 252×168, {'lens' if aperture else 'pinhole'}", small, scene, aperture)
        for count in (10_000, 30_000, 100_000)
        for scene in [gaussians(count, small, 1.0 * (30_000 / count) ** 0.5)]
        for aperture in (0.0, 14.0)
    ]
    cases.append(Case("30k, 504×378, pinhole", large, gaussians(30_000, large, 2.0), 0.0))
    for _ in range(runs + 1):
        for case in cases:
            case.run()
    print(f"dofnerf {dofnerf.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print(
        "| Gaussians | forward ms | backward ms | Adam ms | step | over pinhole | frames/s "
        "|\n|---|---|---|---|---|---|---|"
    )
    pinhole = 1.0
    for case in cases:
        forward, backward, adam = case.best()
        pinhole = pinhole if case.aperture else forward + backward
        print(
            f"| {case.name} | {forward:.1f} | {backward:.1f} | {adam:.1f} | {forward + backward + adam:.1f} "
            f"| {(forward + backward) / pinhole:.2f}× | {1e3 / forward:.0f} |"
        )


if __name__ == "__main__":
    main()
