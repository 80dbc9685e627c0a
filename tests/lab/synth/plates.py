"""A scene of two flat plates, the left one near and the right one far, with a bright dot on each: written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT, COUNT = 72, 40, 3
NEAR, FAR = 2.0, 4.0
DOTS = {"near": (18, 20), "far": (54, 20)}


def depth() -> np.ndarray:
    return np.where(np.arange(WIDTH) < WIDTH // 2, NEAR, FAR).astype(np.float32) * np.ones(
        (HEIGHT, 1), dtype=np.float32
    )


def write(root: Path, depth_maps: bool = True) -> Path:
    """Three views, a little apart, of the same picture."""
    (root / "images").mkdir(parents=True)
    (root / "depth").mkdir()
    image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    for column, row in DOTS.values():
        image[row, column] = 255
    frames = []
    for i in range(COUNT):
        Image.fromarray(image).save(root / f"images/view{i}.png")
        matrix = [[1, 0, 0, 0.1 * i], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        frames.append({"file_path": f"images/view{i}.png", "transform_matrix": matrix})
        if depth_maps:
            np.save(root / f"depth/view{i}.npy", depth())
            frames[-1]["depth_file_path"] = f"depth/view{i}.npy"
    data = {"w": WIDTH, "h": HEIGHT, "fl_x": 80.0, "near": 1.5, "far": 5.0, "train_filenames": ["images/view0.png"]}
    (root / "transforms.json").write_text(json.dumps(data | {"frames": frames}))
    return root
