// A picture of splats through a lens: quickly, each Gaussian blurred by its own circle of confusion; or exactly, as the
// mean of sharp views from points all over the aperture, which improves view after view.
import { COVER, LIGHT, Target, cover, program } from "./gl.js";
import { aperturePoints, throughPoint } from "./aperture.js";
import { between, ease } from "./vectors.js";

const FADE = [0.15, 0.65]; // of the exact views: over these the picture passes from the quick blur to the exact one
const PINHOLE = { aperture: 0, focus: 0 };

// What is far out of focus has no detail, and is drawn with fewer pixels: a half, a quarter or an eighth along a side,
// where the radius of the blur is more than COARSE of those pixels. (A blurred Gaussian covers so many pixels that the
// quick blur would otherwise be most of the work.)
const COARSE = 3;
const COARSEST = 8;
// What is in focus, too, is drawn with half the pixels along a side, but for where fine Gaussians are. Where this share
// of all is fine, they would be everywhere.
const MANY = 0.25;

// Adds a view to the running mean, in linear light of the lens. Alpha of the mean is the sum of the views' weights: 1
// each, or by the lens's character (RealLens of optics/shapes.py).
const ADD = `
uniform sampler2D view;
uniform sampler2D mean;
uniform float first;      // 1: there is no mean yet
uniform float opaque;     // 1: the view has no alpha
uniform vec3 background;  // linear, in the light of the view
uniform vec4 place;       // of the camera: principal point (from the bottom left) and focal lengths, pixels
uniform vec2 point;       // of the lens, from which the view is seen
uniform vec4 character;   // cat's eye, two numbers of the profile, pupil
uniform vec3 blades;      // of an opening that moves with the direction: count (0: a disc), turn, roundness
uniform vec3 viewCurve;
uniform vec3 lensCurve;
out vec4 sum;
${LIGHT}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  vec4 seen = texelFetch(view, at, 0);
  vec3 light = opaque > 0.5 ? seen.rgb : seen.rgb + (1.0 - seen.a) * background;
  if (viewCurve != lensCurve) light = toLinear(toDisplay(light, viewCurve), lensCurve);
  vec2 direction = (gl_FragCoord.xy - place.xy) / place.zw;
  vec2 from = point - character.w * direction;
  float p = min(dot(from, from), 1.0), cut = 1.0 - length(from + character.x * direction);
  if (character.w != 0.0) {
    float reach = 1.0, half_ = 3.14159265 / max(blades.x, 1.0);
    if (blades.x > 0.0) {
      float past = mod(atan(from.y, from.x) - blades.y, 2.0 * half_) - half_;
      reach = mix(cos(half_) / cos(past), 1.0, blades.z);
    }
    cut = min(cut, reach - length(from));
  }
  float bright = 1.0 + character.y * (2.0 * p - 1.0) + character.z * (6.0 * p * p - 6.0 * p + 1.0);
  bool cuts = character.x != 0.0 || character.w != 0.0;
  float weight = max(bright, 0.0) * (cuts ? clamp(cut / 0.04 + 0.5, 0.0, 1.0) : 1.0);
  vec4 before = first > 0.5 ? vec4(light, 0.0) : texelFetch(mean, at, 0);
  float total = before.a + weight;
  sum = vec4(total > 0.0 ? mix(before.rgb, light, weight / total) : light, total);
}`;

// A pixel of a picture that may be smaller than the screen, interpolated.
const LOOK = `
vec4 look(sampler2D from, vec2 size, vec2 screen, vec2 pixel) {
  vec2 place = pixel * size / screen - 0.5;
  ivec2 last = ivec2(size) - 1, low = ivec2(floor(place));
  vec2 share = place - vec2(low);
  ivec2 a = clamp(low, ivec2(0), last), b = clamp(low + 1, ivec2(0), last);
  return mix(mix(texelFetch(from, a, 0), texelFetch(from, ivec2(b.x, a.y), 0), share.x),
             mix(texelFetch(from, ivec2(a.x, b.y), 0), texelFetch(from, b, 0), share.x), share.y);
}`;

