"""Cameras and some of what they see, in a cube of about one unit, for the canvas that turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dofnerf.scenes import Scene
from dofnerf.scenes.overview import mean_basis, rim_of
from dofnerf.train import Run

POINTS, VIEWS = 3600, 5
_FAR = 0.9  # of the scene's disparities: what lies beyond is left out, or the cameras would be a dot


def world_of(run: Run, scene: Scene) -> dict[str, Any]:
    """`points` as [x, y, z, colour] that the run sees from a few views; `cameras` as place, rim of what they see, held
    out."""
    places, colours = seen_points(run, scene)
    cameras = [scene.camera(i) for i in range(len(scene))]
    turn = mean_basis(cameras) * [1, 1, -1]  # right, up, backward
    stands = np.stack([camera.position for camera in cameras])
    everything = np.concatenate([places, stands]) @ turn
    low, high = np.percentile(everything, [1, 99], axis=0)
    middle, unit = (low + high) / 2, max(float((high - low).max()), 1e-9)
    spread = float(np.linalg.norm(stands - stands.mean(0), axis=1).max())
    reach = max(0.35 * spread, 0.035 * unit)

    def plain(points: np.ndarray) -> list[list[float]]:
        return ((points @ turn - middle) / unit).round(4).tolist()

    held = set(scene.test)
    dots = [[*place, colour] for place, colour in zip(plain(places), colours, strict=True)]
    drawn = [
        {"place": plain(camera.position[None])[0], "rim": plain(rim_of(camera, reach)), "held": i in held}
        for i, camera in enumerate(cameras)
    ]
    return {"points": dots, "cameras": drawn}


def seen_points(run: Run, scene: Scene) -> tuple[np.ndarray, list[str]]:
    """Points (N, 3) of the scene as the run sees it, with colours."""
    chosen = np.unique(np.linspace(0, len(scene.train) - 1, min(VIEWS, len(scene.train))).round().astype(int))
    places, colours = [], []
    for k in chosen:
        camera = scene.camera(scene.train[k])
        stride = max(1, round((camera.width * camera.height * len(chosen) / POINTS) ** 0.5))
        shown = run.render(camera)
        row, column = (
            axis.ravel() for axis in np.mgrid[stride // 2 : camera.height : stride, stride // 2 : camera.width : stride]
        )
        disparity = shown.disparity.cpu().numpy()[row, column]
        keep = (disparity > _FAR / scene.far) & (shown.alpha.cpu().numpy()[row, column] > 0.5)
        pixels = np.stack([column + 0.5, row + 0.5], axis=-1)[keep]
        places.append(camera.unproject(pixels, 1 / disparity[keep]))
        rgb = (shown.image.clamp(0, 1).cpu().numpy()[row, column][keep] * 255).round().astype(int)
        colours += [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in rgb]
    return np.concatenate(places), colours
