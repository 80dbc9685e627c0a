// Where the photographer stands. A pose is {position, axes, focal}: `axes` are nine numbers, the columns of
// camera-to-world (right, up, back). `focal` is the focal length in pixels over `sideOf` the picture. Every function
// returns a new pose.
import { between, cross, dot, median, minus, mix, plus, size, slerp, turned, unit } from "./vectors.js";

const POLE = 0.15; // radians that a camera keeps from looking straight up or down
const BEYOND = 1.08; // how much more than a photo a window may show along a side
const ELASTIC = 0.3; // how far soft walls give way, as a share of their distance

export const right = (pose) => pose.axes.slice(0, 3);
export const above = (pose) => pose.axes.slice(3, 6);
export const forward = (pose) => pose.axes.slice(6, 9).map((x) => -x);

// The side of the square to which focal lengths refer. A window of any shape shows as large a part of the scene as a
// photo (of this `aspect`, width : height), but not much more than it along either side: nobody knows what is there.
export function sideOf(width, height, aspect) {
  const root = Math.sqrt(aspect);
  return Math.max(Math.sqrt(width * height), Math.max(width / root, height * root) / BEYOND);
}

// The camera that draws a picture of this many pixels.
export function cameraOf(pose, width, height, aspect) {
  const f = pose.focal * sideOf(width, height, aspect);
  return { position: pose.position, axes: pose.axes, fx: f, fy: f, cx: width / 2, cy: height / 2, width, height };
}

export function poseOf(photo) {
  const focal = Math.sqrt((photo.fx * photo.fy) / (photo.width * photo.height));
  return { position: photo.position, axes: photo.axes, focal };
}

// The point of the scene at a pixel and a depth along the axis.
export function pointAt(camera, column, row, depth) {
  const x = ((column - camera.cx) / camera.fx) * depth, y = (-(row - camera.cy) / camera.fy) * depth, a = camera.axes;
  return camera.position.map((p, i) => p + a[i] * x + a[3 + i] * y - a[6 + i] * depth);
}

export const depthOf = (pose, point) => dot(minus(point, pose.position), forward(pose));

// Turn the pose about an axis through a point.
function turnAbout(pose, pivot, axis, angle) {
  const parts = [0, 3, 6].map((i) => turned(pose.axes.slice(i, i + 3), axis, angle));
  return { ...pose, position: plus(pivot, turned(minus(pose.position, pivot), axis, angle)), axes: parts.flat() };
}

// Walk around a point: angles in radians, `across` about what is up, `along` over it.
export function orbit(pose, pivot, up, across, along) {
  const tilt = Math.asin(between(dot(forward(pose), up), -1, 1)), most = Math.PI / 2 - POLE;
  const held = between(tilt + along, Math.min(-most, tilt), Math.max(most, tilt)) - tilt;
  const level = unit(cross(forward(pose), up)), axis = dot(level, right(pose)) < 0 ? level.map((x) => -x) : level;
  return turnAbout(turnAbout(pose, pivot, axis, held), pivot, up, across);
}

// Look around without moving.
export const look = (pose, up, across, along) => orbit(pose, pose.position, up, across, along);

// Step aside: distances in scene units.
export function pan(pose, across, along, ahead = 0) {
  const moves = [[right(pose), across], [above(pose), along], [forward(pose), ahead]];
  return { ...pose, position: moves.reduce((at, [axis, far]) => plus(at, axis, far), pose.position) };
}

// Come nearer to a point: to `factor` times the distance, not nearer than `least`.
export function approach(pose, pivot, factor, least) {
  const far = Math.max(size(minus(pose.position, pivot)), 1e-9), kept = Math.max(factor, Math.min(least / far, 1));
  return { ...pose, position: plus(pivot, minus(pose.position, pivot), kept) };
}

export function flight(from, to, share) {
  return {
    position: from.position.map((x, i) => mix(x, to.position[i], share)),
    axes: slerp(from.axes, to.axes, share),
    focal: Math.exp(mix(Math.log(from.focal), Math.log(to.focal), share)),
  };
}

// Soft walls around the places from which the photos were taken, and around the ways in which they look.
export function wallsAround(photos, pivot) {
  if (photos.length < 2) return null;
  const places = photos.map((photo) => photo.position);
  const apart = (one, two) => (one === two ? Infinity : size(minus(one, two)));
  const gaps = places.map((place) => Math.min(...places.map((other) => apart(place, other))));
  const radius = Math.max(0.75 * Math.max(...gaps), 0.1 * median(places.map((place) => size(minus(place, pivot)))));
  const walls = { places, ways: photos.map((photo) => forward(photo)), radius };
  const off = photos.map((photo, i) => angleBetween(walls.ways[i], wayAt(walls, photo.position)));
  return { ...walls, angle: Math.max(0.2, ...off) }; // every photo's own view is within
}

// The way in which photos look that were taken around here.
function wayAt({ places, ways, radius }, position) {
  const weight = (place) => Math.exp(-((size(minus(position, place)) / radius) ** 2)) + 1e-9;
  return unit(ways.reduce((sum, one, i) => plus(sum, one, weight(places[i])), [0, 0, 0]));
}

const angleBetween = (one, two) => Math.acos(between(dot(one, two), -1, 1));

// Keep a pose within the walls. `give` 1 lets it lean out a little (while it is dragged), 0 puts it back inside.
export function confine(pose, walls, give) {
  if (!walls) return pose;
  const offsets = walls.places.map((place) => minus(pose.position, place)), far = offsets.map(size);
  const nearest = far.indexOf(Math.min(...far)), kept = soft(far[nearest], walls.radius, give);
  let held = pose;
  if (kept < far[nearest]) {
    held = { ...pose, position: plus(walls.places[nearest], offsets[nearest], kept / far[nearest]) };
  }
  const way = wayAt(walls, pose.position), ahead = forward(held), angle = angleBetween(ahead, way);
  const most = soft(angle, walls.angle, give);
  return most < angle ? turnAbout(held, held.position, unit(cross(ahead, way)), angle - most) : held;
}

function soft(value, limit, give) {
  if (value <= limit) return value;
  const room = ELASTIC * limit;
  return limit + give * room * (1 - Math.exp(-(value - limit) / room));
}
