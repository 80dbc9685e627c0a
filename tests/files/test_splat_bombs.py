"""Small files of splats that would take a lot of memory."""

import gzip
import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from dofnerf.files.splats import read_splat_file
from dofnerf.files.splats.gltf import EXTENSION

MB = 1 << 20


def gltf(count: int, primitives: int = 1, buffers: int = 0) -> dict:
    """Splats whose attributes are all the same bytes; or bytes of so many buffers, which are all one file."""
    kinds = ["VEC3", "VEC4", "SCALAR"]
    names = {"POSITION": 0, f"{EXTENSION}:ROTATION": 1, f"{EXTENSION}:SCALE": 0, f"{EXTENSION}:OPACITY": 2}
    names |= {f"{EXTENSION}:SH_DEGREE_{d}_COEF_{i}": 0 for d in range(4) for i in range(2 * d + 1)}
    views = [{"buffer": i, "byteLength": 4 * count} for i in range(buffers or 1)]
    accessors = [
        {"bufferView": view, "componentType": 5121, "count": count, "type": kind}
        for view in range(len(views))
        for kind in kinds
    ]
    meshes = []
    for start in range(primitives):
        attributes = {
            name: 3 * ((start * len(names) + i) % len(views)) + kind for i, (name, kind) in enumerate(names.items())
        }
        meshes.append({"attributes": attributes, "mode": 0, "extensions": {EXTENSION: {}}})
    own = [{"uri": "bytes.bin", "byteLength": 4 * count}] * buffers
    return {
        "asset": {"version": "2.0"}, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": meshes}], "accessors": accessors, "bufferViews": views,
        "buffers": own or [{"byteLength": 4 * count}],
    }  # fmt: skip


def glb(words: dict, body: bytes) -> bytes:
    text = json.dumps(words).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(body))
    return head + struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(body), b"BIN\0") + body


def peak(path) -> tuple[int, str]:
    """The most memory that reading takes in bytes, and the error."""
    tracemalloc.start()
    try:
        read_splat_file(path)
        words = ""
    except ValueError as error:
        words = str(error)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most, words


@pytest.mark.parametrize("primitives", [1, 40])
def test_gltf_that_uses_its_bytes_again_and_again(tmp_path, primitives):
    path, count = tmp_path / "a.glb", MB // 2
    path.write_bytes(glb(gltf(count, primitives), np.full(4 * count, 9, np.uint8).tobytes()))
    most, words = peak(path)
    assert most < 100 * MB and words.startswith(str(path)) and "too often" in words


def test_gltf_whose_buffers_are_one_file(tmp_path):
    (tmp_path / "bytes.bin").write_bytes(bytes([9]) * MB)
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps(gltf(100, 10, 200)))
    most, words = peak(path)
    assert most < 20 * MB and not words


def test_gltf_whose_buffers_are_one_file_by_many_names(tmp_path):
    (tmp_path / "bytes.bin").write_bytes(bytes([9]) * MB)
    path, words = tmp_path / "a.gltf", gltf(100, 10, 200)
    words["buffers"] = [{"uri": "./" * i + "bytes.bin", "byteLength": 400} for i in range(200)]
    path.write_text(json.dumps(words))
    most, words = peak(path)
    assert most < 20 * MB and not words


def test_gltf_whose_nodes_place_a_mesh_of_much_that_is_no_splat(tmp_path):
    path, words = tmp_path / "a.gltf", gltf(1)
    words["meshes"] = [{"primitives": [{}] * 2000}]
    words |= {"scenes": [{"nodes": [0] * 9000}], "nodes": [{"mesh": 0}]}
    path.write_text(json.dumps(words))
    assert "too often" in peak(path)[1]


def test_gltf_of_thousands_of_turned_splats(tmp_path):
    path, words = tmp_path / "a.glb", gltf(1)
    words |= {"scenes": [{"nodes": [0] * 9000}], "nodes": [{"mesh": 0, "rotation": [0, 0, 0.6, 0.8]}]}
    path.write_bytes(glb(words, bytes([9] * 4)))
    assert "too often" in peak(path)[1]  # each would be turned by itself: seconds


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_zip_bombs(tmp_path, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("meta.json", b"[" + b" " * (100 * MB))
    path = tmp_path / "a.sog"
    path.write_bytes(file.getvalue())
    most, words = peak(path)
    assert most < 20 * MB and words.startswith(str(path)) and "\n" not in words


def test_gzip_bomb(tmp_path):
    path, count = tmp_path / "a.spz", 2 * MB
    head = struct.pack("<4sIIBBBB", b"NGSP", 3, count, 3, 12, 0, 0)
    path.write_bytes(gzip.compress(head + bytes(65 * count)))
    most, words = peak(path)
    assert most < 100 * MB and words.startswith(str(path)) and "claims" in words