// A smaller picture, enlarged, over what is there.
const ENLARGE = `
uniform sampler2D picture;
uniform vec4 sizes;       // of the picture, of the screen
out vec4 drawn;
${LOOK}
void main() { drawn = look(picture, sizes.xy, sizes.zw, gl_FragCoord.xy); }`;

// Light to the screen: `picture`, fading in over `before`; left of `split` (pixels) stands `other`. Pictures may be
// smaller than the screen. `overlay` 1 marks in red what is in focus, 2 shows depth.
const SHOW = `
uniform sampler2D picture;
uniform sampler2D before;
uniform sampler2D other;
uniform sampler2D depths;
uniform vec4 sizes;       // of picture, of before
uniform vec4 sizes2;      // of other, of depths
uniform vec2 screen;
uniform float fade;       // 0: only picture
uniform float gain;       // exposure
uniform float split;
uniform float overlay;
uniform vec4 lens;        // aperture in pixels of the screen x scene units, focus, far, near
uniform vec3 curve;
out vec4 shown;
${LIGHT}
${LOOK}
#ifdef OVERLAY
float grey(vec2 pixel) {
  return dot(toDisplay(look(picture, sizes.xy, screen, pixel).rgb, curve), vec3(0.3, 0.6, 0.1));
}
#endif
void main() {
  vec2 at = gl_FragCoord.xy;
  vec3 light = look(picture, sizes.xy, screen, at).rgb;
  if (fade > 0.0) light = mix(light, look(before, sizes.zw, screen, at).rgb, fade);
  bool left = at.x < split;
  if (left) light = look(other, sizes2.xy, screen, at).rgb;
  vec3 c = toDisplay(light * gain, curve);
#ifdef OVERLAY
  if (overlay > 0.5 && !left) {
    vec4 seen = look(depths, sizes2.zw, screen, at);
    float disparity = seen.a > 0.02 ? seen.r / seen.a : 0.0;
    if (overlay > 1.5) {
      float near = clamp((disparity - lens.z) / max(lens.w - lens.z, 1e-9), 0.0, 1.0);
      c = clamp(1.5 - abs(4.0 * near - vec3(3.0, 2.0, 1.0)), 0.0, 1.0);
    } else {
      float edge = length(vec2(grey(at + vec2(1.0, 0.0)) - grey(at - vec2(1.0, 0.0)),
                               grey(at + vec2(0.0, 1.0)) - grey(at - vec2(0.0, 1.0)))) / 2.0;
      float sharp = clamp(2.0 - abs(lens.x * (lens.y - disparity)) / (0.0005 * screen.x + 0.5), 0.0, 1.0);
      float red = clamp(edge / 0.06 - 0.5, 0.0, 1.0) * sharp;
      c = mix(mix(c, vec3(dot(c, vec3(1.0 / 3.0))), 0.4), vec3(1.0, 0.15, 0.1), red);
    }
  }
#endif
  shown = vec4(c, 1.0);
}`;

export class LensRenderer {
  // `scene`: curve, background and lensCurve; display values and light as in gl.js.
  constructor(gl, splats, scene) {
    Object.assign(this, { gl, splats, scene, targets: null, count: 0, pointsKey: "" });
  }

  resize(width, height) {
    if (this.targets && this.width === width && this.height === height) return;
    this.free();
    const gl = this.gl, make = (format) => new Target(gl, width, height, format);
    const half = gl.RGBA16F, full = gl.RGBA32F;
    this.targets = { view: make(half), mean: make(full), next: make(full), quick: make(half), other: make(half) };
    Object.assign(this, { width, height, count: 0 });
    this.sizes = { quick: [width, height], other: [width, height], depths: [width, height] };
  }

  free() {
    if (this.targets) Object.values(this.targets).forEach((target) => target.free());
    this.targets = null;
  }

