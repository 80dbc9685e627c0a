"""Small cameras for tests: around a thing, or side by side."""

import numpy as np

from dofnerf.camera import Camera


def look_at(position, target, size=(10, 12), focal=14.0, up=(0.0, 1.0, 0.0)):
    """A camera of `size` (height, width) at `position` that looks at `target`."""
    back = np.asarray(position, float) - np.asarray(target, float)
    back /= np.linalg.norm(back)
    right = np.cross(up, back)
    right /= np.linalg.norm(right)
    pose = np.stack([right, np.cross(back, right), back, np.asarray(position, float)], axis=1)
    return Camera(pose, focal, focal * 1.1, size[1] / 2 + 0.3, size[0] / 2 - 0.2, size[1], size[0])


def around(count, radius=4.0):
    """`count` cameras on a ring that look at the origin."""
    angles = np.arange(count) * 2 * np.pi / count + 0.2
    return [look_at((radius * np.sin(a), 0.8, radius * np.cos(a)), (0, 0, 0)) for a in angles]


def facing_forward(count, size=(10, 12), focal=14.0):
    """`count` cameras side by side, all looking along −z at about (0, 0, −3)."""
    return [
        look_at((0.3 * (i - (count - 1) / 2), 0.1 * (-1) ** i, 0.02 * i), (0, 0, -3), size, focal) for i in range(count)
    ]
