"""How good are the points that splats begin with? Against true depth (packaged scene) or against the sparse points
(captures).

    python benchmarks/starts.py                 # the scene in the package; true depth from Mitsuba, for measuring only
    python benchmarks/starts.py FOLDER -d 8     # a capture: its sparse points are the reference
    python benchmarks/starts.py --train 0.33    # and what a third of the steps of preset fast makes of the start

A point's error: in each training photo that shows it, its disparity against that of the reference at its pixel, in per
cent; of these the least, since the point may be hidden from the others. Coverage: the share of a held-out photo's
pixels within 3 pixels of a point that is right there within 5 %, nothing nearer in front (only with true depth). PSNR:
of sharp renders of every eighth of the training photos, which are held out for that; the scene's own held-out views are
not looked at.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from functools import partial
from unittest import mock

import numpy as np

from dofnerf import scenes
from dofnerf.models.splat.start import Start, starting_points
from dofnerf.models.splat.start.sweep import sparse_anchors, sweep
from dofnerf.models.splat.start.views import prepare
from dofnerf.scenes.scene import Scene

WAYS = {
    "own points, sweep": {},
    "triangulated, sweep": {"sparse": False},
    "sweep only": {"sparse": False, "triangulate": False},
    "spread": {"sparse": False, "triangulate": False, "swept": False},
    "own points only": {"swept": False},
    "triangulated only": {"sparse": False, "swept": False},
}


def true_depth(scene: Scene) -> np.ndarray:
    """(frames, H, W) of the packaged scene."""
    from dofnerf.lab.synth.layouts import make_layout
    from dofnerf.lab.synth.package_scene import DEMO
    from dofnerf.lab.synth.raytrace import RayTracer

    layout = make_layout(DEMO.layout, DEMO.seed)
    tracer = RayTracer(layout.parts, layout.sky)
    return np.stack([np.minimum(tracer.depth(scene.camera(i)), 1e4) for i in range(len(scene))])


def errors(scene: Scene, points: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Least relative error of disparity of each point over the training photos, (N,); infinite where none shows it."""
    result = np.full(len(points), np.inf)
    for i in scene.train:
        rows, columns, ids, own = _inside(scene, i, points)
        result[ids] = np.minimum(result[ids], np.abs(depth[i, rows, columns] / own - 1))
    return result


def coverage(scene: Scene, points: np.ndarray, depth: np.ndarray, reach: int = 3) -> float:
    """Share of the held-out photos' pixels within `reach` pixels of a point that lies on what they show."""
    shares = []
    for i in scene.test:
        rows, columns, _, own = _inside(scene, i, points)
        right = np.abs(depth[i, rows, columns] / own - 1) < 0.05
        covered = np.zeros(depth.shape[1:], dtype=bool)
        for y in range(-reach, reach + 1):
            for x in range(-reach, reach + 1):
                if x * x + y * y <= reach * reach:
                    at_y, at_x = rows[right] + y, columns[right] + x
                    fits = (at_y >= 0) & (at_x >= 0) & (at_y < covered.shape[0]) & (at_x < covered.shape[1])
                    covered[at_y[fits], at_x[fits]] = True
        shares.append(covered.mean())
    return float(np.mean(shares))


def against_sparse(scene: Scene, points: np.ndarray) -> np.ndarray:
    """For each sight of a sparse point in a training photo: the relative error of the frontmost of `points` within 2
    pixels."""
    found = []
    width, height = scene.size
    for i in scene.train:
        rows, columns, _, own = _inside(scene, i, points)
        front = np.zeros((height, width))
        for y in range(-2, 3):
            for x in range(-2, 3):
                at = np.clip(rows + y, 0, height - 1), np.clip(columns + x, 0, width - 1)
                np.maximum.at(front, at, 1 / own)
        seen = scene.visible(i)
        at_columns, at_rows = seen.pixels.astype(int).T
        found.append(np.abs(front[at_rows, at_columns] * seen.depth - 1))
    return np.concatenate(found)


def _inside(scene: Scene, i: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    pixels, depth = scene.camera(i).project(points)
    ids = np.flatnonzero((depth > 0) & (pixels >= 0).all(axis=1) & (pixels < scene.size).all(axis=1))
    columns, rows = pixels[ids].astype(int).T
    return rows, columns, ids, depth[ids]


def row(name: str, start: Start, seconds: tuple[float, float], error: np.ndarray, covered: float | None) -> str:
    """One line of the table."""
    last = "–" if covered is None else f"{covered:.3f}"
    good = f"{100 * np.median(error):.2f} % | {np.mean(error < 0.02):.3f} | {np.mean(error > 0.1):.3f}"
    return f"| {name} | {len(start.points)} | {good} | {last} | {seconds[0]:.1f} s | {seconds[1]:.1f} s |"


def main() -> int:
    """Print the table; with --picture, write the disparity of one photo beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="a capture; without one, the scene in the package")
    parser.add_argument("-d", "--downscale", type=int, default=None)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--only", default="", help="ways whose name holds this")
    parser.add_argument("--train", type=float, default=0.0, help="share of the steps of the preset fast to train")
    parser.add_argument(
        "--picture", help="a PNG: photos and their disparity, as the sweep without sparse points sees it"
    )
    options = parser.parse_args()
    scene = scenes.load(options.folder, downscale=options.downscale) if options.folder else scenes.demo()
    print(scene.describe())
    depth = None if options.folder else true_depth(scene)
    starting_points(scene, 100, sparse=False, triangulate=False)  # compiles
    columns = [
        "start",
        "points",
        "median error",
        "within 2 %",
        "beyond 10 %",
        "coverage",
        "time",
        "on processors",
        *(["PSNR"] if options.train else []),
    ]
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, ways in WAYS.items():
        if options.only not in name:
            continue
        begin, worked = time.perf_counter(), worked_for()
        start = starting_points(scene, options.count, **ways)
        seconds = time.perf_counter() - begin, worked_for() - worked
        points = start.points.astype(np.float64)
        error = against_sparse(scene, points) if depth is None else errors(scene, points, depth)
        print(
            row(name, start, seconds, error, None if depth is None else coverage(scene, points, depth)),
            end="",
            flush=True,
        )
        print(f" {trained(scene, ways, options.train):.2f} |" if options.train else "", flush=True)
    if options.picture:
        picture(scene, options.picture)
    return 0


def worked_for() -> float:
    """Processor seconds of this process and of those that it has started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def trained(scene: Scene, ways: dict[str, bool], share: float) -> float:
    """PSNR of the photos held out from the training ones, after `share` of the steps of the preset fast."""
    from dofnerf.evaluate.scores import held_out_psnr
    from dofnerf.lab.bench.cell import validation
    from dofnerf.train import preset, shortened, train

    split = validation(scene)
    with mock.patch("dofnerf.models.splat.training.starting_points", partial(starting_points, **ways)):
        return held_out_psnr(train(split, shortened(preset("fast", "splat"), share)), split)


def picture(scene: Scene, path: str) -> None:
    """Four photos and the disparity that the sweep finds for them."""
    import matplotlib.pyplot as plt

    views = prepare(scene)
    disparity = sweep(views, sparse_anchors(scene, views))
    figure, axes = plt.subplots(2, 4, figsize=(16, 6))
    for column, v in enumerate(np.linspace(0, len(disparity) - 1, 4).astype(int)):
        axes[0, column].imshow(views.photos[v])
        axes[1, column].imshow(disparity[v], vmin=views.planes[v, 0], vmax=views.planes[v, -1])
    for axis in axes.flat:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=60)


if __name__ == "__main__":
    sys.exit(main())
