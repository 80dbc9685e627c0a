"""Pictures of a world that is known exactly: random blots on a wall and on a board before it."""

import numpy as np

from dofnerf.scenes.distortion import sample_cubic

FOCAL = 135.0
WALL, BOARD = 5.0, 2.5


class Painted:
    label = "painted"

    def __init__(self, image):
        self.image = image

    def load(self):
        return self.image


def paint(camera, seed=0):
    """Random blots on a wall and on a board before it, (H, W, 3), of about three pixels at a focal length of
    `FOCAL`."""
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    rays = camera.unproject(np.stack([columns.ravel(), rows.ravel()], axis=-1), np.ones(rows.size)) - camera.position
    image = np.empty((rows.size, 3), np.float32)
    for number, depth in enumerate((WALL, BOARD)):
        at = camera.position + rays * ((-depth - camera.position[2]) / rays[:, 2])[:, None]
        here = np.ones(len(at), bool) if number == 0 else (np.abs(at[:, 0]) < 0.5) & (np.abs(at[:, 1]) < 0.4)
        blots = np.random.default_rng(2 * seed + number).uniform(0, 1, (200, 200, 1)).astype(np.float32)
        at = at[:, :2] * FOCAL / depth / 3 + 100
        value = sample_cubic(blots, at[:, 0], at[:, 1])
        image[here] = value[here] * np.array([1.0, 0.9, 0.8])
    return image.reshape(camera.height, camera.width, 3)
