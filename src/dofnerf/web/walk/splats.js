// Gaussians drawn as quads, far to near, blended in the light that they were trained in. Each is projected once, in the
// order of blending, into three texels; the corners of its quad only read those. (Instances would be simpler, and are
// slow: software renderers draw them one by one, and graphics cards use four of 32 or 64 lanes for each.)
//
// The projection follows models/splat/raster/reference.py line by line: a camera is {position, axes, fx, fy, cx, cy,
// width, height}; `axes` are nine numbers, the columns of camera-to-world (x right, y up, looking along -z).
import { COVER, LIGHT, floatTexture, program } from "./gl.js";

const ROW = 2048; // texels in a row of the data texture, at most
const ACROSS = 1024; // Gaussians in a row of the projected ones
const LOW_PASS = 0.3; // pixels squared, as in training
const ENLARGED = 1 / 6; // the same, of a pixel that is interpolated linearly
// Gaussians narrower than FINE pixels (the standard deviation along the shorter axis) need every pixel where their
// alpha is more than SEEN, and MARGIN pixels around: there, half the pixels along a side would show.
const FINE = 1.5;
const SEEN = 4 / 255;
const MARGIN = 2;
const SAMPLE = 500; // Gaussians that are looked at to see how many are fine

const PROJECT = `
uniform highp sampler2D data;
uniform ivec2 row;         // texels of a Gaussian, Gaussians in a row
uniform int degree;
uniform vec3 position;
uniform mat3 axes;         // world to camera: x right, y down, z ahead
uniform vec4 lens;         // fx, fy, cx, cy in pixels, y down
uniform vec2 size;
uniform vec4 frame;        // left, top, right, bottom of the picture that this is a part of, in pixels
uniform vec3 blur;         // aperture (pixels x scene units), focus disparity, radius (0: pinhole, 1: the whole lens)
uniform vec2 filtered;     // variance of the low-pass; of what is added later, when the picture is enlarged
uniform float near;
uniform float keeps;       // 1 if the low-pass does not reduce the opacity, else 0
uniform vec3 curve;
uniform highp usampler2D order;
uniform int count;
layout(location = 0) out vec4 middle;  // pixel; the ellipse's longer half axis, in pixels
layout(location = 1) out vec4 side;    // the shorter one; half the squared cut-off distance; disparity
layout(location = 2) out vec4 light;   // colour in linear light; opacity, 0 if it is not seen

${LIGHT}
ivec2 first;
vec4 texel(int k) { return texelFetch(data, first + ivec2(k, 0), 0); }
vec3 coefficient(int k) { return texel(3 + k).xyz; }

vec3 shade(vec3 d) {
  vec3 c = 0.28209479177387814 * coefficient(0);
  if (degree > 0) c += 0.4886025119029199 * (-d.y * coefficient(1) + d.z * coefficient(2) - d.x * coefficient(3));
  if (degree > 1) {
    float xx = d.x * d.x, yy = d.y * d.y, zz = d.z * d.z;
    c += 1.0925484305920792 * (d.x * d.y * coefficient(4) - d.y * d.z * coefficient(5) - d.x * d.z * coefficient(7));
    c += 0.31539156525252005 * (2.0 * zz - xx - yy) * coefficient(6) + 0.5462742152960396 * (xx - yy) * coefficient(8);
    if (degree > 2) {
      c += -0.5900435899266435 * d.y * (3.0 * xx - yy) * coefficient(9);
      c += 2.890611442640554 * d.x * d.y * d.z * coefficient(10);
      c += -0.4570457994644658 * (4.0 * zz - xx - yy) * (d.y * coefficient(11) + d.x * coefficient(13));
      c += 0.3731763325901154 * d.z * (2.0 * zz - 3.0 * xx - 3.0 * yy) * coefficient(12);
      c += 1.445305721320277 * d.z * (xx - yy) * coefficient(14);
      c -= 0.5900435899266435 * d.x * (xx - 3.0 * yy) * coefficient(15);
    }
  }
  return max(c + 0.5, 0.0);
}

void main() {
  middle = side = light = vec4(0.0);
  ivec2 at = ivec2(gl_FragCoord.xy);
  if (at.y * ${ACROSS} + at.x >= count) return;
  int index = int(texelFetch(order, at, 0).r);
  first = ivec2(index % row.y * row.x, index / row.y);
  vec4 place = texel(0), q = texel(1), scale = texel(2);
  float solid = place.w;
  vec3 away = place.xyz - position, local = axes * away;
  float depth = local.z;
  if (depth <= near || solid <= 1.0 / 255.0) return;
  vec2 slope = local.xy / depth, where = lens.zw + lens.xy * slope;
  vec2 low = (frame.xy - lens.zw) / lens.xy, high = (frame.zw - lens.zw) / lens.xy, margin = 0.15 * (high - low);
  slope = clamp(slope, low - margin, high + margin);
  vec2 zoom = lens.xy / depth;
  float w = q.x, x = q.y, y = q.z, z = q.w;
  mat3 turn = mat3(
    1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y),
    2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x),
    2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y));
  mat3 spread = axes * mat3(turn[0] * scale.x, turn[1] * scale.y, turn[2] * scale.z);
  vec3 across = vec3(spread[0].x, spread[1].x, spread[2].x), down = vec3(spread[0].y, spread[1].y, spread[2].y);
  vec3 ahead = vec3(spread[0].z, spread[1].z, spread[2].z);
  vec3 u = zoom.x * (across - slope.x * ahead), v = zoom.y * (down - slope.y * ahead);
  float uu = dot(u, u), uv = dot(u, v), vv = dot(v, v), flatness = dot(cross(u, v), cross(u, v));
  float disparity = 1.0 / depth, coc = blur.x * (blur.y - disparity), reduced = blur.z * coc;
  float narrow = (uu + vv) / 2.0 - length(vec2((uu - vv) / 2.0, uv)); // variance along the shorter axis
  float photo = scale.w * lens.x / length(local); // side, in pixels, of the finest pixel of a photo there
  float least = max(filtered.x, ${LOW_PASS} * photo * photo), kept = keeps * least;
  float grown = max(least + reduced * reduced / 4.0 - filtered.y, ${LOW_PASS} - narrow);
  float det = flatness + grown * (uu + vv) + grown * grown;
  float detKept = max(flatness + kept * (uu + vv) + kept * kept, 1e-30);
  float opacity = solid * sqrt(detKept / det);
  float lost = min(1.0 / 255.0 / max(opacity, 1e-30), max(1.0 / 255.0 / solid, 0.03));
  float reach = -2.0 * log(min(lost, 1.0));
  if (!(reach > 0.0) || !(det < 1e30)) return;
  // The axes of the ellipse: eigenvectors of the covariance.
  float a = uu + grown, c = vv + grown, half_sum = (a + c) / 2.0, root = length(vec2((a - c) / 2.0, uv));
  float l1 = half_sum + root, l2 = max(half_sum - root, det / l1);
  vec2 major = abs(uv) > 1e-12 * l1 ? normalize(vec2(uv, l1 - a)) : (a >= c ? vec2(1.0, 0.0) : vec2(0.0, 1.0));
  vec2 reaches = sqrt(reach * vec2(a, c));
  if (any(lessThan(where + reaches, vec2(0.0))) || any(greaterThan(where - reaches, size))) return;
  middle = vec4(where, sqrt(reach * l1) * major);
  side = vec4(sqrt(reach * l2) * vec2(-major.y, major.x), 0.5 * reach, disparity);
  light = vec4(toLinear(shade(normalize(away)), curve), opacity);
}`;

