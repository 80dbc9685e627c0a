// Pointer, wheel and keys on the picture → what the photographer means.
import { approach, look, orbit, pan, sideOf } from "./camera.js";

const CLICK = 6; // pixels that a click may wander
const TURN = 3.2; // radians for a drag across the whole picture
const STEP = 0.06; // of a key: radians, and share of the distance

// Whether a key is meant for the picture: not for a control that has the keyboard.
export function forPicture({ target, key, ctrlKey, metaKey, altKey }) {
  if (ctrlKey || metaKey || altKey || target.closest?.("input, select, textarea, dialog, [role=slider]")) return false;
  return !(target.closest?.("button, a") && ["Enter", " "].includes(key));
}

// `keyboard` is where keys are listened to.
export function listenToGestures(canvas, walk, keyboard = canvas) {
  const pointers = new Map();
  let begun = null, span = null;

  const middle = () => {
    const all = [...pointers.values()], mean = (key) => all.reduce((sum, one) => sum + one[key], 0) / all.length;
    const x = mean("x"), y = mean("y");
    return { x, y, far: all.length > 1 ? Math.hypot(all[0].x - all[1].x, all[0].y - all[1].y) : 0 };
  };

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pointers.size === 1) begun = { x: event.clientX, y: event.clientY, button: event.button };
    else begun = null; // two fingers do not click
    span = middle();
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (begun && Math.hypot(event.clientX - begun.x, event.clientY - begun.y) < CLICK) return;
    begun = null;
    const now = middle(), dx = now.x - span.x, dy = now.y - span.y, box = canvas.getBoundingClientRect();
    const side = sideOf(box.width, box.height, walk.aspect);
    const aside = pointers.size > 1 || event.buttons & 6 || event.shiftKey;
    walk.drag((pose) => {
      if (pointers.size > 1 && span.far) pose = approach(pose, walk.pivot, span.far / Math.max(now.far, 1), walk.least);
      const scale = walk.depthOfPivot() / (pose.focal * side); // scene units of a pixel at the pivot
      if (aside) return pan(pose, -dx * scale, dy * scale);
      return orbit(pose, walk.pivot, walk.up, (-TURN * dx) / side, (-TURN * dy) / side);
    }, aside ? "pan" : "orbit");
    span = now;
  });

  const lift = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    const box = canvas.getBoundingClientRect();
    const clicked = begun && event.type === "pointerup" && !begun.button;
    if (clicked) walk.focusOn(event.clientX - box.left, event.clientY - box.top);
    begun = null;
    if (pointers.size) span = middle();
    else walk.release();
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  let calm = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaY * (event.deltaMode === 1 ? 30 : event.deltaMode === 2 ? 400 : 1);
    const factor = Math.exp(Math.min(Math.max(lines, -300), 300) * (event.ctrlKey ? 0.01 : 0.0012));
    walk.drag((pose) => approach(pose, walk.pivot, factor, walk.least), "scroll");
    clearTimeout(calm);
    calm = setTimeout(() => walk.release(), 250);
  }, { passive: false });

  keyboard.addEventListener("keydown", (event) => {
    if (!forPicture(event)) return;
    const move = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!move) return;
    event.preventDefault();
    walk.drag((pose) => move(pose, walk, event.shiftKey), "keys");
    clearTimeout(calm);
    calm = setTimeout(() => walk.release(), 250);
  });
}

const aside = (pose, walk, x, y, z = 0) => pan(pose, ...[x, y, z].map((n) => n * STEP * walk.depthOfPivot()));
const KEYS = {
  ArrowLeft: (pose, walk, shift) => (shift ? aside(pose, walk, -1, 0) : orbit(pose, walk.pivot, walk.up, -STEP, 0)),
  ArrowRight: (pose, walk, shift) => (shift ? aside(pose, walk, 1, 0) : orbit(pose, walk.pivot, walk.up, STEP, 0)),
  ArrowUp: (pose, walk, shift) => (shift ? aside(pose, walk, 0, 1) : orbit(pose, walk.pivot, walk.up, 0, -STEP)),
  ArrowDown: (pose, walk, shift) => (shift ? aside(pose, walk, 0, -1) : orbit(pose, walk.pivot, walk.up, 0, STEP)),
  "+": (pose, walk) => approach(pose, walk.pivot, 1 - STEP, walk.least),
  "=": (pose, walk) => approach(pose, walk.pivot, 1 - STEP, walk.least),
  "-": (pose, walk) => approach(pose, walk.pivot, 1 + STEP, walk.least),
  w: (pose, walk) => aside(pose, walk, 0, 0, 1),
  s: (pose, walk) => aside(pose, walk, 0, 0, -1),
  a: (pose, walk) => aside(pose, walk, -1, 0),
  d: (pose, walk) => aside(pose, walk, 1, 0),
  q: (pose, walk) => aside(pose, walk, 0, -1),
  e: (pose, walk) => aside(pose, walk, 0, 1),
  j: (pose, walk) => look(pose, walk.up, STEP, 0),
  l: (pose, walk) => look(pose, walk.up, -STEP, 0),
  i: (pose, walk) => look(pose, walk.up, 0, STEP),
  k: (pose, walk) => look(pose, walk.up, 0, -STEP),
};
