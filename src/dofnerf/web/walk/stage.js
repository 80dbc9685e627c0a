// Draws the scene in the page: quickly while something moves, then exactly, view after view, as long as it pays.
//
// What is to be seen is {camera, lens, shot, reach, exposure, split, overlay}: `lens` and `shot` (the lens to compare
// with, or null) are {aperture, focus}, `reach` the shape of the aperture (see aperture.js).
import { Target, context } from "./gl.js";
import { LensRenderer } from "./exact_lens.js";
import { Sorter } from "./sorter.js";
import { Splats } from "./splats.js";

const SCALES = [1, 0.8, 0.64, 0.5, 0.4, 0.3, 0.22]; // pixels along a side while something moves
const SLOW = 34, QUICK = 17; // milliseconds a frame: above, fewer pixels; below, more
const PATIENT = 120; // milliseconds that a frame may take at rest
const FEWEST = 32, MOST = 256; // exact views

export class Stage {
  constructor(canvas, scene) {
    this.canvas = canvas;
    this.gl = context(canvas);
    this.level = 2;
    this.late = 25;
    this.batch = 1;
    this.most = MOST;
    this.use(scene);
  }

  // Another scene, or another state of the same one; with a `camera`, once its Gaussians are in order for that.
  use(scene, camera = null) {
    const splats = new Splats(this.gl, scene), sorter = new Sorter(scene.means);
    const take = () => {
      if (this.splats) [this.splats, this.renderer, this.sorter, this.small].forEach((part) => part && part.free());
      const renderer = new LensRenderer(this.gl, splats, scene);
      Object.assign(this, { scene, splats, sorter, renderer, small: null, order: null, sorted: "", asked: "" });
    };
    if (!camera) return take();
    return new Promise((done) => {
      sorter.sort(camera, (indices) => {
        splats.reorder(indices);
        take();
        done();
      });
    });
  }

  // How many exact views a lens needs: about one for four pixels of its largest blur.
  viewsFor(lens, range) {
    if (!(lens.aperture > 0)) return 1;
    const radius = lens.aperture * Math.max(lens.focus - range[0], range[1] - lens.focus);
    return Math.round(Math.min(Math.max((Math.PI * radius * radius) / 4, FEWEST), this.most));
  }

  // A frame while something moves. `interval` is the time since the last such frame in milliseconds, if there was one.
  move(seen, interval) {
    if (interval) {
      this.late = 0.7 * this.late + 0.3 * interval;
      if (this.late > SLOW && this.level < SCALES.length - 1) {
        this.level = Math.min(this.level + (this.late > 3 * SLOW ? 2 : 1), SCALES.length - 1);
        this.late = 25;
      } else if (this.late < QUICK && this.level > 0) {
        this.level -= 1;
        this.late = 25;
      }
    }
    this.arrange(seen.camera);
    this.draft(seen, SCALES[this.level]);
    this.comparing = seen.shot ? "quick" : "";
  }

  draft(seen, scale) {
    const r = this.renderer;
    r.resize(this.canvas.width, this.canvas.height);
    if (seen.shot) r.quick(seen.camera, seen.shot, scale, "other");
    r.quick(seen.camera, seen.lens, scale);
    if (seen.overlay) r.depths(seen.camera, scale);
    this.finished = false;
    this.present(seen);
  }

  // Ask for the order of the Gaussians, if the camera has moved.
  arrange(camera) {
    const key = `${camera.position} ${camera.axes.slice(6)}`;
    if (key === this.asked) return;
    this.asked = key;
    const { splats, sorter } = this;
    sorter.sort(camera, (indices) => {
      if (splats !== this.splats) return;
      this.order = indices;
      this.sorted = key;
      splats.reorder(indices);
    });
  }

  // Whether the Gaussians are in order for this camera.
  ordered(camera) {
    this.arrange(camera);
    return this.sorted === this.asked;
  }

  // A frame at rest: a few exact views more. Returns whether the picture is finished. `interval` as above.
  rest(seen, interval) {
    if (this.finished || !this.ordered(seen.camera)) return this.finished;
    const r = this.renderer;
    if (!this.resting) { // all pixels first, in the right order
      this.draft(seen, 1);
      this.resting = true;
      if (seen.shot) this.comparing = "quick";
      return false;
    }
    if (interval > PATIENT) this.batch = Math.max(1, this.batch >> 1);
    else if (interval < PATIENT / 2) this.batch = Math.min(8, this.batch + 1);
    const lens = this.comparing === "quick" ? seen.shot : seen.lens;
    const most = this.viewsFor(lens, seen.range);
    for (let i = 0; i < this.batch && r.count < most; i++) r.step(seen.camera, lens, seen.reach, most);
    if (r.count >= most) {
      if (this.comparing === "quick") {
        r.keep();
        this.comparing = "exact";
      } else this.finished = true;
    }
    this.present(seen);
    return this.finished;
  }

  // To the screen as it is, for example when only the exposure or the split has changed.
  present(seen) {
    const { exposure, split, overlay, lens, range, shot } = seen;
    const at = shot ? split * this.canvas.width : -1;
    this.renderer.present({ exact: this.comparing !== "quick", exposure, split: at, overlay, lens, range });
  }

  // Nothing that was accumulated holds any more.
  stir() {
    this.finished = this.resting = false;
  }

  // The disparity under a pixel of the canvas, or null. It must not disturb what is being accumulated.
  disparityAt(camera, column, row) {
    this.renderer.resize(this.canvas.width, this.canvas.height);
    return this.renderer.disparityAt(camera, column, row);
  }

  // A small picture of what another camera sees through its lens, as pixels; takes turns with the large one.
  thumbnail(camera, lens) {
    const { splats, sorter, gl } = this;
    return new Promise((resolve) => {
      sorter.sort(camera, (indices) => {
        if (splats !== this.splats) return resolve(null);
        this.small ||= new LensRenderer(gl, splats, this.scene);
        this.small.resize(camera.width, camera.height);
        splats.reorder(indices);
        this.small.quick(camera, lens);
        resolve(this.read(this.small, 0));
        if (this.order) splats.reorder(this.order);
      }, `small ${camera.position} ${camera.axes}`);
    });
  }

  // What a renderer shows, as ImageData.
  read(renderer, exposure, exact = false) {
    const gl = this.gl, { width, height } = renderer, into = new Target(gl, width, height, gl.RGBA8);
    renderer.present({ exact, exposure, into });
    const bytes = new Uint8ClampedArray(4 * width * height), image = new ImageData(width, height);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    into.free();
    for (let row = 0; row < height; row++) { // from the top
      image.data.set(bytes.subarray(4 * width * (height - 1 - row), 4 * width * (height - row)), 4 * width * row);
    }
    return image;
  }
}
