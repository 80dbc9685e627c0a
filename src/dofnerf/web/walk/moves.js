// Ready movements to play: each says what is seen after a share of its time, from what was seen when it began.
import { approach, depthOf, orbit, pan } from "./camera.js";
import { mix } from "./vectors.js";

const wave = (share) => Math.sin(2 * Math.PI * share); // 0, up, 0, down, 0
const there = (share) => (1 - Math.cos(2 * Math.PI * share)) / 2; // 0, 1, 0

// `begin`: {pose, lens}; `stage`: {pivot, up, range, reach (scene units to step aside), least, held (a pose
// within the walls)}.
export const MOVES = {
  rack: { name: "Pull focus", seconds: 6, at: ({ pose, lens }, stage, share) => {
    const [far, near] = stage.range, to = Math.abs(near - lens.focus) > Math.abs(lens.focus - far) ? near : far;
    return { pose, lens: { ...lens, focus: mix(lens.focus, to, there(share)) } };
  } },
  orbit: { name: "Swing around", seconds: 9, at: ({ pose, lens }, stage, share) => {
    const angle = stage.angle * wave(share);
    return { pose: orbit(pose, stage.pivot, stage.up, angle, 0), lens };
  } },
  circle: { name: "Small circle", seconds: 7, at: ({ pose, lens }, stage, share) => {
    const far = 0.5 * stage.reach, turn = 2 * Math.PI * share;
    return { pose: aimed(pan(pose, far * Math.sin(turn), far * (1 - Math.cos(turn)) / 2), pose, stage.pivot), lens };
  } },
  slide: { name: "Slide past", seconds: 8, at: ({ pose, lens }, stage, share) => (
    { pose: pan(pose, stage.reach * wave(share), 0), lens }
  ) },
  push: { name: "Push in", seconds: 8, at: ({ pose, lens }, stage, share) => (
    { pose: approach(pose, stage.pivot, 1 - 0.3 * there(share), stage.least), lens }
  ) },
  zoom: { name: "Dolly zoom", seconds: 8, at: ({ pose, lens }, stage, share) => {
    const nearer = stage.held(approach(pose, stage.pivot, 1 - 0.3 * there(share), stage.least));
    const focal = pose.focal * (depthOf(nearer, stage.pivot) / depthOf(pose, stage.pivot));
    return { pose: { ...nearer, focal }, lens };
  } },
};

// Turned a little so that the pivot stays where it was in the picture.
function aimed(moved, before, pivot) {
  const offset = moved.position.map((x, i) => x - before.position[i]), far = Math.max(depthOf(before, pivot), 1e-9);
  const part = (from) => offset.reduce((sum, x, i) => sum + x * before.axes[from + i], 0);
  return orbit(moved, moved.position, before.axes.slice(3, 6), Math.atan(part(0) / far), -Math.atan(part(3) / far));
}
