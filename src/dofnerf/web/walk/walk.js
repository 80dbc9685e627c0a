// What the photographer sees and does: camera, lens, focus pulls, flights, and the loop that draws it all.
import { bladesReach } from "./aperture.js";
import { cameraOf, confine, depthOf, flight, forward, pointAt, poseOf, wallsAround } from "./camera.js";
import { fromHash, keepInAddress } from "./address.js";
import { MOVES } from "./moves.js";
import { between, ease, minus, mix, plus, size } from "./vectors.js";

const PULL = 600, FLY = 1200, BACK = 350; // milliseconds
const CALM = 140; // milliseconds without a change after which the exact picture begins
const MOST_PIXELS = 2.4e6, MOST_ON_PHONE = 1.0e6;

export class Walk {
  // `facts`: what the page knows of the scene (dofnerf/web/walk_page.py); `stage` draws.
  constructor(facts, stage, canvas) {
    Object.assign(this, { facts, stage, canvas, listeners: [], running: [], changed: -1, waiting: null });
    const up = facts.up;
    this.aspect = facts.home.width / facts.home.height;
    this.up = up.map((x) => x / size(up));
    const home = poseOf(facts.home);
    this.home = {
      pose: home, exposure: 0,
      lens: { opening: facts.start.opening, focus: facts.start.focus, blades: facts.blades, rotation: facts.rotation },
    };
    this.pivot = plus(home.position, forward(home), 1 / Math.max(facts.start.focus, 1e-9));
    this.least = 0.35 / Math.max(facts.range[1], 1e-9);
    this.walls = facts.free ? null : wallsAround(facts.photos, this.pivot);
    this.view = { ...this.home, overlay: 0, split: 0.5, comparing: false, follow: true };
    this.photo = null; // the photo whose lens is compared with: the last one that was flown to, else the nearest
    this.followAddress();
    new ResizeObserver(() => this.fit()).observe(canvas);
    this.fit();
  }

  followAddress() {
    const read = () => {
      const found = fromHash(location.hash);
      if (found) this.restore(found);
    };
    read();
    addEventListener("hashchange", read);
  }

  keepAddress() {
    keepInAddress(this.view);
  }

  restore({ pose, lens, exposure }) {
    this.stop();
    const [low, high] = this.facts.openings, blades = this.shapes().includes(lens.blades) ? lens.blades : 0;
    const opening = lens.opening > 0 ? between(lens.opening, low, high) : 0;
    const at = confine(pose, this.walls, 0);
    this.set({ pose: at, lens: { ...lens, opening, blades }, exposure: between(exposure, -4, 4) });
    this.pivot = plus(pose.position, forward(pose), 1 / Math.max(lens.focus, this.facts.range[0], 1e-9));
  }

  shapes() {
    return [...new Set([0, 5, 6, 7, 8, 9, 3, 4, ...(this.facts.rim ? [-1] : []), this.facts.blades])];
  }

  // Change what is seen. Keys of {pose, lens, exposure, overlay, split, comparing, follow}.
  set(changes) {
    const lens = { ...this.view.lens, ...changes.lens };
    this.view = { ...this.view, ...changes, lens };
    if (Object.keys(changes).every((key) => key === "split" || key === "exposure")) this.shown = false;
    else this.touch();
    this.tell();
    this.wake();
  }

  touch() {
    this.changed = performance.now();
    this.stage.stir();
  }

  tell() {
    this.listeners.forEach((listener) => listener(this.view));
  }

  // The canvas has as many pixels as its place on the screen, or as many as are good for this machine.
  fit() {
    const box = this.canvas.getBoundingClientRect(), ratio = Math.min(devicePixelRatio || 1, 2);
    const most = matchMedia("(pointer: coarse)").matches ? MOST_ON_PHONE : MOST_PIXELS;
    const scale = Math.min(ratio, Math.sqrt(most / Math.max(box.width * box.height, 1)));
    const width = Math.max(16, Math.round(box.width * scale)), height = Math.max(16, Math.round(box.height * scale));
    if (this.canvas.width === width && this.canvas.height === height) return;
    [this.canvas.width, this.canvas.height] = [width, height];
    this.touch();
    if (this.drawn) this.stage.move(this.seen()); // another size empties the canvas
    this.wake();
  }

