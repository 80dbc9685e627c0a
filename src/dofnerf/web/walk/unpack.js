// The packed scene of a page: see web/pack.py, which writes it.

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export async function unpack(packed) {
  const length = new DataView(packed.buffer, packed.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(packed.subarray(4, 4 + length)));
  const stream = new Blob([packed.subarray(4 + length)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  const read = {};
  for (const { name, columns, bytes: width, low, step, curve } of header.arrays) {
    // Byte planes: all lowest bytes of a column, then the next ones.
    const out = new Float32Array(header.count * columns);
    for (let column = 0; column < columns; column++) {
      for (let i = 0; i < header.count; i++) {
        let whole = 0;
        for (let b = 0; b < width; b++) whole += bytes[at + b * header.count + i] * 256 ** b;
        const value = low[column] + step[column] * whole;
        out[i * columns + column] = curve === "exp" ? Math.exp(value) : curve === "sinh" ? Math.sinh(value) : value;
      }
      at += width * header.count;
    }
    read[name] = out;
  }
  const { centre, unit, degree } = header.scene, kinds = (degree + 1) ** 2, numbers = 3 * kinds;
  const means = read.places.map((value, i) => centre[i % 3] + unit * value);
  const harmonics = new Float32Array(header.count * numbers);
  for (let i = 0; i < header.count; i++) {
    harmonics.set(read.base.subarray(3 * i, 3 * i + 3), numbers * i);
    const more = numbers - 3;
    if (more) harmonics.set(read.directional.subarray(more * i, more * (i + 1)), numbers * i + 3);
    for (let k = numbers * i; k < numbers * (i + 1); k += 3) { // stored as green, red - green, blue - green
      const [green, red, blue] = harmonics.subarray(k, k + 3);
      harmonics.set([green + red, green, green + blue], k);
    }
    const q = read.quaternions.subarray(4 * i, 4 * i + 4), length = Math.hypot(...q) || 1;
    q.forEach((value, k) => (q[k] = value / length));
  }
  const { scales, quaternions, opacities } = read;
  return { ...header.scene, count: header.count, means, quaternions, scales, opacities, harmonics };
}
