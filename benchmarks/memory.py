"""How much memory do many large photos need? A scene of such photos is opened and trained for a few steps.

    python benchmarks/memory.py                          200 photos of 4000×3000 (12 megapixels)
    python benchmarks/memory.py --count 200 --size 6000 4000

The photos are those of the package, enlarged, with noise, as JPEG; their cameras are the package's, in turn. Makes the
scene in --out, trains in a process of its own, and prints its peak resident memory (ru_maxrss) and how long opening and
all of it took. While it trains, a file beside the run holds the photos as bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

STEPS = {"pinhole_steps": 12, "lens_steps": 12, "sub_aperture_steps": 12}


def make_scene(folder: Path, count: int, size: tuple[int, int]) -> None:
    """The scene's files; photos that are there are kept."""
    from dofnerf import scenes
    from dofnerf.files import write_json
    from dofnerf.files.pictures import to_bytes
    from dofnerf.files.ply import write_ply

    demo, width, height = scenes.demo(), *size
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng, frames = np.random.default_rng(0), []
    for k in range(count):
        i = demo.train[k % len(demo.train)]
        camera, name = demo.camera(i), f"images/{k:04d}.jpg"
        if not (folder / name).exists():
            large = np.asarray(Image.fromarray(to_bytes(demo.photo(i))).resize(size, Image.Resampling.BICUBIC))
            noise = np.tile(rng.integers(-4, 5, (256, 256, 3)), (-(-height // 256), -(-width // 256), 1))
            Image.fromarray(np.clip(large + noise[:height, :width], 0, 255).astype(np.uint8)).save(folder / name)
        pose = [*camera.camera_to_world.tolist(), [0, 0, 0, 1]]
        frames.append({"file_path": name, "transform_matrix": pose})
    ratio, camera = width / demo.size[0], demo.camera(0)
    data = {"w": width, "h": height, "fl_x": camera.fx * ratio, "near": demo.near, "far": demo.far}
    assert demo.points is not None
    write_ply(folder / "points.ply", demo.points)
    write_json(folder / "transforms.json", {**data, "ply_file_path": "points.ply", "frames": frames})


def train_here(folder: Path) -> None:
    """Open and train, and print what it took, as JSON."""
    from dofnerf import scenes
    from dofnerf.train import KeepConfig, preset, train

    begun = time.monotonic()
    scene = scenes.load(folder, hold_every=0)
    opened = time.monotonic() - begun
    config = preset("fast").changed({"method": STEPS, "lens": {"refits": ()}})
    train(scene, config, out=folder / "run", keep=KeepConfig(preview_minutes=0), quiet=False)
    print(json.dumps({"opened": opened, "all": time.monotonic() - begun, "peak": _peak()}), flush=True)


def _peak() -> float:
    """GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--size", type=int, nargs=2, default=(4000, 3000))
    parser.add_argument("--out", type=Path, default=Path("memory-scene"))
    parser.add_argument("--train-here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train_here:
        train_here(given.out)
        return
    make_scene(given.out, given.count, tuple(given.size))
    child = [sys.executable, __file__, "--out", str(given.out), "--train-here"]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    pixels = given.count * given.size[0] * given.size[1]
    print(
        f"{given.count} photos of {given.size[0]}×{given.size[1]}, {12 * pixels / 1e9:.1f} GB as floats: "
        f"opened in {found['opened']:.1f} s, {sum(STEPS.values())} steps in {found['all']:.0f} s in all, "
        f"peak resident memory {found['peak']:.2f} GB"
    )


if __name__ == "__main__":
    main()
