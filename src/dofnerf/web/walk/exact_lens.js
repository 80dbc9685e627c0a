// A picture of splats through a lens: quickly, each Gaussian blurred by its own circle of confusion; or exactly, as the
// mean of sharp views from points all over the aperture, which improves view after view.
import { COVER, LIGHT, Target, cover, program } from "./gl.js";
import { aperturePoints, throughPoint } from "./aperture.js";

const FADE = 1 / 3; // of the exact views: over these the picture passes from the quick blur to the exact one
const PINHOLE = { aperture: 0, focus: 0 };

// Adds a view to the running mean: mean += (view - mean) * share, in linear light of the lens.
const ADD = `
uniform sampler2D view;
uniform sampler2D mean;
uniform float share;
uniform vec3 background;  // linear, in the light of the view
uniform vec3 viewCurve;
uniform vec3 lensCurve;
out vec4 sum;
${LIGHT}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  vec4 seen = texelFetch(view, at, 0);
  vec3 light = seen.rgb + (1.0 - seen.a) * background;
  if (viewCurve != lensCurve) light = toLinear(toDisplay(light, viewCurve), lensCurve);
  sum = vec4(share < 1.0 ? mix(texelFetch(mean, at, 0).rgb, light, share) : light, 1.0);
}`;

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
vec4 look(sampler2D from, vec2 size, vec2 pixel) {
  vec2 place = pixel * size / screen - 0.5;
  ivec2 last = ivec2(size) - 1, low = ivec2(floor(place));
  vec2 share = place - vec2(low);
  ivec2 a = clamp(low, ivec2(0), last), b = clamp(low + 1, ivec2(0), last);
  return mix(mix(texelFetch(from, a, 0), texelFetch(from, ivec2(b.x, a.y), 0), share.x),
             mix(texelFetch(from, ivec2(a.x, b.y), 0), texelFetch(from, b, 0), share.x), share.y);
}
#ifdef OVERLAY
float grey(vec2 pixel) { return dot(toDisplay(look(picture, sizes.xy, pixel).rgb, curve), vec3(0.3, 0.6, 0.1)); }
#endif
void main() {
  vec2 at = gl_FragCoord.xy;
  vec3 light = look(picture, sizes.xy, at).rgb;
  if (fade > 0.0) light = mix(light, look(before, sizes.zw, at).rgb, fade);
  bool left = at.x < split;
  if (left) light = look(other, sizes2.xy, at).rgb;
  vec3 c = toDisplay(light * gain, curve);
#ifdef OVERLAY
  if (overlay > 0.5 && !left) {
    vec4 seen = look(depths, sizes2.zw, at);
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
    const t = this.targets, sharp = !(lens.aperture > 0), curve = sharp ? this.scene.curve : this.scene.lensCurve;
    const small = smaller(camera, scale), before = { ...lens, aperture: (lens.aperture * small.fx) / camera.fx };
    this.splats.draw(t.view, small, before, sharp ? 0 : 1, curve);
    this.put(t.view, null, t[into], 1, curve, small);
    this.sizes[into] = [small.width, small.height];
    if (into === "quick") this.count = 0;
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
    this.put(t.view, t.mean, t.next, 1 / (this.count + 1), this.scene.curve, camera);
    [t.mean, t.next] = [t.next, t.mean];
    return ++this.count;
  }

  put(view, mean, into, share, curve, { width, height }) {
    into.bind(width, height);
    const { background, lensCurve } = this.scene;
    // A texture must not be read while it is drawn into: without a mean, the view stands in for it.
    cover(this.gl, program(this.gl, COVER, ADD), [view.texture, (mean || view).texture], {
      view: { unit: 0 }, mean: { unit: 1 }, share, background: linear(background, curve), viewCurve: curve, lensCurve,
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
    const share = mean && !into && this.points.length > 1 ? this.count / (FADE * this.points.length) : 1;
    const fade = share < 1 ? 1 - share * share * (3 - 2 * share) : 0;
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
    this.put(t.mean, null, t.other, 1, this.scene.lensCurve, this);
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