const VERTEX = `
uniform highp sampler2D middles;
uniform highp sampler2D sides;
uniform highp sampler2D lights;
uniform vec2 size;
out vec2 place;            // in units of the cut-off radius
flat out vec4 colour;
flat out vec2 cut;         // half the squared cut-off distance; disparity
void main() {
  int corner = gl_VertexID % 4, which = gl_VertexID / 4;
  ivec2 at = ivec2(which % ${ACROSS}, which / ${ACROSS});
  vec4 middle = texelFetch(middles, at, 0), side = texelFetch(sides, at, 0);
  colour = texelFetch(lights, at, 0);
  place = vec2(corner % 2 == 0 ? -1.0 : 1.0, corner < 2 ? -1.0 : 1.0);
  bool drawn = colour.a > 0.0;
  float z = 0.0;
#ifdef MARK
  float reach = max(2.0 * log(max(colour.a, 1e-30) / float(${SEEN})), 0.0), before = 2.0 * side.z;
  drawn = reach > 0.0 && dot(side.xy, side.xy) < float(${FINE * FINE}) * before;
  if (drawn) {
    middle.zw = middle.zw * sqrt(reach / before) + float(${MARGIN}) * normalize(middle.zw);
    side.xy = side.xy * sqrt(reach / before) + float(${MARGIN}) * normalize(side.xy);
  }
  z = -1.0;
#endif
  vec2 pixel = middle.xy + place.x * middle.zw + place.y * side.xy;
  gl_Position = vec4(pixel.x / size.x * 2.0 - 1.0, 1.0 - pixel.y / size.y * 2.0, z, 1.0);
  if (!drawn) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  cut = side.zw;
}`;

const FRAGMENT = `
in vec2 place;
flat in vec4 colour;
flat in vec2 cut;
out vec4 drawn;
void main() {
  float far = dot(place, place);
  if (far > 1.0) discard;
  float alpha = min(0.99, colour.a * exp(-cut.x * far));
#ifdef DISPARITY
  drawn = vec4(cut.y * alpha, 0.0, 0.0, alpha);
#else
  drawn = vec4(colour.rgb * alpha, alpha);
#endif
}`;

