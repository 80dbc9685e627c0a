// A lens before layers. `lens` is what is asked for; `focus` moves towards it. The address keeps it, so that a reload, or a link
// sent to somebody, shows the same. Disparity is 1 / depth; blur in pixels is aperture · |focus − disparity|.
const $ = (id) => document.getElementById(id);
const canvas = $("picture");
const { width, height } = SCENE;
const lens = { aperture: SCENE.aperture, focus: SCENE.focus, blades: SCENE.blades, rotation: SCENE.rotation };
const PULL = 500; // milliseconds of a focus pull
const QUALITY = [[64, 1], [32, 1], [32, 2], [20, 2], [16, 4], [10, 6], [8, 9]]; // while it moves: taps, and pixels of the picture in one of the canvas
const RESTING = 144, STRIPS = 12;
const FAR = Math.min(SCENE.far, ...SCENE.layers.map(({ low }) => low)); // all that can be clicked on
const NEAR = Math.max(SCENE.near, ...SCENE.layers.map(({ high }) => high));
let gl, where, focus, pull, quality = 2, slow = 0, last = null, next = null, rest, mattes; // next: the frame that is asked for

function readAddress() {
  $("hint").hidden = location.hash.length > 1; // whoever has a lens in the address knows
  for (const part of location.hash.slice(1).split("&")) {
    const [key, text] = part.split("="), value = Number(text);
    if (key in lens && text && Number.isFinite(value) && (value >= 0 || key === "blades")) lens[key] = value;
  }
  lens.aperture = Math.min(lens.aperture, SCENE.widest);
  lens.focus = Math.min(Math.max(lens.focus, FAR), NEAR);
  lens.blades = [...$("blades").options].some((option) => Number(option.value) === lens.blades) ? lens.blades : 0;
}

function keep() {
  const words = Object.entries(lens).map(([key, value]) => `${key}=${Number(value.toPrecision(6))}`).join("&");
  try { history.replaceState(null, "", `#${words}`); } catch { location.hash = words; }
}

// An f-number where the scale of the scene is known, else stops relative to the photos' lens, where that is.
function stopWords() {
  const filled = lens.blades === -1 ? SCENE.filled || 1 : 1; // of the photos' own lens, f-numbers are by its area
  if (SCENE.fstop) return `f/${Number((SCENE.fstop / (filled * lens.aperture)).toPrecision(2))}, `;
  if (!SCENE.photoAperture) return "";
  const stops = Math.round(20 * Math.log2(lens.aperture / SCENE.photoAperture)) / 10;
  return `${stops > 0 ? "+" : ""}${stops === 0 ? 0 : stops} stops, `;
}

function show() {
  $("aperture").value = Math.sqrt(lens.aperture / SCENE.widest);
  $("focus").value = (SCENE.near - lens.focus) / (SCENE.near - SCENE.far || 1);
  $("blades").value = lens.blades;
  $("rotation").value = lens.rotation;
  const blur = lens.aperture * Math.max(lens.focus - SCENE.far, SCENE.near - lens.focus);
  $("stop").value = lens.aperture > 0 ? `${stopWords()}${blur.toFixed(0)} px` : "closed";
  $("depth").value = lens.focus > 0 ? (1 / lens.focus).toFixed(2) : "infinity";
  $("turn").value = `${Math.round(lens.rotation)}°`;
  $("sharp").textContent = lens.aperture > 0 ? "all sharp" : "open the lens";
}

function picture(source) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("a layer of the picture cannot be read"));
    image.src = source;
  });
}

function compile(kind, source) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}

function texture(unit, format, images) {
  gl.activeTexture(gl.TEXTURE0 + unit);
  gl.bindTexture(gl.TEXTURE_2D_ARRAY, gl.createTexture());
  const levels = 1 + Math.floor(Math.log2(Math.max(width, height)));
  gl.texStorage3D(gl.TEXTURE_2D_ARRAY, levels, format, width, height, images.length);
  images.forEach((image, i) =>
    gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, i, width, height, 1, gl.RGBA, gl.UNSIGNED_BYTE, image));
  gl.generateMipmap(gl.TEXTURE_2D_ARRAY);
  gl.texParameteri(gl.TEXTURE_2D_ARRAY, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_NEAREST);
  for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D_ARRAY, side, gl.CLAMP_TO_EDGE);
}

