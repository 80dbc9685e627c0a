"""How quickly the viewer's server draws what the browser cannot, and how much memory visitors take.

    python benchmarks/viewer.py RUN [RUN ...]     (of any field; the packaged scene's are meant)

For each run, at 504 × 378: what drawing and keeping the layers takes, and what a move of a lens slider takes from then
on. Medians of wall and of processor time, which a busy machine changes less; with NUMBA_NUM_THREADS=1 the latter is
what one core needs. Then,
for splats, how near layers come to the exact lens, by their number; and memory with 32 visitors at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from dofnerf.camera import Camera
from dofnerf.evaluate.metrics import psnr
from dofnerf.models import Blur
from dofnerf.optics import DISC, Lens, scatter_layers, to_display
from dofnerf.studio.shoot import exact
from dofnerf.studio.source import Source, open_source
from dofnerf.studio.viewer.renderer import LAYERS, Settings, draw, photograph

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


def memory(path: Path, camera: Camera, is_drawn: bool) -> None:
    """Resident memory of `dofnerf view` before, with 32 visitors at once who take the page, the scene (or, where the
    server draws, four pictures each from places of their own) and its photos while two more are slow and one sends
    garbage, and after they left."""
    words = [sys.executable, "-m", "dofnerf", "view", str(path), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = next(line.split()[1] for line in server.stdout if line.startswith("view"))
    port, before, seconds = int(address.rsplit(":", 1)[1]), resident(server.pid, "VmRSS"), []

    def ask(part: str, body: bytes | None = None) -> None:
        begun = time.perf_counter()
        with contextlib.suppress(urllib.error.HTTPError) if part.startswith("/photos") else contextlib.nullcontext():
            urllib.request.urlopen(f"http://127.0.0.1:{port}{part}", body, timeout=600).read()
        seconds.append(time.perf_counter() - begun)

    def visit(number: int) -> None:
        ask("/")
        if not is_drawn:
            ask("/scene.bin")
        for k in range(4 * is_drawn):
            pose = camera.camera_to_world
            numbers = {key: getattr(camera, key) for key in ("fx", "fy", "cx", "cy", "width", "height")}
            place = {
                "position": (pose[:, 3] * (1 + 1e-3 * (number + k))).tolist(),
                "axes": pose[:, :3].T.reshape(-1).tolist(),
            }
            asked = {"camera": numbers | place, "lens": {"aperture": 4.0, "focus": 0.2}, "level": k}
            ask("/picture", json.dumps(asked).encode())
        for k in range(8):
            ask(f"/photos/{k}.jpg")
        ask("/status")

    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    slow[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")  # and never ends its question
    slow[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and never reads the answer
    slow[2].sendall(bytes(range(256)) * 4 + b"\r\n\r\n")
    visitors = [threading.Thread(target=visit, args=(number,)) for number in range(32)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    for line in slow:
        line.close()
    time.sleep(2)
    most, after = resident(server.pid, "VmHWM"), resident(server.pid, "VmRSS")
    server.send_signal(signal.SIGINT)
    said = server.communicate()[1]
    told = f"{before:.0f} MB before, at most {most:.0f} MB, {after:.0f} MB when they had left; answers after "
    told += f"{statistics.median(seconds):.2f} s, {max(seconds):.2f} s at most"
    print(f"| 32 visitors | {told}; {said.count(chr(10)) - 1} lines of log | |", flush=True)


def resident(process: int, what: str) -> float:
    """Megabytes of a process, now (VmRSS) or at most (VmHWM)."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split(f"{what}:")[1].split()[0]) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--memory", action="store_true", help="nothing but the visitors")
    options = parser.parse_args()
    for path in options.runs:
        source = open_source(path, device="cpu")
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"\n{source.words}; the machine's load {load}\n\n| what | wall | processor |\n|---|---|---|")
        if not options.memory:
            measure(source)
        if source.model.is_quick and not options.memory:
            quality(source)
        memory(path, source.views[0].camera, source.splats is None and not source.model.is_quick)


if __name__ == "__main__":
    main()
