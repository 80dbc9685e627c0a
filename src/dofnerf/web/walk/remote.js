// Draws a scene that is no splats: the server draws, the page shows its pictures. The same functions as Stage.
import { between } from "./vectors.js";

export class Remote {
  constructor(canvas) {
    this.canvas = canvas;
    this.sheet = canvas.getContext("2d");
    this.busy = false;
    this.finished = false;
  }

  // Ask for a picture; the newest wins, one at a time. `level` 0 is coarse, higher is finer.
  async ask(seen, level) {
    if (this.busy) return;
    this.busy = true;
    this.level = level;
    try {
      const answer = await fetch("picture", { method: "POST", body: JSON.stringify({ ...plain(seen), level }) });
      if (!answer.ok) return;
      const bitmap = await createImageBitmap(await answer.blob());
      this.last = bitmap;
      this.put();
      if (this.wanted === seen) this.finished = Boolean(answer.headers.get("X-Finest"));
      if (this.wanted === seen) this.reached = level;
    } catch {
      await new Promise((go) => setTimeout(go, 1000)); // the server has gone, perhaps for a moment
    } finally {
      this.busy = false;
    }
  }

  put() {
    if (this.last) this.sheet.drawImage(this.last, 0, 0, this.canvas.width, this.canvas.height);
  }

  move(seen) {
    this.put();
    this.wanted = seen;
    this.reached = -1;
    this.finished = false;
    this.ask(seen, 0);
  }

  rest(seen) {
    if (!this.finished && !this.busy) {
      if (!this.wanted || key(this.wanted) !== key(seen)) this.reached = -1;
      this.wanted = seen;
      this.ask(seen, between(this.reached + 1, 1, 9));
    }
    return this.finished;
  }

  present(seen) {
    this.move(seen);
  }

  stir() {
    this.finished = false;
    this.reached = -1;
  }

  async disparityAt(camera, column, row) {
    const answer = await fetch("depth", { method: "POST", body: JSON.stringify({ camera, column, row }) });
    return answer.ok ? (await answer.json()).disparity : null;
  }

  async thumbnail(camera, lens) {
    const seen = { camera, lens, exposure: 0, overlay: 0, blades: 0, rotation: 0 };
    const answer = await fetch("picture", { method: "POST", body: JSON.stringify({ ...seen, level: 0 }) });
    if (!answer.ok) return null;
    const bitmap = await createImageBitmap(await answer.blob());
    const paper = new OffscreenCanvas(camera.width, camera.height).getContext("2d");
    paper.drawImage(bitmap, 0, 0, camera.width, camera.height);
    return paper.getImageData(0, 0, camera.width, camera.height);
  }

  viewsFor() {
    return 1;
  }

  // The finest picture as a PNG; null if there is none.
  async still(seen, camera, lens) {
    const asked = { ...plain({ ...seen, camera, lens }), level: 9, png: true };
    const answer = await fetch("picture", { method: "POST", body: JSON.stringify(asked) });
    return answer.ok ? answer.blob() : null;
  }
}

const plain = ({ camera, lens, exposure, overlay, shape }) => ({ camera, lens, exposure, overlay, ...shape });
const key = ({ camera, lens, exposure, overlay, shape }) => JSON.stringify([camera, lens, exposure, overlay, shape]);