function prepare(colours, depths) {
  gl = canvas.getContext("webgl2", { alpha: false, antialias: false, preserveDrawingBuffer: true, powerPreference: "high-performance" });
  if (!gl) throw new Error("this browser has no WebGL 2, which draws the blur");
  const most = gl.getParameter(gl.MAX_TEXTURE_SIZE);
  if (most && Math.max(width, height) > most) throw new Error(`it has ${width} × ${height} pixels, and this graphics card takes ${most}`);
  gl.pixelStorei(gl.UNPACK_COLORSPACE_CONVERSION_WEBGL, gl.NONE);
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, `#version 300 es
    void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0.0, 1.0); }`));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, SCENE.shader));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(program));
  gl.useProgram(program);
  where = (name) => gl.getUniformLocation(program, name);
  texture(0, gl.SRGB8_ALPHA8, colours);
  texture(1, gl.RGBA8, depths);
  gl.uniform1i(where("colour"), 0);
  gl.uniform1i(where("matte"), 1);
  gl.uniform2f(where("size"), width, height);
  gl.uniform1i(where("count"), colours.length);
  gl.uniform1i(where("spiral"), 2);
  gl.activeTexture(gl.TEXTURE2);
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
  gl.uniform1f(where("gain"), SCENE.gain);
  if (SCENE.rim) gl.uniform1fv(where("rim"), SCENE.rim);
}

// Where to look around a pixel, layer by layer: the pixel itself, then a spiral as wide as the largest disc of the layer, denser
// in its middle, where small discs need it.
function aim(taps) {
  const rows = new Float32Array(4 * taps * SCENE.layers.length);
  const ranges = SCENE.layers.map(({ low, high }, row) => {
    const most = lens.aperture * Math.max(Math.abs(focus - low), Math.abs(focus - high));
    const n = most < 0.4 ? 0 : Math.min(Math.max(Math.floor(6 * most), 12), taps - 1);
    rows.set([0, 0, 1, 0], 4 * taps * row);
    for (let i = 0; i < n; i++) {
      const l = (most + 0.5) * (i + 0.5) / n, turn = 2.3999632 * i, area = Math.max((2 * Math.PI * most * l) / n, 0.5);
      const level = Math.max(0, Math.round(0.5 * Math.log2(area) - 0.3));
      rows.set([l * Math.cos(turn), l * Math.sin(turn), area, level], 4 * (taps * row + i + 1));
    }
    return [low, high - low, Math.ceil(Math.log2(2 * most + 2)), n + 1];
  });
  gl.activeTexture(gl.TEXTURE2);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, taps, ranges.length, 0, gl.RGBA, gl.FLOAT, rows);
  gl.uniform4fv(where("range"), ranges.flat());
}

