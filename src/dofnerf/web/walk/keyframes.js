// The way between keyframes, as the film will take it (studio/keyframes.py): splines through all of them, so that there
// is no jump in speed.
import { between, fromQuaternion, toQuaternion } from "./vectors.js";

// What is seen `at` a place between keyframes {pose, lens, exposure}, of which the first is 0 and the next 1.
export function along(frames, at) {
  const rows = frames.map(numbers), last = rows.length - 1, i = between(Math.floor(at), 0, last - 1);
  for (let k = 1; k <= last; k++) { // both signs mean the same turn: take the one nearer to the turn before
    const nearer = [3, 4, 5, 6].reduce((sum, n) => sum + rows[k][n] * rows[k - 1][n], 0) >= 0;
    if (!nearer) for (let n = 3; n < 7; n++) rows[k][n] *= -1;
  }
  focusAll(rows);
  const speed = (k) => {
    const low = Math.max(k - 1, 0), high = Math.min(k + 1, last);
    return rows[high].map((x, n) => (x - rows[low][n]) / (high - low));
  };
  const t = between(at - i, 0, 1), s = 1 - t, [from, to] = [speed(i), speed(i + 1)];
  const row = rows[i].map((x, n) => (
    s * s * (1 + 2 * t) * x + t * t * (3 - 2 * t) * rows[i + 1][n] + s * t * (s * from[n] - t * to[n])
  ));
  const focal = Math.exp(row[7]), { blades } = frames[t < 0.5 ? i : i + 1].lens;
  const lens = { opening: Math.max(row[8], 0) / focal, focus: Math.max(row[9], 0), blades, rotation: row[10] };
  const pose = { position: row.slice(0, 3), axes: fromQuaternion(row.slice(3, 7)), focal };
  return { pose, lens, exposure: row[11] };
}

function numbers({ pose, lens, exposure }) {
  const { opening, focus, rotation } = lens, turn = toQuaternion(pose.axes);
  const known = opening > 0 ? focus : NaN;
  return [...pose.position, ...turn, Math.log(pose.focal), opening * pose.focal, known, rotation, exposure];
}

// A keyframe that is all sharp has no focus of its own: it takes that of those around.
function focusAll(rows) {
  const known = rows.map((row, k) => [k, row[9]]).filter(([, focus]) => !Number.isNaN(focus));
  rows.forEach((row, k) => {
    const [a, x] = known.findLast(([at]) => at <= k) || known[0] || [0, 0];
    const [b, y] = known.find(([at]) => at >= k) || known.at(-1) || [0, 0];
    row[9] = b > a ? x + ((y - x) * (k - a)) / (b - a) : a > k ? x : y;
  });
}
