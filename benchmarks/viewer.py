"""How quickly the viewer's server draws what the browser cannot, and how much memory visitors take.

    python benchmarks/viewer.py RUN [RUN ...]     (of any field; the packaged scene's are meant)

For each run, at 504 × 378: what drawing and keeping the layers takes, and what a move of a lens slider takes from then
on. Medians of wall and of processor time, which a busy machine changes less; with NUMBA_NUM_THREADS=1 the latter is
what one core needs. Then,
for splats, how near layers come to the exact lens, by their number; and memory with 32 visitors at once.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from dofnerf.evaluate.metrics import psnr
from dofnerf.models import Blur
from dofnerf.optics import DISC, Lens, scatter_layers, to_display
from dofnerf.studio.shoot import exact
from dofnerf.studio.source import Source, open_source
from dofnerf.studio.view import ViewConfig, prepare
from dofnerf.studio.viewer.renderer import LAYERS, Settings, draw, photograph
from dofnerf.studio.viewer.server import Server

WIDTH, HEIGHT = 504, 378
BLUR = 0.025  # largest radius, in widths
ROUNDS = 7


def took(work: Callable[[], object], rounds: int = ROUNDS) -> str:
    """Wall and processor time in words, after one round that does not count."""
    work()
    walls, processors = [], []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return f"{1000 * statistics.median(walls):.0f} ms | {1000 * statistics.median(processors):.0f} ms"


def measure(source: Source) -> None:
    model, light = source.model, source.light
    camera = source.views[0].camera.resized(WIDTH, HEIGHT)
    drawn = draw(model, camera, LAYERS)
    far, near = drawn.picture.disparity_range()
    look = Settings(BLUR * WIDTH / (near - far) / camera.fx, near)
    rounds = ROUNDS if model.is_quick else 1
    print(f"| draw and keep {LAYERS} layers | {took(lambda: draw(model, camera, LAYERS), rounds)} |")
    print(f"| move of a lens slider | {took(lambda: photograph(drawn, look, light), 3)} |", flush=True)


def quality(source: Source) -> None:
    """PSNR against 128 views from all over the lens, 252 pixels wide, focus near and far."""
    camera = source.views[0].camera.resized(WIDTH // 2, HEIGHT // 2)
    drawn = draw(source.model, camera, 1)
    far, near = drawn.picture.disparity_range()
    aperture = BLUR * camera.width / (near - far)
    for name, disparity in (("near", near), ("far", far)):
        truth = to_display(exact(source.model, camera, Lens(aperture, 1 / disparity), source.light, 128), source.light)
        own = source.model.view(camera, Lens(aperture, focus_disparity=disparity), Blur(light=source.light)).image
        words = [f"each splat by its own depth: {psnr(own.clamp(0, 1).numpy(), truth.clamp(0, 1).numpy()):.1f} dB"]
        for count in (1, 2, 3, 4, 8):
            _, layers = source.model.layers(camera, count)
            image = scatter_layers(
                layers.colour, layers.alpha, aperture * (disparity - layers.disparity), DISC, source.light
            )
            words.append(f"{count}: {psnr(image.clamp(0, 1).numpy(), truth.clamp(0, 1).numpy()):.1f} dB")
        print(f"| layers against the exact lens, focus {name} | {', '.join(words)} | |")


def memory(path: Path) -> None:
    """Resident memory of the server before, with 32 visitors who each take the page and the scene, and after."""
    server = Server(prepare(ViewConfig(path)), "127.0.0.1", 0)
    server.start()
    before, slowest = resident(), [0.0]

    def visit() -> None:
        for part in ("/", "/scene.bin" if server.viewer.scene else "/status", "/status"):
            begun = time.perf_counter()
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}{part}", timeout=300).read()
            slowest[0] = max(slowest[0], time.perf_counter() - begun)

    visitors = [threading.Thread(target=visit) for _ in range(32)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    during = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024 / 1e6
    server.stop()
    words = f"{before:.0f} MB before, at most {during:.0f} MB, slowest answer {slowest[0]:.2f} s"
    print(f"| memory with 32 visitors | {words} | |")


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    for path in parser.parse_args().runs:
        source = open_source(path, device="cpu")
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"\n{source.words}; the machine's load {load}\n\n| what | wall | processor |\n|---|---|---|")
        measure(source)
        if source.model.is_quick:
            quality(source)
        memory(path)


if __name__ == "__main__":
    main()
