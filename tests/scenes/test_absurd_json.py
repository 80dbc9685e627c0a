"""Absurd content in a downloaded transforms.json and in the files that it names: one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_scenes as small
from complaints import complaint, edit, folder
from PIL import Image

from dofnerf import scenes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "{}",
        '"frames"',
        "\x00\x01",
        '{"frames": 3}',
        '{"frames": []}',
        '{"frames": [3]}',
        "[" * 100_000,
        '{"a":' * 50_000,
        '{"frames": [{}]}',
        '{"frames": [{"file_path": 7}]}',
        '{"frames": [{"file_path": "images/photo_0.png"}]}',
        '{"frames": [{"file_path": "a\\u0000b"}]}',
        '{"frames": [{"file_path": "a\\nb"}]}',
        '{"frames": [{"file_path": ""}]}',
        '{"frames": [{"file_path": "."}]}',
        '{"frames": [{"file_path": "' + "x" * 5000 + '"}]}',
        "9" * 5000,
        '{"frames": [{"file_path": "images/photo_0.png", "fl_x": ' + "9" * 400 + "}]}",
    ],
)
def test_absurd_json(tmp_path: Path, text: str) -> None:
    root = small.transforms(tmp_path)
    (root / "transforms.json").write_text(text)
    complaint(root, "transforms.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("w", 1e9),
        ("w", "wide"),
        ("w", 0.1),
        ("h", True),
        ("fl_x", [3]),
        ("fl_x", 1e300),
        ("cx", float("inf")),
        ("k1", {}),
        ("k1", 40),
        ("k4", 0.1),
        ("camera_model", "OPENCV_FISHEYE"),
        ("camera_model", []),
        ("is_fisheye", True),
        ("near", -1),
        ("near", 9.0),
        ("lens", 3),
        ("lens", {"aperture": -1}),
        ("lens", {"aperture": 1, "focus_depth": 0}),
        ("lens", {"aperture": "wide"}),
        ("transform_matrix", None),
        ("transform_matrix", [[1, 2], [3]]),
        ("transform_matrix", "eye"),
        ("transform_matrix", [["a"] * 4] * 4),
        ("transform_matrix", [[1e200, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
        ("transform_matrix", {"a": 1}),
    ],
)
def test_absurd_values(tmp_path: Path, key: str, value: Any) -> None:
    def change(data: dict[str, Any]) -> None:
        data["frames"][1][key] = value
        if key in ("near", "far"):
            data["frames"][1].setdefault("far", 5.0)

    complaint(edit(small.transforms(tmp_path), change), "transforms.json", "frame 1")


def test_absurd_lists(tmp_path: Path) -> None:
    for k, names in enumerate((3, [4], ["nobody.png"])):
        root = edit(small.transforms(folder(tmp_path / str(k))), lambda d, n=names: d.update(test_filenames=n))
        complaint(root, "test_filenames")
    twice = edit(small.transforms(folder(tmp_path / "t")), lambda d: d["frames"].append(d["frames"][0]))
    complaint(twice, "frame 6", "listed twice")


def test_bad_points(tmp_path: Path) -> None:
    root = edit(small.transforms(tmp_path), lambda d: d.update(ply_file_path="cloud.ply"))
    complaint(root, "cloud.ply", "missing")
    head = "ply\nformat {} 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    bad = [
        "",
        "ply\n",
        head.format("ascii", 2) + "1 2 3\n",
        head.format("ascii", 1) + "1 2 nan\n",
        head.format("ascii", 1) + "1 2\n",
    ]
    bad += [
        head.format("binary_little_endian", 5),
        head.format("morse", 0),
        head.format("ascii", -4),
        head.format("ascii", 10**15),
    ]
    for text in bad:
        (root / "cloud.ply").write_text(text)
        complaint(root, "cloud.ply")
    (root / "cloud.ply").write_text(head.format("ascii", 1) + "1 2 3\n")
    assert scenes.load(root).points.xyz.tolist() == [[1, 2, 3]]


def test_a_picture_bomb(tmp_path: Path) -> None:
    root = small.transforms(tmp_path, lens=False)
    Image.new("1", (20000, 20000)).save(root / "images/photo_1.png")
    complaint(root, "photo_1.png")