export class Splats {
  // `scene`: count, degree, means, quaternions, scales, opacities, harmonics (Float32Array each), near, antialiased,
  // and seenFrom: [x, y, z, focal length in pixels] of the photos that it was trained on. Nothing is drawn finer than
  // the pixels of these, as in models/splat/model.py.
  constructor(gl, scene) {
    Object.assign(this, { gl, scene, count: scene.count, drawn: scene.count });
    const kinds = (scene.degree + 1) ** 2;
    this.finest = finestPixels(scene);
    this.row = [3 + kinds, Math.floor(ROW / (3 + kinds))];
    const rows = Math.max(1, Math.ceil(this.count / this.row[1]));
    this.data = floatTexture(gl, this.row[0] * this.row[1], rows, this.table(rows, kinds));

    this.height = Math.max(1, Math.ceil(this.count / ACROSS));
    this.order = plainTexture(gl, ACROSS, this.height, gl.R32UI);
    this.projected = [0, 1, 2].map(() => plainTexture(gl, ACROSS, this.height, gl.RGBA32F));
    this.buffer = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    const places = this.projected.map((texture, i) => {
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0 + i, gl.TEXTURE_2D, texture, 0);
      return gl.COLOR_ATTACHMENT0 + i;
    });
    gl.drawBuffers(places);