  // Each Gaussian blurred by its own depth, in the light of the lens (a pinhole: in its own), with `scale` times the
  // pixels along each side. `into`: "quick", or "other" for the picture to compare with.
  quick(camera, lens, scale = 1, into = "quick") {
    const t = this.targets, curve = lens.aperture > 0 ? this.scene.lensCurve : this.scene.curve;
    const small = smaller(camera, scale), before = { ...lens, aperture: (lens.aperture * small.fx) / camera.fx };
    this.inParts(small, before, curve);
    this.put(t.view, null, t[into], curve, small);
    this.sizes[into] = [small.width, small.height];
    if (into === "quick") this.count = 0;
  }

  // Into `view`: far to near in parts, each of them out of focus enough for so many pixels. Blending parts that were
  // blended before is the same as blending one after the other.
  inParts(camera, lens, curve) {
    const { view } = this.targets, { gl, splats } = this, { aperture, focus } = lens;
    view.bind();
    gl.clear(gl.COLOR_BUFFER_BIT);
    let first = 0;
    for (const [times, until] of aperture > 0 ? parts(aperture, focus) : [[1, null]]) {
      const end = until === null ? splats.drawn : Math.max(first, splats.beyond(camera, until)), part = [first, end];
      first = end;
      if (part[0] === end) continue;
      if (times > 1) this.coarse(camera, lens, curve, part, times);
      else if (splats.fineShare(camera) > MANY) splats.draw(view, camera, lens, 1, curve, { part, clear: false });
      else {
        if (!view.depth) view.withDepth();
        splats.draw(view, camera, lens, 1, curve, { part, clear: false, fine: true });
        this.coarse(camera, lens, curve, part, 2, true);
      }
    }
  }

