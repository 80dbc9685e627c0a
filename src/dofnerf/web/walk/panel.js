// The controls around the picture.
import { MOVES } from "./moves.js";
import { download, largePicture } from "./save.js";
import { forPicture } from "./gestures.js";
import { between } from "./vectors.js";
import { exposureWords, focalWords, focusWords, openingOf, openingWords, stopsOf } from "./units.js";

export const $ = (id) => document.getElementById(id);
const SHARP = -7; // the end of the aperture dial, in stops: everything in focus
const FOCALS = [14, 200]; // millimetres
const LARGE = { screen: 0, 1920: 1920, 3840: 3840 }; // pixels along the longer side

export function connectPanel(walk) {
  const { facts } = walk, [far, near] = facts.range;
  const stops = facts.openings.map((opening) => stopsOf(facts, opening)).map((x) => Math.round(3 * x) / 3);
  Object.assign($("aperture"), { min: SHARP, max: stops[1], step: 1 / 3 });
  const marks = document.querySelector(".stops").style;
  marks.setProperty("--count", stops[1] - SHARP);
  marks.setProperty("--own", `${(-100 * SHARP) / (stops[1] - SHARP)}%`);
  const names = { 0: "Round", "-1": facts.shape };
  walk.shapes().forEach((n) => $("blades").append(new Option(names[n] || `${n} blades`, n)));

  let opened = facts.start.opening || facts.opening; // what "All sharp" goes back to
  const turn = (lens) => walk.set({ lens });
  // A value is read before the page is told anything: that sets the controls to what is seen.
  const slide = (id, act) => {
    $(id).oninput = ({ target }) => {
      const value = Number(target.value);
      walk.stop();
      act(value);
    };
  };
  slide("aperture", (stops) => {
    turn({ opening: stops <= SHARP + 0.2 ? 0 : openingOf(facts, stops) });
    walk.used("aperture");
  });
  slide("focus", (share) => turn({ focus: near - (near - far) * share }));
  slide("focal", (share) => {
    const mm = FOCALS[0] * (FOCALS[1] / FOCALS[0]) ** share;
    walk.set({ pose: { ...walk.view.pose, focal: mm / facts.mm } });
  });
  $("exposure").oninput = ({ target }) => walk.set({ exposure: Number(target.value) });
  $("blades").onchange = ({ target }) => turn({ blades: Number(target.value) });
  $("rotation").oninput = ({ target }) => turn({ rotation: Number(target.value) });
  $("sharp").onclick = () => {
    walk.stop();
    if (walk.view.lens.opening > 0) opened = walk.view.lens.opening;
    turn({ opening: walk.view.lens.opening > 0 ? 0 : opened });
  };
  $("home").onclick = () => walk.goHome();
  $("follow").onchange = ({ target }) => walk.set({ follow: target.checked });
  $("overlay").onchange = ({ target }) => walk.set({ overlay: Number(target.value) });
  $("compare").onclick = () => {
    walk.set({ comparing: !walk.view.comparing });
    const { opening, focus } = walk.shotLens(), { lens, comparing } = walk.view;
    if (comparing && lens.opening === opening && (lens.focus === focus || !opening)) {
      notice("Both sides have the same lens as yet: turn yours.");
    }
  };
  const full = () => (document.fullscreenElement ? document.exitFullscreen() : document.body.requestFullscreen());
  $("full").onclick = full;
  $("full").hidden = !document.fullscreenEnabled;
  $("hide").onclick = () => {
    $("hide").title = document.body.classList.toggle("bare") ? "Show the controls" : "Hide the controls";
    $("hide").setAttribute("aria-label", $("hide").title);
  };
  $("keys").onclick = () => $("help").showModal();
  $("share").onclick = () => copyAddress(walk);
  $("save").onclick = () => save(walk);

  for (const [name, move] of Object.entries(MOVES)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: move.name });
    button.onclick = () => (walk.playing === name ? walk.stop() : walk.perform(name));
    button.dataset.move = name;
    $("moves").append(button);
  }
  $("compare").hidden = $("size").hidden = Boolean(facts.drawn); // the server draws one picture, of its own size
  connectSplit(walk);
  connectTabs();

  walk.listeners.push((view) => {
    const { lens, pose, exposure } = view;
    show("aperture", lens.opening > 0 ? stopsOf(facts, lens.opening) : SHARP, openingWords(facts, lens));
    show("focus", (near - lens.focus) / (near - far || 1), focusWords(facts, lens.focus));
    const span = Math.log(FOCALS[1] / FOCALS[0]);
    show("focal", Math.log((pose.focal * facts.mm) / FOCALS[0]) / span, focalWords(facts, pose.focal));
    show("exposure", exposure, exposureWords(exposure));
    show("rotation", lens.rotation, `${Math.round(lens.rotation)}°`);
    $("blades").value = lens.blades;
    $("rotation").closest("label").hidden = lens.blades === 0;
    $("sharp").textContent = lens.opening > 0 ? "All sharp" : "Open the lens";
    $("compare").setAttribute("aria-pressed", view.comparing);
    $("follow").checked = view.follow;
    $("overlay").value = view.overlay;
    for (const button of $("moves").children) button.setAttribute("aria-pressed", walk.playing === button.dataset.move);
  });
  walk.tell();
}

