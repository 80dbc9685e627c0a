// Three numbers, rotations, quaternions (w, x, y, z); rotations are nine numbers, column after column.

export const plus = (a, b, times = 1) => a.map((x, i) => x + times * b[i]);
export const minus = (a, b) => a.map((x, i) => x - b[i]);
export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
export const size = (a) => Math.hypot(...a);
export const unit = (a) => a.map((x) => x / (Math.hypot(...a) || 1));
export const mix = (a, b, share) => a + (b - a) * share;
export const between = (x, low, high) => Math.min(Math.max(x, low), high);
export const ease = (share) => share * share * (3 - 2 * share);

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

// A vector turned about a unit axis (Rodrigues).
export function turned(v, axis, angle) {
  const c = Math.cos(angle), s = Math.sin(angle), along = dot(axis, v) * (1 - c), side = cross(axis, v);
  return v.map((x, i) => x * c + side[i] * s + axis[i] * along);
}

export function toQuaternion(m) {
  const [a, b, c, d, e, f, g, h, i] = m, trace = a + e + i; // columns abc, def, ghi
  let q;
  if (trace > 0) q = [1 + trace, f - h, g - c, b - d];
  else if (a > e && a > i) q = [f - h, 1 + a - e - i, d + b, g + c];
  else if (e > i) q = [g - c, d + b, 1 - a + e - i, h + f];
  else q = [b - d, g + c, h + f, 1 - a - e + i];
  return unit(q);
}

export function fromQuaternion(q) {
  const [w, x, y, z] = unit(q);
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y),
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x),
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y),
  ];
}

// Part of the way from one rotation to another, at constant speed.
export function slerp(one, two, share) {
  const a = toQuaternion(one);
  let b = toQuaternion(two), cosine = a.reduce((sum, x, i) => sum + x * b[i], 0);
  if (cosine < 0) [b, cosine] = [b.map((x) => -x), -cosine];
  if (cosine > 0.9999) return fromQuaternion(a.map((x, i) => mix(x, b[i], share)));
  const angle = Math.acos(cosine), s = Math.sin(angle);
  const [p, q] = [Math.sin((1 - share) * angle) / s, Math.sin(share * angle) / s];
  return fromQuaternion(a.map((x, i) => p * x + q * b[i]));
}
