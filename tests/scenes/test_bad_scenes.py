"""Bad input: each case is one line that names the file and the frame, and never a traceback of another kind."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_scenes as small
from complaints import complaint, edit, folder

from dofnerf import scenes
from dofnerf.scenes.formats.colmap import find_photo


def edit_poses(root: Path, change: Callable[[np.ndarray], Any]) -> Path:
    table = np.load(root / "poses_bounds.npy")
    result = change(table)
    np.save(root / "poses_bounds.npy", table if result is None else result)
    return root


def test_missing_photo(tmp_path: Path) -> None:
    for make, where in (
        (small.llff, "poses_bounds.npy"),
        (small.colmap, "sparse"),
        (small.transforms, "transforms.json"),
    ):
        root = make(folder(tmp_path / make.__name__))
        (root / "images/photo_2.png").unlink()
        complaint(root, where, "missing")
    complaint(tmp_path / "transforms", "frame 2", "photo_2.png")
    complaint(tmp_path / "colmap", "photo_2.png")


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_photo_without_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"images\.bin: .* is no name of a photo"):
        find_photo(tmp_path, tmp_path, name, "images.bin")


def test_extra_photo(tmp_path: Path) -> None:
    root = small.llff(tmp_path)
    small.picture(root / "images/photo_9.png", 0)
    complaint(root, "6 poses but 7 photos", "images", "1 extra")


def test_pose_count_differs(tmp_path: Path) -> None:
    complaint(edit_poses(small.llff(tmp_path), lambda t: t[:4]), "poses_bounds.npy", "4 poses but 6 photos")


def test_triplet_with_a_photo_less(tmp_path: Path) -> None:
    root = small.triplets(tmp_path)
    (root / "images_8/f4_bak/photo_1.png").unlink()
    complaint(root, "f4_bak", "1 missing")
    for path in (root / "images_8/f4_bak").iterdir():
        path.unlink()
    (root / "images_8/f4_bak").rmdir()
    complaint(root, "f4_bak is missing")


def test_nan_poses(tmp_path: Path) -> None:
    complaint(edit_poses(small.llff(folder(tmp_path / "a")), lambda t: t.__setitem__((3, 0), np.nan)), "frame 3", "NaN")
    root = small.transforms(folder(tmp_path / "b"))
    complaint(
        edit(root, lambda d: d["frames"][3]["transform_matrix"][0].__setitem__(1, float("nan"))), "frame 3", "NaN"
    )
    root = small.colmap(folder(tmp_path / "c"), text=True)
    path = root / "sparse/0/images.txt"
    lines = path.read_text().split("\n")
    lines[3] = "2 nan " + lines[3].split(maxsplit=2)[2]
    path.write_text("\n".join(lines))
    complaint(root, "photo_1.png", "quaternion")


def test_matrices_that_are_no_rotation(tmp_path: Path) -> None:
    complaint(
        edit_poses(small.llff(folder(tmp_path / "a")), lambda t: t.__setitem__((5, 0), 3.0)),
        "frame 5",
        "not a rotation",
    )
    for k, factor in enumerate((2.0, -1.0, 0.0)):
        root = small.transforms(folder(tmp_path / f"b{k}"))

        def scale(d: dict[str, Any], factor: float = factor) -> None:
            matrix = d["frames"][1]["transform_matrix"]
            for row in matrix[:3]:
                row[0] *= factor

        complaint(edit(root, scale), "frame 1", "not a rotation")


def test_zero_focal_length(tmp_path: Path) -> None:
    complaint(
        edit_poses(small.llff(folder(tmp_path / "a")), lambda t: t.__setitem__((1, 14), 0)), "frame 1", "focal length"
    )
    complaint(edit(small.transforms(folder(tmp_path / "b")), lambda d: d.update(fl_x=0)), "fl_x", "larger than 0")
    complaint(edit(small.transforms(folder(tmp_path / "c")), lambda d: d.pop("fl_x")), "frame 0", "no focal length")
    complaint(small.colmap(folder(tmp_path / "d"), params=(0.0, 12.0, 8.0)), "focal length")
    complaint(
        edit(small.transforms(folder(tmp_path / "e")), lambda d: (d.pop("fl_x"), d.update(camera_angle_x=4.0))),
        "radians",
    )


def test_corrupt_and_truncated_photos(tmp_path: Path) -> None:
    for make in (small.llff, small.transforms, small.colmap):
        root = make(folder(tmp_path / make.__name__))
        path = root / "images/photo_4.png"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])
        complaint(root, "photo_4.png", "frame 4", mix="photo")
        path.write_bytes(b"not a picture at all")
        complaint(root, "photo_4.png")
        path.write_bytes(b"")
        complaint(root, "photo_4.png")


def test_mixed_sizes(tmp_path: Path) -> None:
    root = small.llff(folder(tmp_path / "a"))
    small.picture(root / "images/photo_3.png", 0, (small.WIDTH * 2, small.HEIGHT * 2))
    complaint(root, "frame 3", "48×32", "24×16")
    assert scenes.load(root, width=12).photo(3).shape == (8, 12, 3)
    small.picture(root / "images/photo_3.png", 0, (small.WIDTH, small.HEIGHT * 2))
    complaint(root, "frame 3", "another shape")
    root = small.transforms(folder(tmp_path / "b"))
    small.picture(root / "near/photo_3.png", 0, (12, 8))
    complaint(root, "frame 3", "near_file_path", "another size")
    root = small.triplets(folder(tmp_path / "c"))
    small.picture(root / "images_8/f4_obj/photo_1.png", 0, (12, 8))
    complaint(root, "frame 1", "f4_obj")
    root = small.transforms(folder(tmp_path / "d"))
    np.save(root / "depth/photo_0.npy", np.ones((3, 4), dtype=np.float32))
    with pytest.raises(ValueError, match=r"frame 0.*photo_0.npy: 4×3 pixels, expected 24×16"):
        scenes.load(root).depth(0)


@pytest.mark.parametrize(
    "key", ["file_path", "sharp_file_path", "near_file_path", "depth_file_path", "visible_file_path"]
)
def test_paths_that_leave_the_scene(tmp_path: Path, key: str) -> None:
    small.picture(tmp_path / "secret.png", 0)
    np.save(tmp_path / "secret.npy", np.ones((small.HEIGHT, small.WIDTH)))
    inner = folder(tmp_path / "scene")
    (tmp_path / "scene-twin").mkdir()
    small.picture(tmp_path / "scene-twin/photo.png", 0)
    (inner / "link.png").symlink_to(tmp_path / "secret.png")
    (inner / "loop.png").symlink_to("loop.png")
    (inner / "linked").symlink_to(tmp_path)
    names = [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "images/../../secret",
        "link.png",
        "linked/secret.png",
        "..\\secret.png",
    ]
    names += ["../scene-twin/photo.png", "loop.png", "/etc/passwd", "../secret.npy"]
    for name in names:
        root = edit(small.transforms(inner), lambda d, name=name: d["frames"][2].update({key: name}))
        text = complaint(root, "frame 2")
        assert "outside the scene folder" in text or name == "loop.png"


def test_paths_that_leave_other_formats(tmp_path: Path) -> None:
    small.picture(tmp_path / "secret.png", 0)
    (tmp_path / "secret.ply").write_bytes(b"ply\n")
    root = small.colmap(folder(tmp_path / "a"), text=True)
    path = root / "sparse/0/images.txt"
    path.write_text(path.read_text().replace("photo_3.png", "../../secret.png"))
    complaint(root, "secret.png", "outside the scene folder")
    root = small.llff(folder(tmp_path / "b"))
    (root / "images/photo_3.png").unlink()
    (root / "images/photo_3.png").symlink_to(tmp_path / "secret.png")
    complaint(root, "photo_3.png", "outside the scene folder")
    root = edit(small.transforms(folder(tmp_path / "c")), lambda d: d.update(ply_file_path="../secret.ply"))
    complaint(root, "ply_file_path", "outside the scene folder")
    root = small.llff(folder(tmp_path / "d"))
    (root / "poses_bounds.npy").rename(tmp_path / "poses.npy")
    (root / "poses_bounds.npy").symlink_to(tmp_path / "poses.npy")
    complaint(root, "poses_bounds.npy", "outside")
    root = small.llff(folder(tmp_path / "e"))
    (root / "images").rename(tmp_path / "pictures")
    (root / "images").symlink_to(tmp_path / "pictures")
    complaint(root, "outside the scene folder")
    root = folder(tmp_path / "f")
    os.symlink(tmp_path / "c/transforms.json", root / "transforms.json")
    complaint(root, "outside the scene folder")
    root = small.colmap(folder(tmp_path / "g"))
    (root / "sparse/0/points3D.bin").rename(tmp_path / "points.bin")
    (root / "sparse/0/points3D.bin").symlink_to(tmp_path / "points.bin")
    complaint(root, "points3D.bin", "outside")
    root = small.colmap(folder(tmp_path / "h"))
    (root / "sparse").rename(tmp_path / "sparse")
    (root / "sparse").symlink_to(tmp_path / "sparse")
    complaint(root, "sparse", "outside")
    root = small.llff(folder(tmp_path / "i"))
    (tmp_path / "masks").mkdir()
    for i in range(6):
        small.picture(tmp_path / f"masks/photo_{i}.png", 0)
    (root / "masks").symlink_to(tmp_path / "masks")
    complaint(root, "masks", "outside the scene folder")
    for name in ("images_2", "images_2/photo_1.png"):
        root = small.llff(folder(tmp_path / name.replace("/", "-")))
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(tmp_path / ("pictures" if name == "images_2" else "secret.png"))
        complaint(root, "images_2", "outside the scene folder", downscale=2, save_resized=True)


def test_bad_tables(tmp_path: Path) -> None:
    root = small.llff(tmp_path)
    for table in (np.zeros((6, 16)), np.zeros(17), np.array([["a"] * 17]), np.zeros((0, 17)), np.full((6, 17), np.inf)):
        np.save(root / "poses_bounds.npy", table)
        complaint(root, "poses_bounds.npy")
    small.llff(tmp_path)
    complaint(edit_poses(root, lambda t: t.__setitem__((2, 15), -1)), "frame 2", "near < far")
    np.save(root / "poses_bounds.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    complaint(root, "poses_bounds.npy")
    (root / "poses_bounds.npy").write_bytes(_claiming((10**12, 17)))
    complaint(root, "poses_bounds.npy", "shorter than its header")


def test_bad_models(tmp_path: Path) -> None:
    root = small.colmap(folder(tmp_path / "a"))
    complaint(
        small.colmap(folder(tmp_path / "b"), model="OPENCV_FISHEYE", params=(30.0,) * 8), "OPENCV_FISHEYE", "undistort"
    )
    for name in ("cameras", "images", "points3D"):
        path = root / f"sparse/0/{name}.bin"
        whole = path.read_bytes()
        for data in (whole[:-3], whole[:20], b"", struct.pack("<Q", 1 << 60) + whole[8:]):
            path.write_bytes(data)
            complaint(root, f"{name}.bin")
        path.write_bytes(whole)
    (root / "sparse/0/points3D.bin").write_bytes(struct.pack("<Q", 0))
    complaint(root, "no photo sees any 3D point")
    (root / "sparse/0/images.bin").write_bytes(struct.pack("<Q", 0))
    complaint(root, "no posed images")


def _claiming(shape: tuple[int, ...]) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 64


@pytest.mark.parametrize("value", [-1, 2**64 - 1, 2**64, 10**400])
def test_ids_that_colmap_does_not_have(tmp_path: Path, value: int) -> None:
    for k, (file, line, word) in enumerate(
        [
            ("points3D", 0, 0),
            ("points3D", 0, 8),
            ("images", 1, 0),
            ("images", 1, 8),
            ("images", 2, 2),
            ("cameras", 1, 0),
        ]
    ):
        if (file, line, value) == ("images", 2, -1):
            continue  # a key point that belongs to no point
        root = small.colmap(folder(tmp_path / str(k)), text=True)
        path = root / f"sparse/0/{file}.txt"
        lines = path.read_text().split("\n")
        words = lines[line].split()
        words[word] = str(value)
        lines[line] = " ".join(words)
        path.write_text("\n".join(lines))
        complaint(root, file)
    root = small.colmap(folder(tmp_path / "binary"))
    path = root / "sparse/0/points3D.bin"
    if value in (-1, 2**64 - 1):
        path.write_bytes(path.read_bytes()[:8] + b"\xff" * 8 + path.read_bytes()[16:])
        complaint(root, "points3D")


def test_empty_lines_take_linear_time(tmp_path: Path) -> None:
    root = small.colmap(tmp_path, text=True)
    for name in ("cameras", "images", "points3D"):
        path = root / f"sparse/0/{name}.txt"
        path.write_text("\n" * 300_000 + path.read_text())
    start = time.perf_counter()
    assert len(scenes.load(root)) == small.COUNT
    assert time.perf_counter() - start < 5


def test_llff_with_an_empty_model(tmp_path: Path) -> None:
    """No cameras, no images, but points that fit."""
    root = small.llff(tmp_path)
    model = small.colmap(tmp_path / "other") / "sparse/0"
    (root / "sparse").mkdir()
    model.rename(root / "sparse/0")
    (root / "sparse/0/images.bin").unlink()
    assert scenes.load(root).points is not None
    (root / "sparse/0/cameras.bin").write_bytes(struct.pack("<Q", 0))
    scene = scenes.load(root)
    assert scene.points is None and "left out" in scene.notes[0]


def test_a_depth_range_too_narrow(tmp_path: Path) -> None:
    root = edit(small.transforms(folder(tmp_path / "a")), lambda d: d.update(near=3.0, far=3.0000001))
    complaint(root, "depth range 3 to 3.0000001 is too narrow")
    root = edit_poses(
        small.llff(folder(tmp_path / "b")), lambda t: t.__setitem__((slice(None), [15, 16]), [3, 3 + 1e-7])
    )
    complaint(root, "depth range 3 to 3.0000001 is too narrow")
