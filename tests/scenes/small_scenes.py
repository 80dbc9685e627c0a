"""Tiny scenes of every format, written by hand (not by the code under test), all of the same world.

Six cameras on an arc look at a cloud of points around the origin; every photo is 24×16 of smooth colour.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
from PIL import Image

COUNT, WIDTH, HEIGHT, FOCAL = 6, 24, 16, 30.0


def world() -> tuple[np.ndarray, np.ndarray]:
    """OpenGL camera-to-world (6, 3, 4) and points (40, 3) that all cameras see."""
    rng = np.random.default_rng(3)
    poses = []
    for angle in np.linspace(-0.4, 0.4, COUNT):
        position = np.array([4 * np.sin(angle), 0.3 * angle, 4 * np.cos(angle)])
        back = position / np.linalg.norm(position)
        right = np.cross([0.0, 1.0, 0.0], back)
        right /= np.linalg.norm(right)
        poses.append(np.stack([right, np.cross(back, right), back, position], axis=1))
    return np.stack(poses), rng.uniform(-0.6, 0.6, (40, 3))


def pixels(pose: np.ndarray, points: np.ndarray, size: tuple[int, int] = (WIDTH, HEIGHT)) -> np.ndarray:
    """Pinhole projection written out once more."""
    local = (points - pose[:, 3]) @ pose[:, :3]
    focal = FOCAL * size[0] / WIDTH
    return np.stack(
        [size[0] / 2 + focal * local[:, 0] / -local[:, 2], size[1] / 2 - focal * local[:, 1] / -local[:, 2]], axis=1
    )


def picture(path: Path, shade: float, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = np.meshgrid(np.linspace(0, 1, size[0]), np.linspace(0, 1, size[1]))
    image = np.stack([x, y, np.full_like(x, shade)], axis=-1)
    Image.fromarray((image * 255).round().astype(np.uint8)).save(path)


def llff(root: Path, folders: tuple[str, ...] = ("images",)) -> Path:
    poses, points = world()
    rows = []
    for i, pose in enumerate(poses):
        right, up, back, position = pose.T
        matrix = np.stack([-up, right, back, position, [HEIGHT, WIDTH, FOCAL]], axis=1)
        depth = (points - position) @ -back
        rows.append(np.concatenate([matrix.reshape(-1), [depth.min(), depth.max()]]))
        for k, folder in enumerate(folders):
            picture(root / folder / f"photo_{i}.png", (i + k) / 10)
    np.save(root / "poses_bounds.npy", np.array(rows))
    return root


def triplets(root: Path) -> Path:
    return llff(root, ("images_8/f11", "images_8/f4_obj", "images_8/f4_bak"))


def transforms(root: Path, lens: bool = True) -> Path:
    poses, _ = world()
    frames = []
    for i, pose in enumerate(poses):
        frame = {"file_path": f"images/photo_{i}.png", "transform_matrix": [*pose.tolist(), [0, 0, 0, 1]]}
        picture(root / f"images/photo_{i}.png", i / 10)
        if lens:
            for key in ("sharp", "near", "far"):
                frame[f"{key}_file_path"] = f"{key}/photo_{i}.png"
                picture(root / f"{key}/photo_{i}.png", i / 20)
            frame["lens"] = {"aperture": 3.0, "focus_depth": None}
            frame["near_lens"], frame["far_lens"] = ({"aperture": 2.0 + i, "focus_depth": f} for f in (3.5, 4.5))
            (root / "depth").mkdir(exist_ok=True)
            np.save(root / f"depth/photo_{i}.npy", np.full((HEIGHT, WIDTH), 3.0 + i, dtype=np.float32))
            frame["depth_file_path"] = f"depth/photo_{i}.npy"
        frames.append(frame)
    data = {"w": WIDTH, "h": HEIGHT, "fl_x": FOCAL, "near": 3.0, "far": 5.0, "frames": frames}
    (root / "transforms.json").write_text(json.dumps(data))
    return root


def lightfield(root: Path, count: int = 5, size: int = 48) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for r in range(count):
        for c in range(count):
            picture(root / f"view_{r:02d}_{c:02d}.png", 0.1, (size, size))
    (root / "manifest.json").write_text(json.dumps({"focus": {"min": -1.0, "max": 1.0}}))
    return root


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """(w, x, y, z) of a rotation by its eigenvector of eigenvalue 1 of the quadratic form; slow and sure."""
    m = rotation
    form = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [0, m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [0, 0, m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
            [0, 0, 0, m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    values, vectors = np.linalg.eigh(form, UPLO="U")
    return vectors[:, values.argmax()]


def colmap(
    root: Path, text: bool = False, model: str = "SIMPLE_PINHOLE", params: tuple[float, ...] | None = None
) -> Path:
    """A COLMAP model with key points exactly where the pinhole projects them."""
    poses, points = world()
    numbers = {"SIMPLE_PINHOLE": 0, "PINHOLE": 1, "SIMPLE_RADIAL": 2, "RADIAL": 3, "OPENCV": 4, "OPENCV_FISHEYE": 5}
    params = params or (FOCAL, WIDTH / 2, HEIGHT / 2)
    images = []
    for i, pose in enumerate(poses):
        rotation = (pose[:, :3] * [1, -1, -1]).T
        images.append((i + 1, quaternion(rotation), -rotation @ pose[:, 3], f"photo_{i}.png", pixels(pose, points)))
        picture(root / f"images/photo_{i}.png", i / 10)
    folder = root / "sparse/0"
    folder.mkdir(parents=True, exist_ok=True)
    if text:
        _colmap_text(folder, (model, params), images, points)
    else:
        _colmap_binary(folder, (numbers[model], params), images, points)
    return root


def _colmap_text(folder: Path, camera: tuple, images: list, points: np.ndarray) -> None:
    (folder / "cameras.txt").write_text(f"# one\n1 {camera[0]} {WIDTH} {HEIGHT} {' '.join(map(repr, camera[1]))}\n")
    lines = ["# two lines an image"]
    for key, quat, move, name, xy in images:
        lines.append(f"{key} {' '.join(map(str, quat))} {' '.join(map(str, move))} 1 {name}")
        lines.append(" ".join(f"{x} {y} {k + 10}" for k, (x, y) in enumerate(xy)) + " 1.0 2.0 -1")
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    track = " ".join(f"{i[0]} {{k}}" for i in images)
    rows = [f"{k + 10} {x} {y} {z} 10 20 30 0.5 {track.format(k=k)}" for k, (x, y, z) in enumerate(points)]
    (folder / "points3D.txt").write_text("\n".join(rows) + "\n")


def _colmap_binary(folder: Path, camera: tuple, images: list, points: np.ndarray) -> None:
    params = camera[1]
    (folder / "cameras.bin").write_bytes(struct.pack(f"<QIiQQ{len(params)}d", 1, 1, camera[0], WIDTH, HEIGHT, *params))
    data = struct.pack("<Q", len(images))
    for key, quat, move, name, xy in images:
        data += struct.pack("<I7dI", key, *quat, *move, 1) + name.encode() + b"\0" + struct.pack("<Q", len(xy) + 1)
        data += b"".join(struct.pack("<ddq", x, y, k + 10) for k, (x, y) in enumerate(xy)) + struct.pack(
            "<ddq", 1, 2, -1
        )
    (folder / "images.bin").write_bytes(data)
    data = struct.pack("<Q", len(points))
    for k, xyz in enumerate(points):
        data += struct.pack("<Q3d3BdQ", k + 10, *xyz, 10, 20, 30, 0.5, len(images))
        data += b"".join(struct.pack("<II", image[0], k) for image in images)
    (folder / "points3D.bin").write_bytes(data)


def complete(root: Path) -> Path:
    """A transforms.json scene that uses every field we know."""
    transforms(root)
    rows = "\n".join(" ".join(map(str, xyz)) + " 9 9 9" for xyz in world()[1])
    head = "ply\nformat ascii 1.0\nelement vertex 40\nproperty float x\nproperty float y\nproperty float z\n"
    head += "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n"
    (root / "points.ply").write_text(head + rows + "\n")
    data = json.loads((root / "transforms.json").read_text())
    data["ply_file_path"] = "points.ply"
    data["test_filenames"] = [data["frames"][1]["file_path"]]
    (root / "visible").mkdir()
    for i, frame in enumerate(data["frames"]):
        np.save(root / f"visible/photo_{i}.npy", np.stack([np.arange(40.0), np.ones(40)], axis=1))
        frame |= {"visible_file_path": f"visible/photo_{i}.npy", "k1": 0.01, "fl_y": FOCAL, "cx": 12.0, "cy": 8.0}
    (root / "transforms.json").write_text(json.dumps(data))
    return root
