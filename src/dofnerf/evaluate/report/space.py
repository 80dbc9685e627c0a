"""The scene of a report in space, with the cameras of its photos: what web/walk/space.js is told."""

from __future__ import annotations

from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.ply import Splats
from dofnerf.files.splats import C0
from dofnerf.optics import Lens
from dofnerf.scenes import Scene, Viewpoint
from dofnerf.scenes.overview import mean_basis
from dofnerf.train import Run
from dofnerf.web.walk_page import Walk, packed_model, packed_scene

POINTS, POINT_VIEWS = 20_000, 5  # of a field without Gaussians: how many points stand for it, seen from how many views


def space_of(run: Run, scene: Scene) -> tuple[dict[str, Any], bytes]:
    """(what the page is told of the cameras, the scene packed): its own Gaussians, or points that its views show."""
    lenses = dict(zip(scene.train, run.lenses, strict=False))
    views = [
        Viewpoint(frame.name, scene.camera(i), lenses.get(i), held_out=i in scene.test)
        for i, frame in enumerate(scene.frames)
    ]
    cameras = [view.camera for view in views]
    home, distance = outside(cameras, 2 / (1 / scene.near + 1 / scene.far))
    lens, depths = Lens(0.0, distance), (1 / scene.far, 1 / scene.near)
    up = tuple(mean_basis(cameras)[:, 1].tolist())
    facts = Walk(scene.name, views, home, lens, depths, 0.01 * home.fx, up, free=True).facts() | {"distance": distance}
    for told, view in zip(facts["photos"], views, strict=True):
        told["held"] = view.held_out
    packed = packed_model(run.model, run.config.light)
    return facts, packed or packed_scene(seen_points(run, scene), (1.0, 1.0, 1.0), 1e-3 * scene.near, False, 1.0, 1.0)


def outside(cameras: list[Camera], depth: float) -> tuple[Camera, float]:
    """A camera that sees the others, from behind and above, and what they look at, so far away; and its distance from
    the middle of it all."""
    right, up, ahead = mean_basis(cameras).T
    stands = np.stack([camera.position for camera in cameras])
    seen = np.mean([camera.position + depth * camera.forward for camera in cameras], axis=0)
    middle = (stands.mean(0) + seen) / 2
    extent = max(float(np.linalg.norm(stands - middle, axis=1).max()), 1e-9)
    back = 0.6 * right + 0.55 * up - ahead
    back /= np.linalg.norm(back)
    across = np.cross(up, back)
    across /= np.linalg.norm(across)
    distance = 2.4 * extent
    pose = np.stack([across, np.cross(back, across), back, middle + distance * back], axis=1)
    first = cameras[0]
    focal = 1.1 * (first.width * first.height) ** 0.5
    size = first.width, first.height
    return Camera(pose, focal, focal, size[0] / 2, size[1] / 2, *size), distance


def seen_points(run: Run, scene: Scene) -> Splats:
    """Points of the scene as the run renders it, as small round Gaussians."""
    count = min(POINT_VIEWS, len(scene.train))
    chosen = np.unique(np.linspace(0, len(scene.train) - 1, count).round().astype(int))
    parts = []
    for k in chosen:
        camera = scene.camera(scene.train[k])
        stride = max(1, round((camera.width * camera.height * len(chosen) / POINTS) ** 0.5))
        shown = run.render(camera)
        grid = np.mgrid[stride // 2 : camera.height : stride, stride // 2 : camera.width : stride]
        row, column = (axis.ravel() for axis in grid)
        disparity = shown.disparity.cpu().numpy()[row, column]
        keep = (disparity > 0.5 / scene.far) & (shown.alpha.cpu().numpy()[row, column] > 0.5)
        depth = 1 / disparity[keep]
        places = camera.unproject(np.stack([column + 0.5, row + 0.5], axis=-1)[keep], depth)
        rgb = shown.image.clamp(0, 1).cpu().numpy()[row, column][keep]
        parts.append((places, np.log(0.5 * stride * depth / camera.fx), rgb))
    places, sizes, rgb = (np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
    upright = np.tile(np.array([1, 0, 0, 0], np.float32), (len(places), 1))
    solid = np.full(len(places), 3.0, np.float32)
    return Splats(places, np.repeat(sizes[:, None], 3, 1), upright, solid, ((rgb - 0.5) / C0)[:, None])