function draw(taps, zoom) {
  aim(taps);
  const [w, h] = [Math.ceil(width / zoom), Math.ceil(height / zoom)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  gl.viewport(0, 0, w, h);
  gl.uniform1f(where("zoom"), zoom);
  gl.uniform1f(where("aperture"), lens.aperture);
  gl.uniform1f(where("focus"), focus);
  gl.uniform1i(where("blades"), lens.blades);
  gl.uniform1f(where("rotation"), (lens.rotation * Math.PI) / 180);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
}

// Coarse while something moves, as coarse as this machine needs for about 30 frames a second; fine as soon as it rests.
function frame(now) {
  next = null;
  if (last !== null) { // no rest since the last frame
    slow = 0.7 * slow + 0.3 * (now - last);
    if (slow > 36 && quality < QUALITY.length - 1) { quality = Math.min(quality + (slow > 100 ? 2 : 1), QUALITY.length - 1); slow = 20; }
    else if (slow < 18 && quality > 0) { quality -= 1; slow = 26; }
  }
  const done = pull ? Math.min(1, (now - pull.since) / PULL) : 1;
  if (pull) focus = pull.from + (lens.focus - pull.from) * done * done * (3 - 2 * done);
  if (done === 1) { pull = null; focus = lens.focus; }
  draw(...QUALITY[quality]);
  last = now;
  if (pull) ask();
  else { clearTimeout(rest); rest = setTimeout(refine, 60, 0); }
}

function ask() {
  if (next === null) next = requestAnimationFrame(frame);
}

// The fine picture, a strip at a time, so that a slow machine stays quick to answer.
function refine(strip) {
  last = null;
  if (strip === 0) keep(); // not while it moves: browsers take only so many addresses a second
  if (canvas.width !== width || canvas.height !== height) draw(QUALITY.at(-1)[0], 1); // a canvas that gets another size is black
  const first = Math.floor((height * strip) / STRIPS), end = Math.floor((height * (strip + 1)) / STRIPS);
  gl.enable(gl.SCISSOR_TEST);
  gl.scissor(0, height - end, width, end - first);
  draw(RESTING, 1);
  gl.disable(gl.SCISSOR_TEST);
  if (strip + 1 === STRIPS) document.body.dataset.state = "resting";
  else rest = setTimeout(() => requestAnimationFrame(() => { if (rest) refine(strip + 1); }));
}

function move(smoothly) {
  clearTimeout(rest);
  rest = null;
  document.body.dataset.state = "moving";
  pull = smoothly ? { from: focus, since: performance.now() } : pull;
  show();
  ask();
}

// The disparity of what is seen at a pixel: the nearest layer that covers it; the median around, as the package has it.
function disparityAt(x, y) {
  const found = [];
  for (let v = Math.max(0, y - 2); v <= Math.min(height - 1, y + 2); v++)
    for (let u = Math.max(0, x - 2); u <= Math.min(width - 1, x + 2); u++)
      for (let l = SCENE.layers.length - 1; l >= 0; l--) {
        const [depth, cover] = mattes[l].subarray(4 * (v * width + u));
        if (cover < 128 && l > 0) continue;
        found.push(SCENE.layers[l].low + (SCENE.layers[l].high - SCENE.layers[l].low) * depth / 255);
        break;
      }
  return found.sort((a, b) => a - b)[found.length >> 1];
}

function focusOn(event) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  if (x < 0 || y < 0 || x >= 1 || y >= 1) return;
  lens.focus = disparityAt(Math.floor(x * width), Math.floor(y * height));
  const ring = $("ring");
  [ring.style.left, ring.style.top] = [`${100 * x}%`, `${100 * y}%`];
  ring.classList.remove("seen");
  void ring.offsetWidth; // begins the animation again
  ring.classList.add("seen");
  $("hint").classList.add("gone");
  move(true);
}

function fit() {
  const room = document.querySelector("main"), frame = $("frame");
  const scale = Math.min((room.clientWidth - 16) / width, (room.clientHeight - 16) / height);
  [frame.style.width, frame.style.height] = [`${Math.floor(width * scale)}px`, `${Math.floor(height * scale)}px`];
}

function listen() {
  canvas.addEventListener("click", focusOn);
  $("aperture").oninput = (event) => { lens.aperture = SCENE.widest * event.target.value ** 2; move(false); };
  $("focus").oninput = (event) => { lens.focus = SCENE.near - (SCENE.near - SCENE.far) * event.target.value; pull = null; move(false); };
  $("blades").onchange = (event) => { lens.blades = Number(event.target.value); move(false); };
  $("rotation").oninput = (event) => { lens.rotation = Number(event.target.value); move(false); };
  $("sharp").onclick = () => { lens.aperture = lens.aperture > 0 ? 0 : SCENE.aperture || SCENE.widest / 4; move(false); };
  addEventListener("resize", fit);
  addEventListener("hashchange", () => { readAddress(); move(true); });
}

async function begin() {
  for (const n of [0, 5, 6, 7, 8, 9, 3, 4]) $("blades").append(new Option(n ? String(n) : "round", n));
  if (SCENE.blades > 9 || SCENE.shape) $("blades").append(new Option(SCENE.shape || String(SCENE.blades), SCENE.blades));
  readAddress();
  const colours = await Promise.all(SCENE.layers.map((layer) => picture(layer.colour)));
  const depths = await Promise.all(SCENE.layers.map((layer) => picture(layer.matte)));
  const paper = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
  mattes = depths.map((image) => { paper.drawImage(image, 0, 0); return paper.getImageData(0, 0, width, height).data; });
  prepare(colours, depths);
  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  canvas.addEventListener("webglcontextrestored", () => { try { prepare(colours, depths); move(false); } catch (error) { regret(error); } });
  focus = lens.focus;
  listen();
  fit();
  move(false);
}

function regret(error) {
  $("frame").hidden = true;
  $("sorry").hidden = false;
  $("sorry").textContent = `This picture cannot be shown: ${error.message}.`;
}

begin().catch(regret);
