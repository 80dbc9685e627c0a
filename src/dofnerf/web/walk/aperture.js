// The aperture: where on it the exact lens looks from, and what shape it has.

// Points on an aperture of radius 1 (x right, y up) in an order of which every beginning is spread evenly: the R2
// sequence, mapped to equal areas. `reach` is the distance of the rim in equally spaced directions.
export function aperturePoints(reach, count) {
  const fine = 2048, area = new Float64Array(fine + 1), at = (turn) => {
    const place = (((turn % 1) + 1) % 1) * reach.length, first = Math.floor(place), share = place - first;
    return reach[first % reach.length] * (1 - share) + reach[(first + 1) % reach.length] * share;
  };
  for (let i = 0; i < fine; i++) area[i + 1] = area[i] + at((i + 0.5) / fine) ** 2;
  const points = [];
  for (let k = 1; k <= count; k++) {
    const u = (0.5 + 0.7548776662466927 * k) % 1, v = (0.5 + 0.5698402909980532 * k) % 1;
    const wanted = u * area[fine];
    let low = 0, high = fine;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (area[middle] <= wanted) low = middle; else high = middle;
    }
    const turn = (low + (wanted - area[low]) / Math.max(area[low + 1] - area[low], 1e-12)) / fine;
    const far = Math.sqrt(v) * at(turn), angle = 2 * Math.PI * turn;
    points.push([far * Math.cos(angle), far * Math.sin(angle)]);
  }
  return points;
}

// The reach of a polygon with `blades` sides turned by `degrees`, or of a disc, in `count` directions.
export function bladesReach(blades, degrees, count = 256) {
  if (!blades) return new Array(count).fill(1);
  const half = Math.PI / blades;
  return Array.from({ length: count }, (_, i) => {
    const past = (((2 * Math.PI * i) / count - (degrees * Math.PI) / 180) % (2 * half) + 2 * half) % (2 * half);
    return Math.cos(half) / Math.cos(past - half);
  });
}

// The camera at a point of the aperture; its principal point moves so that the focal plane stays where it is.
export function throughPoint(camera, lens, [x, y]) {
  const a = camera.axes, right = (x * lens.aperture) / camera.fx, up = (y * lens.aperture) / camera.fy;
  const position = [0, 1, 2].map((i) => camera.position[i] + a[i] * right + a[3 + i] * up);
  const cx = camera.cx + x * lens.aperture * lens.focus, cy = camera.cy - y * lens.aperture * lens.focus;
  return { ...camera, position, cx, cy };
}
