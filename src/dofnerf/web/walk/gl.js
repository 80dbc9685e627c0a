// Small helpers around WebGL 2.

export function context(canvas) {
  const gl = canvas.getContext("webgl2", {
    alpha: false, antialias: false, depth: false, preserveDrawingBuffer: true, powerPreference: "high-performance",
  });
  if (!gl) throw new Error("This browser has no WebGL 2.");
  if (!gl.getExtension("EXT_color_buffer_float")) throw new Error("This graphics card cannot draw into float buffers.");
  gl.getExtension("EXT_float_blend"); // optional: lets 32-bit targets blend
  return gl;
}

// A program, compiled when it is first asked for and kept: slow machines take seconds for one.
export function program(gl, vertex, fragment, defines = "") {
  const kept = (gl.dofnerfPrograms ||= new Map()), key = defines + vertex + fragment;
  if (!kept.has(key)) kept.set(key, compiled(gl, vertex, fragment, defines));
  return kept.get(key);
}

function compiled(gl, vertex, fragment, defines) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, "#version 300 es\nprecision highp float;\nprecision highp int;\n" + defines + text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
  const at = {};
  for (let i = 0; i < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); i++) {
    const name = gl.getActiveUniform(made, i).name.replace("[0]", "");
    at[name] = gl.getUniformLocation(made, name);
  }
  return { made, at };
}

export function floatTexture(gl, width, height, data, format = gl.RGBA32F) {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
  if (data) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, width, height, gl.RGBA, gl.FLOAT, data);
  for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
  for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
  return texture;
}

// A texture that can be drawn into.
export class Target {
  constructor(gl, width, height, format = gl.RGBA16F) {
    Object.assign(this, { gl, width, height });
    this.texture = floatTexture(gl, width, height, null, format);
    this.buffer = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.texture, 0);
  }

  // Draw into it, or into its lower left corner of this size.
  bind(width = this.width, height = this.height) {
    this.gl.bindFramebuffer(this.gl.FRAMEBUFFER, this.buffer);
    this.gl.viewport(0, 0, width, height);
  }

  // With a depth of its own, as a mask.
  withDepth() {
    const gl = this.gl;
    this.depth = gl.createRenderbuffer();
    gl.bindRenderbuffer(gl.RENDERBUFFER, this.depth);
    gl.renderbufferStorage(gl.RENDERBUFFER, gl.DEPTH_COMPONENT16, this.width, this.height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    gl.framebufferRenderbuffer(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.RENDERBUFFER, this.depth);
  }

  free() {
    this.gl.deleteFramebuffer(this.buffer);
    this.gl.deleteTexture(this.texture);
    if (this.depth) this.gl.deleteRenderbuffer(this.depth);
  }
}

// Draws one triangle that covers the target, or is blended over it; textures are bound to units 0, 1, … in order.
export function cover(gl, { made, at }, textures, uniforms, blended = false) {
  gl.useProgram(made);
  gl[blended ? "enable" : "disable"](gl.BLEND);
  textures.forEach((texture, unit) => {
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, texture);
  });
  for (const [name, value] of Object.entries(uniforms)) set(gl, at[name], value);
  gl.bindVertexArray(null);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
}

function set(gl, where, value) {
  if (where === undefined) return;
  if (Number.isInteger(value.unit)) gl.uniform1i(where, value.unit);
  else if (typeof value === "number") gl.uniform1f(where, value);
  else gl[`uniform${value.length}fv`](where, value);
}

export const COVER = `
void main() {
  gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}`;

// Display values <-> linear light: a power with a straight toe, or sRGB; as dofnerf.optics.light.
// curve = (gamma, shift, knee in display values).
export const LIGHT = `
float toLinear1(float x, vec3 curve) {
  float toe = pow((curve.z + curve.y) / (1.0 + curve.y), curve.x);
  return x <= curve.z ? x * toe / curve.z : pow((x + curve.y) / (1.0 + curve.y), curve.x);
}
float toDisplay1(float x, vec3 curve) {
  float toe = pow((curve.z + curve.y) / (1.0 + curve.y), curve.x);
  return x <= toe ? x * curve.z / toe : (1.0 + curve.y) * pow(x, 1.0 / curve.x) - curve.y;
}
vec3 toLinear(vec3 c, vec3 curve) {
  return curve.x == 1.0 ? c : vec3(toLinear1(c.r, curve), toLinear1(c.g, curve), toLinear1(c.b, curve));
}
vec3 toDisplay(vec3 c, vec3 curve) {
  return curve.x == 1.0 ? c : vec3(toDisplay1(c.r, curve), toDisplay1(c.g, curve), toDisplay1(c.b, curve));
}
`;
