// A picture of any size through the exact lens, tile after tile, so that it needs little memory.
import { LensRenderer } from "./exact_lens.js";

const TILE = 1024;

// Draws `camera` (of the whole picture) through `lens`; calls `tell(share done)` between frames, and stops when that
// returns false. Resolves to a canvas, or null.
export async function largePicture(stage, { camera, lens, reach, views, exposure }, tell) {
  const { width, height } = camera, paper = Object.assign(document.createElement("canvas"), { width, height });
  const sheet = paper.getContext("2d"), columns = Math.ceil(width / TILE), rows = Math.ceil(height / TILE);
  const renderer = new LensRenderer(stage.gl, stage.splats, stage.scene);
  try {
    for (let tile = 0; tile < columns * rows; tile++) {
      const x = TILE * (tile % columns), y = TILE * Math.floor(tile / columns);
      const part = { ...camera, cx: camera.cx - x, cy: camera.cy - y, frame: [-x, -y, width - x, height - y] };
      part.width = Math.min(TILE, width - x);
      part.height = Math.min(TILE, height - y);
      renderer.resize(part.width, part.height);
      renderer.count = 0;
      while (renderer.count < views) {
        renderer.step(part, lens, reach, views);
        if (renderer.count % 8 && renderer.count < views) continue;
        if (!tell((tile + renderer.count / views) / (columns * rows))) return null;
        await new Promise((go) => requestAnimationFrame(go));
      }
      sheet.putImageData(stage.read(renderer, exposure, true), x, y);
    }
    return paper;
  } finally {
    renderer.free();
  }
}

export function download(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