  // A part with fewer pixels, enlarged and blended over `view`; `elsewhere`: only where its depth is 1.
  coarse(camera, lens, curve, part, times, elsewhere = false) {
    const t = this.targets, { gl, splats } = this, small = smaller(camera, 1 / times);
    t.coarse ||= new Target(gl, Math.ceil(this.width / 2), Math.ceil(this.height / 2));
    const before = { ...lens, aperture: (lens.aperture * small.fx) / camera.fx };
    splats.draw(t.coarse, small, before, 1, curve, { part, times });
    t.view.bind(camera.width, camera.height);
    if (elsewhere) gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LESS);
    const sizes = [small.width, small.height, camera.width, camera.height];
    cover(gl, program(gl, COVER, ENLARGE), [t.coarse.texture], { picture: { unit: 0 }, sizes }, true);
    gl.disable(gl.DEPTH_TEST);
  }

  // Disparity, for overlays and clicks.
  depths(camera, scale = 1) {
    const t = this.targets, small = smaller(camera, scale);
    t.depths ||= new Target(this.gl, this.width, this.height, this.gl.RGBA16F);
    this.splats.draw(t.depths, small, PINHOLE, 0, this.scene.curve, { disparity: true });
    this.sizes.depths = [small.width, small.height];
  }

  // One more view from the aperture. `reach` is its shape, `most` how many views there will be. Returns the count.
  step(camera, lens, reach, most) {
    const key = `${most} ${reach}`;
    if (key !== this.pointsKey) {
      this.points = aperturePoints(reach, most);
      this.pointsKey = key;
    }
    const t = this.targets, point = lens.aperture > 0 ? this.points[this.count % this.points.length] : [0, 0];
    this.splats.draw(t.view, throughPoint(camera, lens, point), PINHOLE, 0, this.scene.curve);
    const through = { point, character: lens.character, blades: lens.blades };
    this.put(t.view, this.count ? t.mean : null, t.next, this.scene.curve, camera, through);
    [t.mean, t.next] = [t.next, t.mean];
    return ++this.count;
  }

  put(view, mean, into, curve, camera, { point = [0, 0], character, blades, opaque = 0 } = {}) {
    const { width, height, cx = 0, cy = 0, fx = 1, fy = 1 } = camera;
    into.bind(width, height);
    const { background, lensCurve } = this.scene;
    // A texture must not be read while it is drawn into: without a mean, the view stands in for it.
    cover(this.gl, program(this.gl, COVER, ADD), [view.texture, (mean || view).texture], {
      view: { unit: 0 }, mean: { unit: 1 }, first: mean ? 0 : 1, opaque, background: linear(background, curve),
      viewCurve: curve, lensCurve, point, character: character || [0, 0, 0, 0],
      blades: blades || [0, 0, 0], place: [cx, height - cy, fx, fy],
    });
  }

  // To the canvas, or into a target of the same size. `exact` shows the mean, fading in after it started.
  present({ exact, exposure = 0, split = -1, overlay = 0, lens = PINHOLE, range = [0, 1], into = null }) {
    const gl = this.gl, t = this.targets, whole = [this.width, this.height], mean = exact && this.count > 0;
    if (into) into.bind();
    else {
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.viewport(0, 0, this.width, this.height);
    }
    const seen = mean && !into && this.points.length > 1 ? this.count / this.points.length : 1;
    const fade = 1 - ease(between((seen - FADE[0]) / (FADE[1] - FADE[0]), 0, 1));
    const parts = [mean ? t.mean : t.quick, t.quick, t.other, t.depths || t.quick];
    const defines = overlay && t.depths ? "#define OVERLAY\n" : "";
    cover(gl, program(gl, COVER, SHOW, defines), parts.map((part) => part.texture), {
      picture: { unit: 0 }, before: { unit: 1 }, other: { unit: 2 }, depths: { unit: 3 },
      sizes: [...(mean ? whole : this.sizes.quick), ...this.sizes.quick],
      sizes2: [...this.sizes.other, ...this.sizes.depths], screen: whole,
      fade, gain: 2 ** exposure, split, overlay,
      lens: [lens.aperture, lens.focus, ...range], curve: this.scene.lensCurve,
    });
  }

  // Make the exact picture the one to compare with, and begin anew.
  keep() {
    const t = this.targets;
    this.put(t.mean, null, t.other, this.scene.lensCurve, this, { opaque: 1 });
    this.sizes.other = [this.width, this.height];
    this.count = 0;
  }

  // Median disparity around a pixel (column, row from the top) of the sharp view; null where nothing is.
  disparityAt(camera, column, row, half = 3) {
    const gl = this.gl, t = this.targets, side = 2 * half + 1;
    const x = Math.min(Math.max(Math.round(column) - half, 0), camera.width - side);
    const y = Math.min(Math.max(camera.height - 1 - Math.round(row) - half, 0), camera.height - side);
    this.splats.draw(t.view, camera, PINHOLE, 0, this.scene.curve, { disparity: true, box: [x, y, side, side] });
    const numbers = new Float32Array(4 * side * side);
    gl.readPixels(x, y, side, side, gl.RGBA, gl.FLOAT, numbers);
    const found = [];
    for (let i = 0; i < numbers.length; i += 4) if (numbers[i + 3] > 0.5) found.push(numbers[i] / numbers[i + 3]);
    return found.length ? found.sort((a, b) => a - b)[found.length >> 1] : null;
  }
}

// The parts of a scene behind a lens, far to near: [pixels along a side in one, disparity where it ends (null: never)].
function parts(aperture, focus) {
  const far = [], near = [];
  for (let times = COARSEST; times > 1; times /= 2) {
    const off = (COARSE * times) / aperture;
    if (focus > off) far.push([times, focus - off]);
    near.unshift([times, focus + off]);
  }
  const ends = near.map(([times], i) => [times, i + 1 < near.length ? near[i + 1][1] : null]);
  return [...far, [1, near[0][1]], ...ends];
}

// The same camera for a picture with fewer pixels.
function smaller(camera, scale) {
  if (scale === 1) return camera;
  const width = Math.max(8, Math.round(camera.width * scale)), height = Math.max(8, Math.round(camera.height * scale));
  const x = width / camera.width, y = height / camera.height;
  return { ...camera, width, height, fx: camera.fx * x, fy: camera.fy * y, cx: camera.cx * x, cy: camera.cy * y };
}

// A colour's display values in linear light of a curve; as LIGHT in gl.js.
function linear(colour, [gamma, shift, knee]) {
  if (gamma === 1) return colour;
  const toe = ((knee + shift) / (1 + shift)) ** gamma;
  return colour.map((x) => (x <= knee ? (x * toe) / knee : ((x + shift) / (1 + shift)) ** gamma));
}