function show(id, value, words) {
  const control = $(id), output = $(`${id}-words`);
  if (Math.abs(control.value - value) > 1e-6) control.value = value;
  if (output.value !== words) {
    output.value = words;
    control.setAttribute("aria-valuetext", words);
  }
}

// The line between as shot (left) and yours (right).
function connectSplit(walk) {
  const bar = $("split"), canvas = walk.canvas;
  const put = (x) => walk.set({ split: between(x, 0.02, 0.98) });
  bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
  bar.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    if (bar.hasPointerCapture(event.pointerId)) put((event.clientX - box.left) / box.width);
  });
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
    if (step) put(walk.view.split + step);
  });
  walk.listeners.push(({ comparing, split }) => {
    bar.hidden = !comparing;
    bar.style.left = `${100 * split}%`;
    bar.setAttribute("aria-valuenow", Math.round(100 * split));
  });
  $("split-left").textContent = walk.facts.photos.some((photo) => photo.opening > 0) ? "As shot" : "All sharp";
}

// On a small screen one section at a time.
function connectTabs() {
  const tabs = [...document.querySelectorAll("#tabs button")];
  const choose = (tab) => {
    tabs.forEach((one) => {
      one.setAttribute("aria-selected", one === tab);
      $(one.dataset.section).classList.toggle("chosen", one === tab);
    });
  };
  tabs.forEach((tab) => { tab.onclick = () => choose(tab); });
  choose(tabs[0]);
}

// Words that say what to do, one after the other, until it was done; then they fade.
export function connectHints(walk) {
  const touch = matchMedia("(pointer: coarse)").matches, hint = $("hint");
  const photos = walk.facts.photos.length && "Choose a photo to stand where it was taken";
  const words = [
    [["focus"], `${touch ? "Tap" : "Click"} anything to focus on it`],
    [["orbit", "keys"], "Drag to walk around"],
    [["scroll", "pan"], touch ? "Pinch to come closer" : "Scroll to come closer"],
    ...(photos ? [[["photo"], photos]] : []),
  ];
  const done = new Set();
  let fading = null;
  const next = () => {
    const todo = words.find(([whats]) => !whats.some((what) => done.has(what)));
    if (!todo) return;
    hint.textContent = todo[1];
    hint.classList.remove("gone");
    clearTimeout(fading);
    fading = setTimeout(() => hint.classList.add("gone"), 9000);
  };
  walk.used = (what) => {
    if (done.has(what)) return;
    done.add(what);
    hint.classList.add("gone");
    setTimeout(next, 1500);
  };
  if (!location.hash) next();
  walk.ring = (x, y, found) => {
    const ring = $("ring");
    [ring.style.left, ring.style.top] = [`${x}px`, `${y}px`];
    ring.className = "";
    void ring.offsetWidth; // begins the animation again
    ring.className = found ? "seen" : "missed";
    if (!found) notice("Nothing is there to focus on.");
    else if (!walk.view.lens.opening) notice("All is sharp: open the aperture to see the focus.");
  };
}

