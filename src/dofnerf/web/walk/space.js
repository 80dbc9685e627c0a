// The scene in space with the cameras of its photos, as in a report: turn it, click a camera to stand there.
import { Stage } from "./stage.js";
import { Walk } from "./walk.js";
import { listenToGestures } from "./gestures.js";
import { cameraOf, depthOf, forward, pointAt, poseOf } from "./camera.js";
import { fromBase64, unpack } from "./unpack.js";
import { minus, plus, size } from "./vectors.js";

const $ = (id) => document.getElementById(id);
const NEAR = 26; // pixels from a camera that a click may be

class Space extends Walk {
  constructor(facts, stage, canvas, paper) {
    super(facts, stage, canvas);
    this.paper = paper;
    const middle = facts.photos.reduce((sum, photo) => plus(sum, photo.position, 1 / facts.photos.length), [0, 0, 0]);
    const spread = Math.max(...facts.photos.map((photo) => size(minus(photo.position, middle))));
    this.sight = Math.max(0.3 * spread, 0.03 * this.depthOfPivot()); // of the pyramids that stand for cameras
    this.listeners.push(() => { $("space-photo").value = facts.photos.indexOf(this.photo); });
  }

  followAddress() {} // the report has the address

  keepAddress() {}

  // A click: the camera there, or what is behind it in focus.
  async focusOn(x, y) {
    const found = this.cameraAt(x, y);
    if (found) this.visit(found);
    else if (this.view.lens.opening > 0) await super.focusOn(x, y);
  }

  goHome() {
    super.goHome();
    this.pivot = this.middle;
  }

  frame(now) {
    super.frame(now);
    this.sketch();
  }

  // Where the cameras are on the paper: [photo, tip, corners]. None while we stand in one: others would be in the way.
  placed() {
    const here = (photo) => size(minus(photo.position, this.view.pose.position)) < this.sight / 2;
    if (this.facts.photos.some(here)) return [];
    const box = this.paper.getBoundingClientRect();
    const camera = cameraOf(this.view.pose, box.width, box.height, this.aspect);
    const put = (point) => {
      const depth = depthOf(camera, point), off = minus(point, camera.position), a = camera.axes;
      const along = (k) => off[0] * a[k] + off[1] * a[k + 1] + off[2] * a[k + 2];
      if (depth <= 0) return null;
      return [camera.cx + (camera.fx * along(0)) / depth, camera.cy - (camera.fy * along(3)) / depth];
    };
    return this.facts.photos.map((photo) => {
      const { width, height } = photo, corners = [[0, 0], [width, 0], [width, height], [0, height]];
      const rim = corners.map(([x, y]) => put(pointAt(photo, x, y, this.sight)));
      return [photo, put(photo.position), rim];
    }).filter(([, tip, rim]) => tip && rim.every(Boolean));
  }

  cameraAt(x, y) {
    let best = null, least = NEAR;
    for (const [photo, tip, rim] of this.placed()) {
      const middle = [0, 1].map((k) => (tip[k] + rim.reduce((sum, corner) => sum + corner[k], 0)) / 5);
      const far = Math.hypot(middle[0] - x, middle[1] - y);
      if (far < least) [best, least] = [photo, far];
    }
    return best;
  }

  sketch() {
    const { paper } = this, { width, height } = paper.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    [paper.width, paper.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const pen = paper.getContext("2d"), style = getComputedStyle(document.documentElement);
    pen.scale(ratio, ratio);
    for (const [photo, tip, rim] of this.placed()) {
      for (const [wide, colour] of [[4, "#0009"], [2, style.getPropertyValue(photo.held ? "--accent" : "--true")]]) {
        Object.assign(pen, { lineWidth: wide, strokeStyle: photo === this.hovered ? "#fff" : colour });
        pen.beginPath();
        rim.forEach((corner, k) => {
          pen.moveTo(...tip);
          pen.lineTo(...corner);
          pen.lineTo(...rim[(k + 1) % 4]);
        });
        pen.stroke();
      }
    }
  }
}

async function begin() {
  const facts = JSON.parse($("space-facts").textContent);
  const scene = await unpack(fromBase64($("space-scene").textContent));
  const canvas = $("space"), paper = $("space-cameras"), stage = new Stage(canvas, scene);
  const space = new Space(facts, stage, canvas, paper), ahead = forward(poseOf(facts.home));
  space.middle = space.pivot = plus(facts.home.position, ahead, facts.distance);
  listenToGestures(paper, space);
  paper.addEventListener("pointermove", (event) => {
    const box = paper.getBoundingClientRect();
    const found = space.cameraAt(event.clientX - box.left, event.clientY - box.top);
    if (found === space.hovered) return;
    space.hovered = found;
    paper.title = found ? found.name : "";
    paper.style.cursor = found ? "pointer" : "";
    space.sketch();
  });
  facts.photos.forEach((photo, i) => $("space-photo").append(new Option(photo.name, i)));
  $("space-photo").onchange = ({ target }) => {
    const photo = facts.photos[target.value];
    if (photo) space.visit(photo);
    else space.goHome();
  };
  $("space-home").onclick = () => space.goHome();
  window.dofnerf = space; // for tests
  space.wake();
}

// The work begins when somebody comes to look.
const watch = new IntersectionObserver((entries) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  watch.disconnect();
  begin().catch((error) => { $("space-words").textContent = `The scene cannot be shown here: ${error.message}`; });
}, { rootMargin: "200px" });
watch.observe($("space"));
