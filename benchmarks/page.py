"""How smoothly the refocusable page moves where there is no graphics card at all: frames a second in a headless
Chromium whose WebGL is drawn by the processor.

    dofnerf export RUN --html --width 1008 --out page.html
    python benchmarks/page.py page.html

The focus is dragged to and fro for some seconds. The page takes fewer taps and fewer pixels until it draws about 30 frames
a second; what it settles on is printed, and how many texture fetches that is a second, to compare with what a graphics
card can do (that of a cheap telephone: one to two thousand million).
"""

from __future__ import annotations

import argparse
import os
import shutil
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]
PROGRAMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"
DRAG = """(seconds) => new Promise((resolve) => {
  const slider = document.getElementById("focus"), begun = performance.now(), times = [];
  function turn(now) {
    times.push(now);
    slider.value = 0.5 + 0.5 * Math.sin((now - begun) / 400);
    slider.dispatchEvent(new Event("input"));
    if (now - begun < 1000 * seconds) requestAnimationFrame(turn);
    else {
      const [taps, zoom] = QUALITY[quality];
      resolve({ times, quality, taps, zoom, layers: SCENE.layers.length, width, height });
    }
  }
  requestAnimationFrame(turn);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0)
    given = parser.parse_args()
    program = os.environ.get("DOFNERF_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 412, "height": 780})
        page.goto(given.page.resolve().as_uri())
        page.wait_for_selector("body[data-state=resting]")
        found = page.evaluate(DRAG, given.seconds)
        browser.close()
    times, pixels = found["times"], found["width"] * found["height"] / found["zoom"] ** 2
    late = [b - a for a, b in pairwise(times)][len(times) // 2 :]  # when it has settled
    rate = 1000 * len(late) / sum(late)
    fetches = rate * pixels * found["layers"] * found["taps"] * 3
    print(
        f"{found['width']} × {found['height']}, {found['layers']} layers, the machine's load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{rate:.0f} frames a second, the slowest of these {max(late):.0f} ms; settled on quality {found['quality']}:"
    )
    print(
        f"{found['taps']} taps, 1 of {found['zoom'] ** 2} pixels; at most {fetches / 1e6:.0f} million texture fetches a second"
    )


if __name__ == "__main__":
    main()
