"""The exported page where there is no graphics card: bytes, time to the first picture, frames a second while somebody
walks around, exact views a second at rest, in a headless Chromium whose WebGL is drawn by the processor.

    dofnerf export RUN --html --out page.html
    python benchmarks/page.py page.html [--size 640x400]

Also printed: how many pixels are blended for a frame, counted, from which follows what a graphics card can do. A
blended pixel of a Gaussian costs about 20 floating-point operations, and 8 bytes read and 8 written, in 16-bit float;
of a memory of 68 GB/s (a laptop's integrated GPU) that makes about 4 000 million a second, of a phone's 1 500 million.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FLAGS = [
    "--no-sandbox", "--disable-dev-shm-usage", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]  # fmt: skip
PROGRAMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"
SHOWN = "body:is([data-state=refining], [data-state=done])"
LARGE = 1920, 1080
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
# Pixels that a picture of this size shades and blends, counted by drawing every polygon once more into a counter.
COUNT = """([width, height, what]) => { const walk = dofnerf, { stage, canvas } = walk, { gl, renderer } = stage;
  walk.stop(); [canvas.width, canvas.height] = [width, height]; renderer.resize(width, height);
  const seen = walk.seen(), texture = gl.createTexture(), buffer = gl.createFramebuffer(), made = new Map();
  gl.bindTexture(gl.TEXTURE_2D, texture); gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32F, width, height);
  gl.bindFramebuffer(gl.FRAMEBUFFER, buffer);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  gl.clear(gl.COLOR_BUFFER_BIT);
  const counting = (program) => { const made = gl.createProgram(); let vertex;
    for (const shader of gl.getAttachedShaders(program))
      if (gl.getShaderParameter(shader, gl.SHADER_TYPE) === gl.VERTEX_SHADER) vertex = gl.getShaderSource(shader);
    const fragment = `#version 300 es
      precision highp float; in vec2 place; out vec4 n;
      void main() { n = vec4(1.0, dot(place, place) <= 1.0, 0.0, 0.0); }`;
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader); gl.attachShader(made, shader);
    }
    gl.linkProgram(made); return made; };
  const draw = gl.drawElements.bind(gl);
  const TYPE = gl.FRAMEBUFFER_ATTACHMENT_OBJECT_TYPE, NAME = gl.FRAMEBUFFER_ATTACHMENT_OBJECT_NAME;
  gl.drawElements = (...all) => { draw(...all);
    const program = gl.getParameter(gl.CURRENT_PROGRAM), bound = gl.getParameter(gl.DRAW_FRAMEBUFFER_BINDING);
    if (!made.has(program)) made.set(program, counting(program));
    const counter = made.get(program), at = (name, of = counter) => gl.getUniformLocation(of, name);
    const mask = gl.getFramebufferAttachmentParameter(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, TYPE) === gl.NONE ? null
      : gl.getFramebufferAttachmentParameter(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, NAME);
    const colours = gl.getParameter(gl.COLOR_WRITEMASK); gl.colorMask(true, true, true, true);
    gl.useProgram(counter); gl.bindFramebuffer(gl.FRAMEBUFFER, buffer); gl.blendFunc(gl.ONE, gl.ONE);
    gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.RENDERBUFFER, mask);
    ["middles", "sides", "lights"].forEach((name, i) => gl.uniform1i(at(name), i));
    gl.uniform2fv(at("size"), gl.getUniform(program, at("size", program)));
    draw(...all);
    gl.colorMask(...colours); gl.useProgram(program); gl.bindFramebuffer(gl.FRAMEBUFFER, bound);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA); };
  if (what === "exact") renderer.step(seen.camera, seen.lens, seen.reach, 256);
  else renderer.quick(seen.camera, what === "sharp" ? { ...seen.lens, aperture: 0 } : seen.lens);
  delete gl.drawElements;
  const numbers = new Float32Array(4 * width * height); gl.bindFramebuffer(gl.FRAMEBUFFER, buffer);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.FLOAT, numbers);
  let shaded = 0, blended = 0;
  for (let i = 0; i < numbers.length; i += 4) { shaded += numbers[i]; blended += numbers[i + 1]; }
  return [shaded, blended]; }"""
# Walk around for so many seconds, without a rest.
ORBIT = """async (seconds) => { const end = performance.now() + 1000 * seconds; while (performance.now() < end) {
  dofnerf.perform("orbit"); await new Promise((go) => setTimeout(go, 1000)); } dofnerf.stop(); }"""
# With all in focus, with the lens open, one view of the exact lens: how often parts that were drawn with fewer pixels
# are enlarged to the whole picture, at most.
PASSES = {"sharp": 1, "lens": 7, "exact": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--size", default="640x400", help="pixels of the picture")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--minutes", type=float, default=2.0, help="of orbiting, during which memory must stay flat")
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
        grown = memory(page, given.minutes) if given.minutes else ""
        large = {what: page.evaluate(COUNT, [*LARGE, what])[1] for what in PASSES}
        browser.close()
    print(f"the machine's load {os.getloadavg()[0]:.1f}\n\n| what | got |\n|---|---|")
    print(f"| {count:,} Gaussians | {given.page.stat().st_size / 1e6:.2f} MB |")
    print(f"| first picture | {first:.1f} s |")
    print(f"| moving as the page does, level {level} of its resolutions | {playing:.1f} frames/s |")
    print(f"| moving, all pixels, {width}×{height} | {moving:.1f} frames/s |")
    print(f"| at rest, {width}×{height} | {resting:.1f} exact views/s |")
    if grown:
        print(f"| {given.minutes:g} minutes of orbiting | {grown} |")
    screen = LARGE[0] * LARGE[1]
    for what, passes in PASSES.items():
        found = large[what] + passes * screen
        enlarged = f" + {passes * screen / 1e6:.0f}" if passes else ""
        counted = f"{large[what] / 1e6:.0f}{enlarged} million, {words(found)}"
        print(f"| pixels blended, {LARGE[0]}×{LARGE[1]}, {what} | {counted} |")


def words(blended: float) -> str:
    """Frames a second by count of work."""
    return ", ".join(f"{name}: {rate / blended:.0f} a second" for name, rate in FILL.items())


def memory(page: Page, minutes: float) -> str:
    """What the page holds before and after somebody walks around: it is collected before it is weighed."""
    session = page.context.new_cdp_session(page)

    def held() -> float:
        session.send("HeapProfiler.collectGarbage")
        return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    page.evaluate(ORBIT, 10)
    found = [held()]
    for _ in range(4):
        page.evaluate(ORBIT, 15 * minutes)
        found.append(held())
    return ", ".join(f"{one:.1f}" for one in found) + " MB"


if __name__ == "__main__":
    main()
