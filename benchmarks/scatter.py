"""Speed and memory of scatter on the CPU, as ratios taken in one run: python benchmarks/scatter.py

Prints the Markdown table that docs/results.md holds. Runs are interleaved and the best of several counts, since
machines are shared and noisy.
"""

# ruff: noqa: I001  (dofnerf comes before torch: it sets how torch's threads wait)
from __future__ import annotations

import dofnerf

import resource
import subprocess
import sys
import time

import torch

from dofnerf.optics import Blades, accumulate, scatter
from dofnerf.studio.rgbd import built_in_picture

HEIGHT, WIDTH = 378, 504


def best_of(runs: int, *functions) -> list[float]:
    """Seconds of each function, the best of interleaved runs; the first call of each is a warm-up."""
    times = [[] for _ in functions]
    for run in range(runs + 1):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if run:
                seconds.append(time.perf_counter() - start)
    return [min(seconds) for seconds in times]


def forward(radius: float | torch.Tensor, backend: str = "auto"):
    values = torch.rand(HEIGHT, WIDTH, 4)
    blur = torch.as_tensor(radius, dtype=torch.float32).expand(HEIGHT, WIDTH).contiguous()
    return lambda: accumulate(values, blur, backend=backend)


def backward(radius: float | torch.Tensor):
    values = torch.rand(HEIGHT, WIDTH, 4, requires_grad=True)
    blur = torch.as_tensor(radius, dtype=torch.float32).expand(HEIGHT, WIDTH).clone().requires_grad_()
    out = accumulate(values, blur)
    seen = torch.rand_like(out)
    return lambda: torch.autograd.grad(out, (values, blur), seen, retain_graph=True)


def varied(largest: float) -> torch.Tensor:
    """A radius map in which no two neighbours are alike, 0 … largest, as a real depth map gives."""
    ramp = torch.linspace(0, largest - 0.3, HEIGHT)[:, None].expand(HEIGHT, WIDTH)
    return ramp + 0.3 * torch.rand(HEIGHT, WIDTH)


def built_in() -> tuple[torch.Tensor, torch.Tensor]:
    """The package's picture (H, W, 3) and disparity (H, W), brought to the benchmark's size."""
    picture = built_in_picture()
    both = torch.cat([torch.from_numpy(picture.image), torch.from_numpy(picture.disparity)[..., None]], -1).float()
    both = torch.nn.functional.interpolate(both.permute(2, 0, 1)[None], size=(HEIGHT, WIDTH), mode="bilinear")[0]
    return both[:3].permute(1, 2, 0).contiguous(), both[3].contiguous()


def picture_sized_buffers() -> float:
    """Peak memory of one forward and backward pass, in buffers of (H, W, 3) float32, in a process of its own."""
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['peak_in_this_process']())"
    return float(
        subprocess.run([sys.executable, "-c", code, __file__], capture_output=True, text=True, check=True).stdout
    )


def peak_in_this_process() -> float:
    height, width = 1512, 2016

    def step(h: int, w: int) -> None:
        image, blur = torch.rand(h, w, 3, requires_grad=True), torch.full((h, w), 6.0, requires_grad=True)
        scatter(image, blur, light=1.0).sum().backward()

    step(32, 32)
    image = torch.rand(height, width, 3, requires_grad=True)
    blur = torch.full((height, width), 6.0, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scatter(image, blur).sum().backward()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) * 1024 / (height * width * 3 * 4)


def main() -> None:
    torch.manual_seed(0)
    rows = []
    with torch.no_grad():
        slow, fast, mixed = best_of(3, forward(16.0, "reference"), forward(16.0, "cpu"), forward(varied(16.0), "cpu"))
    rows.append(
        ("`cpu` over `reference`, radius 16 everywhere", f"{slow / fast:.0f}×", "≥ 20×", f"{fast * 1e3:.0f} ms")
    )
    rows.append(
        ("`cpu` over `reference`, radius 0 … 16, all different", f"{slow / mixed:.0f}×", "–", f"{mixed * 1e3:.0f} ms")
    )
    for name, radius in (("radius 16 everywhere", 16.0), ("radius 0 … 16, all different", varied(16.0))):
        f, b = best_of(7, forward(radius), backward(radius))
        rows.append((f"backward over forward, {name}", f"{b / f:.2f}×", "≤ 3×", f"{f * 1e3:.0f} + {b * 1e3:.0f} ms"))
    small, large = best_of(7, forward(8.0), forward(32.0))
    rows.append(("radius 32 over radius 8, everywhere", f"{large / small:.2f}×", "≤ 5×", f"{large * 1e3:.0f} ms"))
    small, large = best_of(7, forward(varied(8.0)), forward(varied(32.0)))
    rows.append(("radius 0 … 32 over 0 … 8, all different", f"{large / small:.2f}×", "≤ 5×", f"{large * 1e3:.0f} ms"))
    image, disparity = built_in()
    blur = disparity.median() - disparity
    blur = blur * (15 / float(blur.abs().max()))
    with torch.no_grad():
        disc, hexagon = best_of(9, lambda: scatter(image, blur), lambda: scatter(image, blur, Blades(6)))
    about = f"radii up to 15, {float(blur.abs().mean()):.1f} on average"
    rows.append((f"refocus the built-in picture, {about}", f"{1 / disc:.0f} frames/s", "25", f"{disc * 1e3:.0f} ms"))
    rows.append(("the same with six blades", f"{1 / hexagon:.0f} frames/s", "–", f"{hexagon * 1e3:.0f} ms"))
    rows.append(
        ("peak memory, forward + backward", f"{picture_sized_buffers():.1f} pictures", "≤ 12", "(H, W, 3) float32")
    )
    print(
        f"dofnerf {dofnerf.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{HEIGHT}×{WIDTH}\n"
    )
    print("| what | got | wanted | |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