// The photos as the splats show them, each through the lens that was found for it.
export async function drawPhotos(walk) {
  const { facts, stage } = walk, strip = $("strip");
  $("photos").hidden = !facts.photos.length;
  document.querySelector("[data-section=photos]").hidden = !facts.photos.length;
  const frames = facts.photos.map((photo) => {
    const button = Object.assign(document.createElement("button"), { type: "button", title: `${photo.name}, as shot` });
    button.setAttribute("aria-label", `Go to photo ${photo.name}, as shot`);
    button.onclick = (event) => walk.visit(photo, event.shiftKey);
    const width = Math.round(Math.sqrt((15000 * photo.width) / photo.height)), height = Math.round(15000 / width);
    const paper = Object.assign(document.createElement("canvas"), { width, height });
    button.append(paper);
    strip.append(button);
    return { photo, paper, button };
  });
  let shown = null;
  walk.listeners.push(() => {
    if (shown === walk.photo) return;
    shown = walk.photo;
    frames.forEach(({ photo, button }) => {
      button.setAttribute("aria-current", photo === shown);
      if (photo === shown) button.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  });
  strip.addEventListener("wheel", (event) => { strip.scrollLeft += event.deltaY; }, { passive: true });
  for (const { photo, paper } of frames) {
    const { width, height } = paper, [x, y] = [width / photo.width, height / photo.height];
    const camera = {
      position: photo.position, axes: photo.axes, width, height,
      fx: photo.fx * x, fy: photo.fy * y, cx: photo.cx * x, cy: photo.cy * y,
    };
    const radius = (photo.opening || 0) * Math.sqrt((photo.fx * photo.fy) / (photo.width * photo.height));
    const image = await stage.thumbnail(camera, { aperture: radius * camera.fx, focus: photo.focus || 0 });
    if (image) paper.getContext("2d").drawImage(await createImageBitmap(image), 0, 0, width, height);
    await new Promise((go) => setTimeout(go)); // the hand comes first
  }
}

export function notice(words, seconds = 4) {
  $("notice").textContent = words;
  $("notice").classList.remove("gone");
  clearTimeout(notice.fading);
  if (seconds) notice.fading = setTimeout(() => $("notice").classList.add("gone"), 1000 * seconds);
}

async function copyAddress(walk) {
  walk.kept = null;
  walk.wake();
  await new Promise((go) => setTimeout(go, 50));
  try {
    await navigator.clipboard.writeText(location.href);
    notice("The link to this very picture is copied.");
  } catch {
    notice("Copy the address of this page: it keeps camera and lens.");
  }
}

async function save(walk) {
  const { canvas, stage, view } = walk, longest = LARGE[$("size").value] || Math.max(canvas.width, canvas.height);
  const scale = longest / Math.max(canvas.width, canvas.height);
  const camera = walk.camera(Math.round(canvas.width * scale), Math.round(canvas.height * scale));
  const lens = walk.lensFor(camera), views = stage.viewsFor(lens, walk.facts.range);
  const name = `${walk.facts.title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "picture"}.png`;
  const keep = (blob, { width, height } = camera) => {
    download(blob, name);
    notice(`${name} is saved, ${width} × ${height}.`);
  };
  if (!stage.gl) {
    const blob = await stage.still(walk.seen(), camera, lens).catch(() => null);
    return blob ? keep(blob, await createImageBitmap(blob)) : notice("No picture was saved.");
  }
  let going = true;
  $("busy").hidden = false;
  $("cancel").onclick = () => { going = false; };
  const tell = (share) => {
    $("busy-share").value = share;
    return going;
  };
  try {
    const asked = { camera, lens, reach: walk.reach(), views, exposure: view.exposure };
    const paper = await largePicture(stage, asked, tell);
    if (paper) paper.toBlob((blob) => keep(blob));
    else notice("No picture was saved.");
  } finally {
    $("busy").hidden = true;
  }
}

const KEYS = {
  "[": () => step("aperture", 1), "]": () => step("aperture", -1),
  ",": () => step("focus", -8), ".": () => step("focus", 8),
  o: () => $("sharp").click(), c: () => $("compare").click(), f: () => $("full").click(), h: () => $("hide").click(),
  p: () => $("save").click(), r: () => document.querySelector("[data-move=rack]").click(),
  Home: (walk) => walk.goHome(), "?": () => $("help").showModal(),
  Enter: (walk) => middle(walk), " ": (walk) => middle(walk), Escape: (walk) => walk.stop(),
  n: (walk) => neighbour(walk, 1), b: (walk) => neighbour(walk, -1),
};

function step(id, times) {
  const control = $(id);
  for (let i = 0; i < Math.abs(times); i++) times > 0 ? control.stepUp() : control.stepDown();
  control.dispatchEvent(new Event("input"));
}

function middle(walk) {
  const box = walk.canvas.getBoundingClientRect();
  walk.focusOn(box.width / 2, box.height / 2);
}

function neighbour(walk, by) {
  const { photos } = walk.facts, at = photos.indexOf(walk.photo);
  if (photos.length) walk.visit(photos[(at + by + photos.length) % photos.length]);
}

export function listenToKeys(walk) {
  addEventListener("keydown", (event) => {
    if (!forPicture(event)) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act(walk);
  });
}
