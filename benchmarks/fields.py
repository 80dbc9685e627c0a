"""How fast the fields are: hash encoding and its network in milliseconds, and training rays per second of hash against
nerf.

    python benchmarks/fields.py [--threads 2] [--rays 4096] [--nerf-rays 64]

Both fields train in one run, taking turns, so that whatever else the machine does slows both. A step is all that a
pinhole training step does: random rays, samples, field, volume rendering, loss, gradients, Adam. Time is wall-clock,
the best round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.models.volume import VolumeModel
from dofnerf.models.volume.fields import kind
from dofnerf.models.volume.fields.hash import FEATURES, Grid, Layers, encode, perceive
from dofnerf.models.volume.rays import choose_space, pixel_rays, random_pixels, stack_cameras

SIZE = 168, 252
RAYS, SAMPLES = (
    4096,
    48,
)  # 196 608 samples: the first try took 46 + 47 ms for 16 levels, 42 + 85 ms for the network


def best(run: Callable[[], object], rounds: int) -> float:
    """Milliseconds of the fastest of `rounds`."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def forward_backward(call: Callable[[], tuple[torch.Tensor, ...]], rounds: int) -> str:
    pulls = tuple(torch.ones_like(out) for out in call())

    def whole() -> None:
        torch.autograd.backward(call(), pulls)

    whole()
    forward = best(call, rounds)
    return f"{forward:6.1f} + {best(whole, rounds) - forward:6.1f} ms"


def parts(rounds: int) -> None:
    """Forward + backward of the encoding and of the network, for samples on rays in random directions."""
    torch.manual_seed(0)
    along = torch.linspace(0, 0.5, SAMPLES)[:, None] * (torch.rand(RAYS, 1, 3) - 0.5)
    points = (torch.rand(RAYS, 1, 3) + along).clamp(0, 1).reshape(-1, 3)
    print(f"{len(points)} samples, forward + backward")
    for grid in (Grid(16, 2, 17, 16, 512), Grid(8, 4, 17, 16, 512)):
        table = torch.rand(sum(grid.sizes), grid.features, requires_grad=True)
        moving = points.clone().requires_grad_()
        for backend in ("cpu", "reference"):
            label = f"  encoding {grid.levels} × {grid.features}, {backend}"
            few = rounds if backend == "cpu" else 2
            print(f"{label:36}", forward_backward(lambda g=grid, t=table, b=backend: (encode(points, t, g, b),), few))
            if backend == "cpu":
                line = forward_backward(lambda g=grid, t=table, p=moving: (encode(p, t, g),), few)
                print(f"{label + ', points too':36}", line)
    for width in (32, 64):
        shapes = [(width, 32), (FEATURES, width), (width, FEATURES), (3, width)]
        layers = Layers(*((torch.randn(s) * 0.3).requires_grad_() for shape in shapes for s in (shape, shape[:1])))
        encoded = torch.randn(32, len(points)).t().requires_grad_()
        seen = torch.randn(RAYS, width, requires_grad=True)
        for backend in ("cpu", "reference"):
            line = forward_backward(lambda e=encoded, s=seen, n=layers, b=backend: perceive(e, s, n, b), rounds)
            print(f"{f'  network of {width}, {backend}':36}", line)


def trainer(name: str, rays: int) -> Callable[[], None]:
    """One training step of a field on a forward-facing scene of grey photos with a little structure."""
    poses = [np.concatenate([np.eye(3), [[0.2 * i - 0.8], [0.1 * (i % 3)], [0.0]]], axis=1) for i in range(9)]
    cameras = [Camera(pose, 200.0, 200.0, SIZE[1] / 2, SIZE[0] / 2, SIZE[1], SIZE[0]) for pose in poses]
    model = VolumeModel(kind(name), kind(name).config(), choose_space(cameras, 1.5, 8.0))
    stack, photos = stack_cameras(cameras), torch.arange(len(cameras))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    generator = torch.Generator().manual_seed(0)
    steps = 0

    def step() -> None:
        nonlocal steps
        if steps % 16 == 0:
            model.refresh(1 / 8, generator)
        steps += 1
        pixels = random_pixels(photos, SIZE, rays, generator)
        truth = 0.5 + 0.3 * torch.sin(pixels.centres / 9).mean(-1, keepdim=True)
        loss = sum(
            (out.colour - truth).square().mean()
            for out in model(pixel_rays(stack, pixels.photo, pixels.centres), generator)
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def race(rays: int, nerf_rays: int, rounds: int) -> float:
    """Training rays per second of hash and nerf in one run; the ratio."""
    fast, slow = trainer("hash", rays), trainer("nerf", nerf_rays)
    for _ in range(20):
        fast()  # until the density grid knows where something is
    slow()
    times: dict[str, list[float]] = {"hash": [], "nerf": []}
    for _ in range(rounds):
        times["nerf"].append(best(slow, 1) / nerf_rays)
        times["hash"].append(np.mean([best(fast, 1) for _ in range(16)]) / rays)
    speed = {name: 1e3 / min(values) for name, values in times.items()}
    ratio = speed["hash"] / speed["nerf"]
    print(f"training rays a second: hash {speed['hash']:.0f}, nerf {speed['nerf']:.1f}: {ratio:.0f} ×")
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rays", type=int, default=4096, help="rays a step of hash")
    parser.add_argument("--nerf-rays", type=int, default=256, help="rays a step of nerf")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} threads")
    parts(arguments.rounds)
    race(arguments.rays, arguments.nerf_rays, arguments.rounds)


if __name__ == "__main__":
    main()
