"""The exported page where there is no graphics card: bytes, time to the first picture, frames a second while somebody
walks around, exact views a second at rest, in a headless Chromium whose WebGL is drawn by the processor.

    dofnerf export RUN --html --out page.html
    python benchmarks/page.py page.html [--size 640x400]

Also printed: how many pixels are blended for a frame, from which follows what a graphics card can do. A blended pixel
of a Gaussian costs about 20 floating-point operations and 8 bytes written; a laptop's integrated GPU blends about 4 000
million such pixels a second, a phone's 1 500 million, in 16-bit float.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = [
    "--no-sandbox", "--disable-dev-shm-usage", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]  # fmt: skip
PROGRAMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"
SHOWN = "body:is([data-state=refining], [data-state=done])"
FILL = {"laptop, integrated GPU": 4.0e9, "phone": 1.5e9}  # pixels blended a second, assumed
# Draws with the canvas of the given size, waits for each picture, and counts how many there are.
MEASURE = """([width, height, seconds, exact]) => { const walk = dofnerf, { stage, canvas } = walk, { gl } = stage;
  walk.stop(); [canvas.width, canvas.height] = [width, height];
  const pixel = new Uint8Array(4), wait = () => gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
  const seen = walk.seen(), begun = performance.now(); let count = 0;
  stage.draft(seen, 1); wait();
  const start = performance.now();
  while (performance.now() - start < 1000 * seconds) {
    if (exact) stage.renderer.step(seen.camera, seen.lens, seen.reach, 256); else stage.draft(seen, 1);
    stage.present(seen); wait(); count += 1;
  }
  return count / ((performance.now() - start) / 1000); }"""
# Frames that the page itself draws during a movement, with as few pixels as it then takes: [frames a second, scale].
PLAY = """async (seconds) => { const walk = dofnerf, { stage } = walk, move = stage.move.bind(stage); let count = 0;
  walk.perform("orbit"); stage.move = (...all) => { count += 1; return move(...all); };
  await new Promise((go) => setTimeout(go, 3000)); count = 0; const start = performance.now();
  await new Promise((go) => setTimeout(go, 1000 * seconds));
  const rate = count / ((performance.now() - start) / 1000); stage.move = move; walk.stop();
  return [rate, stage.level]; }"""
# Pixels of all ellipses on the screen, with each Gaussian's blur as the shader has it.
COVERED = """([width, height, exact]) => { const walk = dofnerf, { scene } = walk.stage;
  const s = Math.sqrt(width * height), f = walk.view.pose.focal * s, a = walk.view.pose.axes;
    const p = walk.view.pose.position;
  const aperture = exact ? 0 : walk.view.lens.opening * walk.view.pose.focal * f; let total = 0;
  for (let i = 0; i < scene.count; i++) {
    const d = [0, 1, 2].map((k) => scene.means[3 * i + k] - p[k]), z = -(d[0] * a[6] + d[1] * a[7] + d[2] * a[8]);
    const x = f * (d[0] * a[0] + d[1] * a[1] + d[2] * a[2]) / z, y = f * (d[0] * a[3] + d[1] * a[4] + d[2] * a[5]) / z;
    if (z <= scene.near || Math.abs(x) > width / 2 || Math.abs(y) > height / 2) continue;
    const [u, v] = [...scene.scales.subarray(3 * i, 3 * i + 3)].sort((m, n) => n - m);
    const coc = (aperture * (walk.view.lens.focus - 1 / z)) ** 2 / 4 + 0.3, k = f / z;
    const one = (u * k) ** 2 + coc, two = (v * k) ** 2 + coc, raw = ((u * k) ** 2 + 0.3) * ((v * k) ** 2 + 0.3);
    const solid = scene.opacities[i], shown = solid * Math.sqrt(raw / (one * two));
    const lost = Math.min(1 / 255 / shown, Math.max(1 / 255 / solid, 0.03));
    if (lost < 1) total += Math.PI * -2 * Math.log(lost) * Math.sqrt(one * two);
  }
  return total; }"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--size", default="640x400", help="pixels of the picture")
    parser.add_argument("--seconds", type=float, default=6.0)
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    program = os.environ.get("DOFNERF_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": width + 292, "height": height + 90})
        begun = time.perf_counter()
        page.goto(given.page.resolve().as_uri(), wait_until="commit")
        page.wait_for_selector(SHOWN, timeout=300_000)
        first = time.perf_counter() - begun
        page.wait_for_timeout(3000)
        count = page.evaluate("dofnerf.stage.scene.count")
        playing, level = page.evaluate(PLAY, given.seconds)
        page.evaluate("dofnerf.stage.stir()")
        moving = page.evaluate(MEASURE, [width, height, given.seconds, False])
        resting = page.evaluate(MEASURE, [width, height, given.seconds, True])
        large = {exact: page.evaluate(COVERED, [1920, 1080, exact]) for exact in (False, True)}
        browser.close()
    print(f"the machine's load {os.getloadavg()[0]:.1f}\n\n| what | got |\n|---|---|")
    print(f"| {count:,} Gaussians | {given.page.stat().st_size / 1e6:.2f} MB |")
    print(f"| first picture | {first:.1f} s |")
    print(f"| moving as the page does, level {level} of its resolutions | {playing:.1f} frames/s |")
    print(f"| moving, all pixels, {width}×{height} | {moving:.1f} frames/s |")
    print(f"| at rest, {width}×{height} | {resting:.1f} exact views/s |")
    for name, rate in FILL.items():
        words = [
            f"{large[exact] / 1e6:.0f} million blended pixels: {rate / large[exact]:.0f} a second" for exact in (0, 1)
        ]
        print(f"| {name}, 1920×1080, by count of work | moving {words[0]}; exact views {words[1]} |")


if __name__ == "__main__":
    main()