  camera(width = this.canvas.width, height = this.canvas.height) {
    return cameraOf(this.view.pose, width, height, this.aspect);
  }

  // The lens as the renderer takes it, before a camera.
  lensFor(camera, { opening, focus } = this.view.lens) {
    const character = this.view.lens.blades < 0 ? this.facts.character : null;
    const [count, roundness] = this.facts.blade || [0, 0];
    const blades = [count, (this.view.lens.rotation * Math.PI) / 180, roundness];
    return { aperture: opening * this.view.pose.focal * camera.fx, focus, character, blades };
  }

  reach({ blades, rotation } = this.view.lens) {
    const rim = this.facts.rim, turn = rim ? Math.round((rotation / 360) * rim.length) : 0;
    if (blades < 0 && this.facts.character && this.facts.character[3]) return bladesReach(0, 0); // moves: by weights
    if (blades < 0 && rim) return rim.map((_, i) => rim[(((i - turn) % rim.length) + rim.length) % rim.length]);
    return bladesReach(blades, rotation);
  }

  // What the stage is asked for.
  seen() {
    const camera = this.camera(), { exposure, split, overlay, comparing } = this.view, { range } = this.facts;
    const shot = comparing ? this.lensFor(camera, this.shotLens()) : null;
    const { blades, rotation } = this.view.lens, lens = this.lensFor(camera);
    return { camera, lens, shot, reach: this.reach(), shape: { blades, rotation }, exposure, split, overlay, range };
  }

  // As shot: the lens of the photo that was visited, or of the nearest one; all sharp where none is known.
  shotLens() {
    const known = this.facts.photos.filter((photo) => photo.opening > 0);
    if (!known.length) return { opening: 0, focus: 0 };
    if (this.photo && known.includes(this.photo)) return this.photo;
    const far = (photo) => size(minus(photo.position, this.view.pose.position));
    return known.reduce((best, photo) => (far(photo) < far(best) ? photo : best));
  }

  depthOfPivot() {
    return Math.max(size(minus(this.pivot, this.view.pose.position)), this.least);
  }

  // By hand: `change` is a function of the pose. Walls give way a little until the hand lets go.
  drag(change, what) {
    this.stop();
    const before = this.view.pose, pose = confine(change(before), this.walls, 1);
    this.set({ pose, ...this.followed(before, pose) });
    this.used?.(what);
  }

  release() {
    const from = this.view.pose, to = confine(from, this.walls, 0);
    const moved = size(minus(from.position, to.position)) + size(minus(from.axes, to.axes));
    if (moved > 1e-6) this.play(BACK, (share) => this.set({ pose: flight(from, to, ease(share)) }));
  }

  // The focus stays on the subject while the camera moves, if that is wanted.
  followed(before, after) {
    if (!this.view.follow) return {};
    const depth = depthOf(after, this.pivot), was = depthOf(before, this.pivot), { focus } = this.view.lens;
    if (!(depth > 0) || !(was > 0) || Math.abs(focus * was - 1) > 0.2) return {};
    return { lens: { focus: 1 / depth } };
  }

  // Focus on what is at a place of the canvas, in pixels of the screen.
  async focusOn(x, y) {
    const box = this.canvas.getBoundingClientRect(), camera = this.camera();
    const column = (x / box.width) * camera.width, row = (y / box.height) * camera.height;
    const disparity = await this.stage.disparityAt(camera, column, row);
    this.ring?.(x, y, disparity !== null);
    if (disparity === null) return;
    this.stop();
    this.pivot = pointAt(camera, column, row, 1 / disparity);
    this.pull(disparity);
    this.used?.("focus");
  }

