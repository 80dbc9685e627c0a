"""Do larger photos show more detail? The same photos are trained on at full size and shrunk, and compared at full size.

    python benchmarks/detail.py --out detail                    24 photos of 1008×672, `fast`, at 504 and 1008 pixels
    python benchmarks/detail.py --out detail --widths 1008 --method '{"splats": 120000}' --validation

Makes a scene in --out first: printed, woven and painted boards at all depths before a brick wall, through a thin lens,
each photo with an aperture and focus of its own, by rays (64 a pixel), and sharp (16 a pixel). Textures are finer than
pixels, and lighting is flat: Mitsuba's light paths would take half an hour at this size. For each width it prints the
PSNR of the sharp held-out views at full size: pictures drawn at full size, and pictures of the size of training
enlarged by a bicubic filter; and Gaussians, processor time and peak memory. Runs are kept in --out by their settings.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.scores import lens_error
from dofnerf.files import write_image, write_json
from dofnerf.lab.bench.cell import validation
from dofnerf.lab.synth import textures
from dofnerf.lab.synth.layout import look_at
from dofnerf.optics.kernels import compiled
from dofnerf.train import KeepConfig, Run, preset, shortened, train

NEAR, FAR, GAMMA = 1.3, 7.0, 2.2
WIDE = 0.033  # of the width: the blur radius at one end of the depth range of a photo focused on the other
WORDS = (
    "THE QUICK BROWN\nFOX JUMPS OVER\nTHE LAZY DOG",
    "PACK MY BOX WITH\nFIVE DOZEN LIQUOR\nJUGS AND ONE\nSMALL CORKSCREW",
    "HOW RAZORBACK\nJUMPING FROGS CAN\nLEVEL SIX PIQUED\nGYMNASTS",
    "SPHINX OF BLACK\nQUARTZ JUDGE\nMY VOW",
)


def boards(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rectangles in space, the wall first: `frames` (N, 12) of corner, the two sides and normal; the place of each
    texture in `texels`, (N, 3) of start, rows and columns; `texels` (T, 3) float32 in linear light."""
    rng = np.random.default_rng(seed)
    corners, sides, pictures = [], [], []

    def put(centre: tuple[float, float, float], across: np.ndarray, up: np.ndarray, picture: np.ndarray) -> None:
        corners.append(np.array(centre) - across / 2 + up / 2)
        sides.append((across, -up))
        pictures.append(np.clip(picture, 0, 1) ** GAMMA)

    put((0, 0.5, -6.8), np.array([9.0, 0, 0]), np.array([0, 6.0, 0]), _wall(rng))
    ground = textures.planks(rng, (3000, 2400), 12, (0.66, 0.44, 0.26), (0.34, 0.19, 0.10))
    put((0, -0.9, -4.0), np.array([7.0, 0, 0]), np.array([0, 0, -5.6]), ground)
    for k in range(16):
        depth = 1 / rng.uniform(1 / 6.2, 1 / 1.5)
        size = rng.uniform(0.16, 0.26) * depth
        turn = rng.uniform(-0.7, 0.7)
        across = size * np.array([math.cos(turn), 0, math.sin(turn)])
        middle = (rng.uniform(-0.45, 0.45) * depth, rng.uniform(-0.24, 0.26) * depth, -depth)
        put(middle, across, np.array([0, size * rng.uniform(0.7, 1.3), 0]), _picture(rng, k))
    frames = np.array(
        [
            [*corner, *across, *down, *np.cross(across, down)]
            for corner, (across, down) in zip(corners, sides, strict=True)
        ]
    )
    starts = np.cumsum([0, *(one.shape[0] * one.shape[1] for one in pictures)])[:-1]
    where = np.array([[start, *one.shape[:2]] for start, one in zip(starts, pictures, strict=True)])
    return frames, where, np.concatenate([one.reshape(-1, 3) for one in pictures]).astype(np.float32)


def _wall(rng: np.random.Generator) -> np.ndarray:
    wall = textures.bricks(rng, (1800, 2700), 30, (0.60, 0.36, 0.28), (0.74, 0.70, 0.64))
    for text in WORDS:
        high, wide = 330, 460
        top, left = rng.integers(300, 1300), rng.integers(500, 1800)
        wall[top : top + high, left : left + wide] = textures.printed(
            (high, wide), text, (0.9, 0.88, 0.8), (0.1, 0.1, 0.2)
        )
    return wall


