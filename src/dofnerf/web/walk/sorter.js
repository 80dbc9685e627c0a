// The order in which Gaussians are blended, far to near, found by a worker so that the page stays quick.

export class Sorter {
  constructor(means) {
    const source = new Blob([`(${sortingWork})()`], { type: "text/javascript" });
    const address = URL.createObjectURL(source);
    this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.worker.postMessage({ means });
    this.waiting = new Map(); // by key: the newest request wins
    this.asked = null;
    this.worker.onmessage = ({ data }) => {
      const { then } = this.asked;
      this.asked = null;
      then(data.indices);
      this.next();
    };
  }

  // Calls `then(indices)` with the order for a camera, unless another request with the same key comes first.
  sort(camera, then, key = "view") {
    const a = camera.axes;
    this.waiting.set(key, { position: camera.position, forward: [-a[6], -a[7], -a[8]], then });
    this.next();
  }

  next() {
    if (this.asked || !this.waiting.size) return;
    const key = this.waiting.has("view") ? "view" : this.waiting.keys().next().value;
    this.asked = this.waiting.get(key);
    this.waiting.delete(key);
    this.worker.postMessage({ position: this.asked.position, forward: this.asked.forward });
  }

  free() {
    this.worker.terminate();
  }
}

// Runs in the worker: a counting sort over 65 536 bins of depth, with the exact order inside a bin left as it is.
function sortingWork() {
  let means, keys;
  onmessage = ({ data }) => {
    if (data.means) {
      means = data.means;
      keys = new Float32Array(means.length / 3);
      return;
    }
    const [fx, fy, fz] = data.forward, [px, py, pz] = data.position, count = keys.length;
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < count; i++) {
      const depth = (means[3 * i] - px) * fx + (means[3 * i + 1] - py) * fy + (means[3 * i + 2] - pz) * fz;
      keys[i] = depth > 0 ? 1 / depth : -1; // disparity: fine steps where things are near
      if (depth > 0) {
        if (keys[i] < low) low = keys[i];
        if (keys[i] > high) high = keys[i];
      }
    }
    // The bins are logarithmic, so that one very near Gaussian does not take them all.
    const bins = 65536, starts = new Uint32Array(bins + 1), slots = new Uint16Array(count);
    const scale = Math.log1p(high / Math.max(low, 1e-12)) || 1;
    let visible = 0;
    for (let i = 0; i < count; i++) {
      if (keys[i] < 0) continue;
      const slot = Math.min(bins - 1, Math.floor((Math.log1p(keys[i] / Math.max(low, 1e-12)) / scale) * (bins - 1)));
      slots[i] = slot;
      starts[slot + 1]++;
      visible++;
    }
    for (let b = 0; b < bins; b++) starts[b + 1] += starts[b];
    const indices = new Uint32Array(visible);
    for (let i = 0; i < count; i++) if (keys[i] >= 0) indices[starts[slots[i]]++] = i;
    postMessage({ indices }, [indices.buffer]);
  };
}