  pull(disparity) {
    const from = this.view.lens.focus;
    this.play(PULL, (share) => this.set({ lens: { focus: mix(from, disparity, ease(share)) } }));
  }

  // Fly to a pose, and turn the lens on the way; `then`, unless something else is done before.
  fly(pose, lens = {}, exposure = this.view.exposure, { milliseconds = FLY, then = () => {} } = {}) {
    this.stop();
    const from = this.view, root = (x) => Math.sqrt(Math.max(x, 0));
    const to = { ...from.lens, ...lens };
    this.play(milliseconds, (share) => {
      const part = ease(share), opening = mix(root(from.lens.opening), root(to.opening), part) ** 2;
      this.set({
        pose: flight(from.pose, pose, part), exposure: mix(from.exposure, exposure, part),
        lens: { ...to, opening, focus: mix(from.lens.focus, to.focus, part) },
      });
    }, (ended) => { if (ended) then(); });
    if (to.focus > 0) this.pivot = plus(pose.position, forward(pose), 1 / to.focus);
  }

  // Where a photo was taken, with the lens that was found for it; `sharp`: all in focus.
  visit(photo, sharp = false) {
    this.photo = photo;
    const found = photo.opening > 0 ? { opening: photo.opening, focus: photo.focus } : {};
    this.fly(poseOf(photo), sharp ? { opening: 0 } : found);
    this.used?.("photo");
  }

  goHome() {
    this.photo = null;
    this.fly(this.home.pose, this.home.lens, 0);
  }

  perform(name) {
    this.stop();
    const move = MOVES[name], begin = { pose: this.view.pose, lens: this.view.lens };
    const reach = 0.125 * this.depthOfPivot();
    const { pivot, up, least, facts: { range } } = this;
    const angle = Math.min(0.35, 1.5 * reach / this.depthOfPivot());
    const held = (pose) => confine(pose, this.walls, 0);
    this.playing = name;
    this.play(1000 * move.seconds, (share) => {
      const { pose, lens } = move.at(begin, { pivot, up, range, reach, least, angle, held }, share), at = held(pose);
      this.set({ pose: at, ...(lens === begin.lens ? this.followed(this.view.pose, at) : { lens }) });
    }, () => { this.playing = null; });
  }

  // An animation: `act(share)` for so many milliseconds, then `done(whether it came to its end)`.
  play(milliseconds, act, done = () => {}) {
    this.running.push({ since: performance.now(), milliseconds, act, done });
    this.wake();
  }

  stop() {
    this.running.splice(0).forEach(({ done }) => done(false));
    this.tell();
  }

  wake() {
    this.waiting ??= requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.waiting = null;
    for (const one of [...this.running]) {
      const share = between((now - one.since) / one.milliseconds, 0, 1);
      if (!this.running.includes(one)) continue;
      one.act(share);
      if (share === 1) {
        this.running = this.running.filter((other) => other !== one);
        one.done(true);
        this.tell();
      }
    }
    const interval = this.last ? now - this.last : 0, moving = this.running.length > 0 || this.changed >= 0;
    this.last = now;
    if (moving && (this.running.length || now - this.changed < CALM || this.drawn !== this.view)) {
      if (this.drawn !== this.view || this.running.length) this.stage.move(this.seen(), this.wasMoving ? interval : 0);
      this.drawn = this.view;
      this.wasMoving = true;
      this.say("moving");
      this.wake();
      return;
    }
    this.changed = -1;
    this.drawn = this.view;
    const done = this.stage.rest(this.seen(), this.wasMoving ? 0 : interval);
    this.wasMoving = false;
    if (this.shown === false) this.stage.present(this.seen());
    this.shown = true;
    this.say(done ? "done" : "refining");
    if (this.kept !== this.view) this.keepAddress(); // browsers take only so many addresses a second
    this.kept = this.view;
    if (done) this.last = 0;
    else this.wake();
  }

  say(state) {
    if (document.body.dataset.state !== state) document.body.dataset.state = state;
  }
}
