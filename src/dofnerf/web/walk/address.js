// The address keeps camera and lens: a reload, or a link sent to somebody, shows the same picture.
import { fromQuaternion, toQuaternion } from "./vectors.js";

const NUMBERS = ["position", "turn", "focal", "opening", "focus", "blades", "rotation", "exposure"];
const LENGTHS = { position: 3, turn: 4 };

export function toHash({ pose, lens, exposure }) {
  const { opening, focus, blades, rotation } = lens;
  const parts = { ...pose, turn: toQuaternion(pose.axes), opening, focus, blades, rotation, exposure };
  const words = (value) => [value].flat().map((x) => Number(x.toPrecision(6))).join(",");
  return NUMBERS.map((key) => `${key}=${words(parts[key])}`).join("&");
}

// What a hash says, or null if it says anything but all of this.
export function fromHash(text) {
  const found = {};
  for (const part of text.replace(/^#/, "").split("&")) {
    const [key, value = ""] = part.split("=");
    found[key] = value.split(",").map((x) => (x === "" ? NaN : Number(x)));
  }
  for (const key of NUMBERS) {
    if (found[key]?.length !== (LENGTHS[key] || 1) || !found[key].every(Number.isFinite)) return null;
  }
  const one = (key) => found[key][0];
  if (!(one("focal") > 0) || one("opening") < 0 || one("focus") < 0 || !found.turn.some(Boolean)) return null;
  const pose = { position: found.position, axes: fromQuaternion(found.turn), focal: one("focal") };
  const [opening, focus, rotation] = ["opening", "focus", "rotation"].map(one);
  const lens = { opening, focus, blades: Math.round(one("blades")), rotation };
  return { pose, lens, exposure: one("exposure") };
}

export function keepInAddress(view) {
  const hash = `#${toHash(view)}`;
  if (hash === location.hash) return;
  try {
    history.replaceState(null, "", hash);
  } catch {
    // a sandboxed frame has no address of its own
  }
}