def _picture(rng: np.random.Generator, k: int) -> np.ndarray:
    dark, light = rng.uniform(0.02, 0.4, 3), rng.uniform(0.6, 0.95, 3)
    if k % 4 == 0:
        return textures.printed((640, 640), WORDS[k // 4 % len(WORDS)], tuple(light), tuple(dark))
    if k % 4 == 1:
        return textures.weave(rng, (512, 512), 80, [tuple(light), tuple(dark), tuple(rng.uniform(0.1, 0.9, 3))])
    if k % 4 == 2:
        return textures.tiles(rng, 640, 6, tuple(dark), tuple(light))
    return textures.blend(tuple(dark), tuple(light), 3 * textures.noise(rng, 640, 640, (8, 8), 7) - 1)


@compiled
def _trace(frames, where, texels, camera, lens, samples, image):
    """Fill `image` (H, W, 3) by `samples`² rays a pixel. `camera`: axes and position (12), focal length, and principal
    point; `lens`: radius and focus depth."""
    height, width = image.shape[:2]
    state = np.uint64(88172645463325252) + np.uint64(1000003) * np.uint64(int(abs(camera[9]) * 1e6))
    golden = 2.399963229728653
    for y in range(height):
        for x in range(width):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            turn = (state & np.uint64(0xFFFFFF)) / 16777216.0
            red = green = blue = 0.0
            count = samples * samples
            for s in range(count):
                # A pixel's places on a grid; the lens's on a spiral, in an order that does not follow the grid.
                other = (s * 37 + 11) % count
                radius = lens[0] * math.sqrt((other + 0.5) / count)
                angle = golden * other + 6.283185307179586 * turn
                a, b = radius * math.cos(angle), radius * math.sin(angle)
                u = (x + (s % samples + 0.5) / samples - camera[13]) / camera[12]
                v = -(y + (s // samples + 0.5) / samples - camera[14]) / camera[12]
                du, dv = u - a / lens[1], v - b / lens[1]
                ox = camera[9] + a * camera[0] + b * camera[3]
                oy = camera[10] + a * camera[1] + b * camera[4]
                oz = camera[11] + a * camera[2] + b * camera[5]
                dx = du * camera[0] + dv * camera[3] - camera[6]
                dy = du * camera[1] + dv * camera[4] - camera[7]
                dz = du * camera[2] + dv * camera[5] - camera[8]
                nearest, best, p, q = 1e9, -1, 0.0, 0.0
                for k in range(len(frames)):
                    f = frames[k]
                    slope = f[9] * dx + f[10] * dy + f[11] * dz
                    wx, wy, wz = f[0] - ox, f[1] - oy, f[2] - oz
                    t = (f[9] * wx + f[10] * wy + f[11] * wz) / slope
                    if t <= 0.05 or t >= nearest:
                        continue
                    hx, hy, hz = t * dx - wx, t * dy - wy, t * dz - wz
                    i = (hx * f[3] + hy * f[4] + hz * f[5]) / (f[3] ** 2 + f[4] ** 2 + f[5] ** 2)
                    j = (hx * f[6] + hy * f[7] + hz * f[8]) / (f[6] ** 2 + f[7] ** 2 + f[8] ** 2)
                    if 0 <= i < 1 and 0 <= j < 1:
                        nearest, best, p, q = t, k, i, j
                if best >= 0:
                    rows, columns = where[best, 1], where[best, 2]
                    texel = where[best, 0] + int(q * rows) * columns + int(p * columns)
                    red += texels[texel, 0]
                    green += texels[texel, 1]
                    blue += texels[texel, 2]
            image[y, x, 0] = red / count
            image[y, x, 1] = green / count
            image[y, x, 2] = blue / count


def make_scene(folder: Path, count: int, size: tuple[int, int], seed: int) -> None:
    """The scene's files; pictures that are there are kept."""
    rng, made = np.random.default_rng([seed, 1]), boards(seed)
    columns = round(math.sqrt(1.5 * count))
    frames = []
    for k in range(count):
        row, column = divmod(k, columns)
        place = np.array([2 * (column + 0.5) / columns - 1, 2 * (row + 0.5) / math.ceil(count / columns) - 1])
        eye = np.array([0.40, 0.22, 0.1]) * (np.array([*place, 0]) + 0.1 * rng.normal(size=3))
        camera = look_at(eye, np.array([0, 0, -3.5]) + 0.06 * rng.normal(size=3), 0.015 * rng.normal(), 52.0, size)
        aperture = WIDE * size[0] * rng.uniform(0.5, 1.1) / (1 / NEAR - 1 / FAR)
        focus = 1 / rng.uniform(1 / 6.5, 1 / 1.5)
        names = f"photos/{k:03d}.png", f"sharp/{k:03d}.png"
        for name, lens, samples in ((names[0], (aperture / camera.fx, focus), 8), (names[1], (0.0, 1.0), 4)):
            if not (folder / name).exists():
                write_image(folder / name, _photo(made, camera, lens, samples))
        pose = [*camera.camera_to_world.tolist(), [0.0, 0.0, 0.0, 1.0]]
        lens = {"aperture": aperture, "focus_depth": focus}
        frames.append({"file_path": names[0], "sharp_file_path": names[1], "lens": lens, "transform_matrix": pose})
    one = {"w": size[0], "h": size[1], "fl_x": camera.fx, "fl_y": camera.fy, "cx": camera.cx, "cy": camera.cy}
    write_json(folder / "transforms.json", {**one, "near": NEAR, "far": FAR, "light": GAMMA, "frames": frames})


def _photo(made: tuple, camera: Camera, lens: tuple[float, float], samples: int) -> np.ndarray:
    image = np.zeros((camera.height, camera.width, 3))
    seen = np.array([*camera.camera_to_world.T.ravel(), camera.fx, camera.cx, camera.cy])
    _trace(*made, seen, np.array(lens), samples, image)
    return (np.clip(image, 0, 1) ** (1 / GAMMA)).astype(np.float32)


def enlarged(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    planes = [Image.fromarray(plane).resize(size, Image.Resampling.BICUBIC) for plane in np.moveaxis(picture, -1, 0)]
    return np.clip(np.stack([np.asarray(plane) for plane in planes], axis=-1), 0, 1)


def train_here(given: argparse.Namespace, width: int) -> None:
    """One training and its scores, and print them as JSON."""
    full = scenes.load(given.scene or given.out / "scene")
    full = validation(full) if given.validation else full
    scene = scenes.load(given.scene or given.out / "scene", width=width)
    scene = validation(scene) if given.validation else scene
    config = shortened(preset(given.preset), given.steps).changed({"method": given.method, "lens": given.lens})
    config = replace(config, seed=given.seed)
    config = replace(config, method=config.method.for_photos_of(scene.size[0] * scene.size[1]))
    key = f"{width}-{given.steps:g}-{given.seed}-{'v' if given.validation else 'h'}"
    key += "".join(c for c in json.dumps([given.method, given.lens]) if c.isalnum() or c in "._-")
    begun = time.process_time()
    train(scene, config, out=given.out / key, resume=True, keep=KeepConfig(preview_minutes=0), quiet=True)
    spent = time.process_time() - begun
    run = Run.load(given.out / key)
    drawn, larger = [], []
    for i in full.test:
        truth = full.sharp(i)
        drawn.append(psnr(run.render(full.camera(i)).image.numpy(), truth))
        larger.append(psnr(enlarged(run.render(scene.camera(i)).image.numpy(), full.size), truth))
    print(
        json.dumps({
            "drawn": float(np.mean(drawn)), "enlarged": float(np.mean(larger)), "spent": spent,
            "splats": len(run.model.means), "lens": lens_error(run, scene), "steps": config.method.total,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        })
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, help="another scene that has sharp photos, instead of the boards")
    parser.add_argument("--views", type=int, default=24)
    parser.add_argument("--size", type=int, nargs=2, default=(1008, 672))
    parser.add_argument("--widths", type=int, nargs="+", default=(504, 1008))
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", type=json.loads, default={}, help="changes to the method's settings, as JSON")
    parser.add_argument("--lens", type=json.loads, default={}, help="changes to the lens's settings, as JSON")
    parser.add_argument("--validation", action="store_true", help="hold out training photos instead")
    parser.add_argument("--out", type=Path, default=Path("detail"))
    parser.add_argument("--train-here", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train_here:
        train_here(given, given.train_here)
        return
    if given.scene is None:
        make_scene(given.out / "scene", given.views, tuple(given.size), 0)
    print("| trained at | Gaussians | steps | drawn at full size | enlarged | lens errors | processor s | peak GB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for width in given.widths:
        command = [sys.executable, __file__, *sys.argv[1:], "--train-here", str(width)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        wide, focus = found["lens"]
        print(
            f"| {width} | {found['splats']} | {found['steps']} | {found['drawn']:.2f} | {found['enlarged']:.2f} | "
            f"{100 * wide:.1f} % / {100 * focus:.1f} % | {found['spent']:.0f} | {found['peak']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