    const corners = new Uint32Array(6 * this.count);
    for (let i = 0; i < corners.length; i++) corners[i] = 4 * Math.floor(i / 6) + [0, 1, 2, 2, 1, 3][i % 6];
    this.corners = gl.createBuffer();
    this.quads = gl.createVertexArray();
    gl.bindVertexArray(this.quads);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.corners);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
    gl.bindVertexArray(null);
    this.reorder(Uint32Array.from({ length: this.count }, (_, i) => i));
  }

  // All numbers of the Gaussians: place and opacity, quaternion, scales and the finest pixel, and each coefficient in a
  // texel of its own.
  table(rows, kinds) {
    const { means, quaternions, scales, opacities, harmonics } = this.scene, [each, across] = this.row;
    const out = new Float32Array(4 * each * across * rows);
    for (let i = 0; i < this.count; i++) {
      const at = 4 * i * each;
      out.set(means.subarray(3 * i, 3 * i + 3), at);
      out[at + 3] = opacities[i];
      out.set(quaternions.subarray(4 * i, 4 * i + 4), at + 4);
      out.set(scales.subarray(3 * i, 3 * i + 3), at + 8);
      out[at + 11] = this.finest[i];
      for (let k = 0; k < kinds; k++) {
        const from = 3 * (i * kinds + k);
        out.set(harmonics.subarray(from, from + 3), at + 12 + 4 * k);
      }
    }
    return out;
  }

  // Far to near, as the sorter says.
  reorder(indices) {
    const gl = this.gl, padded = new Uint32Array(ACROSS * this.height);
    padded.set(indices);
    gl.bindTexture(gl.TEXTURE_2D, this.order);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, ACROSS, this.height, gl.RED_INTEGER, gl.UNSIGNED_INT, padded);
    this.indices = indices;
    this.drawn = indices.length;
  }

  // Draw into a target. `lens` is {aperture, focus}, `radius` the share of it that blurs: 0 is a pinhole. `disparity`
  // draws that instead of light; only within `box` (left, bottom, width, height in pixels), if given. Only those of
  // a `part` [first, end) of the order, if given; without `clear`, over what is there. The picture will be shown
  // `times` as large along a side. `fine`: only around fine Gaussians; the target's depth is then 0 there, 1 elsewhere.
  draw(target, camera, lens, radius, curve, options = {}) {
    const { disparity = false, box = null, part = [0, this.drawn], clear = true, times = 1, fine = false } = options;
    const gl = this.gl;
    this.project(camera, lens, radius, curve, part, times);
    target.bind(camera.width, camera.height);
    if (box) {
      gl.enable(gl.SCISSOR_TEST);
      gl.scissor(...box);
    }
    if (clear) gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.bindVertexArray(this.quads);
    if (fine) {
      gl.enable(gl.DEPTH_TEST);
      gl.depthMask(true);
      gl.clear(gl.DEPTH_BUFFER_BIT);
      gl.depthFunc(gl.ALWAYS);
      gl.colorMask(false, false, false, false);
      this.polygons(camera, part, "#define MARK\n");
      gl.colorMask(true, true, true, true);
      gl.depthMask(false);
      gl.depthFunc(gl.GREATER);
    }
    this.polygons(camera, part, disparity ? "#define DISPARITY\n" : "");
    gl.bindVertexArray(null);
    gl.disable(gl.DEPTH_TEST);
    if (box) gl.disable(gl.SCISSOR_TEST);
  }

  polygons(camera, part, defines) {
    const gl = this.gl, { made, at } = program(gl, VERTEX, FRAGMENT, defines);
    gl.useProgram(made);
    ["middles", "sides", "lights"].forEach((name, i) => this.give(at[name], i, this.projected[i]));
    gl.uniform2f(at.size, camera.width, camera.height);
    gl.drawElements(gl.TRIANGLES, 6 * (part[1] - part[0]), gl.UNSIGNED_INT, 24 * part[0]);
  }

  // Which share of the Gaussians is fine before a camera: of some of them, by the middle one of their three scales.
  fineShare({ position, axes, fx }) {
    const { means, scales, near } = this.scene, each = Math.ceil(this.drawn / SAMPLE);
    let all = 0, fine = 0;
    for (let n = 0; n < this.drawn; n += each) {
      const i = 3 * this.indices[n], [a, b, c] = scales.subarray(i, i + 3);
      const depth = [0, 1, 2].reduce((sum, k) => sum - (means[i + k] - position[k]) * axes[6 + k], 0);
      if (depth <= near) continue;
      all += 1;
      const middle = a + b + c - Math.max(a, b, c) - Math.min(a, b, c);
      const low = Math.sqrt(LOW_PASS) * this.finest[this.indices[n]];
      if (Math.hypot(middle, low) * fx < FINE * depth) fine += 1;
    }
    return all ? fine / all : 1;
  }

  give(where, unit, texture) {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.gl.bindTexture(this.gl.TEXTURE_2D, texture);
    this.gl.uniform1i(where, unit);
  }

  project(camera, lens, radius, curve, part, times) {
    const gl = this.gl, c = camera.axes, { made, at } = program(gl, COVER, PROJECT);
    const low = Math.floor(part[0] / ACROSS), high = Math.ceil(part[1] / ACROSS);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    gl.viewport(0, 0, ACROSS, this.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(0, low, ACROSS, high - low);
    gl.disable(gl.BLEND);
    gl.useProgram(made);
    this.give(at.data, 0, this.data);
    this.give(at.order, 1, this.order);
    gl.uniform1i(at.count, this.drawn);
    gl.uniform2iv(at.row, this.row);
    gl.uniform1i(at.degree, this.scene.degree);
    gl.uniform3fv(at.position, camera.position);
    // rows: right, -up, -back; column-major for WebGL
    gl.uniformMatrix3fv(at.axes, false, [c[0], -c[3], -c[6], c[1], -c[4], -c[7], c[2], -c[5], -c[8]]);
    gl.uniform4f(at.lens, camera.fx, camera.fy, camera.cx, camera.cy);
    gl.uniform2f(at.size, camera.width, camera.height);
    gl.uniform4fv(at.frame, camera.frame || [0, 0, camera.width, camera.height]);
    gl.uniform3f(at.blur, lens.aperture, lens.focus, radius);
    gl.uniform1f(at.near, this.scene.near);
    gl.uniform2f(at.filtered, LOW_PASS / times ** 2, times > 1 ? ENLARGED : 0);
    gl.uniform1f(at.keeps, this.scene.antialiased ? 0.0 : 1.0);
    gl.uniform3fv(at.curve, curve);
    gl.bindVertexArray(null);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.disable(gl.SCISSOR_TEST);
  }

  // How many Gaussians of the order, far to near, lie beyond a disparity before a camera.
  beyond({ position, axes }, disparity) {
    const { means } = this.scene, depth = (i) => [0, 1, 2].reduce((sum, k) => (
      sum - (means[3 * i + k] - position[k]) * axes[6 + k]
    ), 0);
    let low = 0, high = this.drawn;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (depth(this.indices[middle]) * disparity > 1) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  free() {
    const gl = this.gl;
    [this.data, this.order, ...this.projected].forEach((texture) => gl.deleteTexture(texture));
    gl.deleteFramebuffer(this.buffer);
    gl.deleteBuffer(this.corners);
    gl.deleteVertexArray(this.quads);
  }
}

// The side of the finest pixel with which a photo shows each Gaussian, in scene units; 0 where no photos are known.
function finestPixels({ count, means, seenFrom = [] }) {
  return Float32Array.from({ length: count }, (_, i) => {
    const [x, y, z] = means.subarray(3 * i, 3 * i + 3);
    const sides = seenFrom.map(([px, py, pz, focal]) => Math.hypot(x - px, y - py, z - pz) / focal);
    return sides.length ? sides.reduce((a, b) => Math.min(a, b)) : 0;
  });
}

function plainTexture(gl, width, height, format) {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
  for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
  return texture;
}
