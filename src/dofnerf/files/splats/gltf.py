"""glTF with splats: the extension KHR_gaussian_splatting, in .glb and .gltf.

A splat is a vertex of a primitive of points; sizes and opacities are as they are (no logarithm, no logit). Its
`colorSpace` says what no .ply can: with lin_rec709_display harmonics give linear light, and splats mix as light. y is
up. What else is known of how to draw them is in `asset.extras.dofnerf`.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from dofnerf.files.guard import inside, number, parse_json, read_bytes, shown
from dofnerf.files.outputs import atomic
from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats import (
    C0,
    FEW,
    SplatFormat,
    drawing_of,
    plain_drawing,
    register,
    rounded,
    to_logits,
    to_opacities,
)
from dofnerf.files.splats.turning import matrix, turned

EXTENSION = "KHR_gaussian_splatting"
SPACES = {"srgb_rec709_display": "display", "lin_rec709_display": "linear"}
UP = (0.0, 1.0, 0.0)
TYPES = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
LENGTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
MOST_NODES = 10_000  # and primitives of any kind, each as often as nodes place it
MOST_PARTS = 1000  # primitives of splats
DEEPEST = 100
GROWS = 8  # times the size of its files that the numbers of splats may take, beyond FEW bytes; bytes become floats: 4
FLOATS, BYTES, POINTS, VERTICES = 5126, 5121, 0, 34962


@register
class Gltf(SplatFormat):
    """Every primitive of splats in the scene, moved as its nodes say."""

    name = "glTF"
    suffixes = (".glb", ".gltf")

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        return _Asset(path).splats()


def write_glb(path: Path, splats: Splats, drawing: Drawing) -> None:
    """Write splats, y up. With `drawing.blend` "linear", harmonics give linear light; "display", display values."""
    space = {blend: name for name, blend in SPACES.items()}[drawing.blend]
    solid = to_opacities(splats.opacities)
    colour = np.concatenate([splats.harmonics[:, 0] * C0 + 0.5, solid[:, None]], axis=1)
    places = splats.means.astype("<f4")
    turn = splats.rotations / np.linalg.norm(splats.rotations, axis=1, keepdims=True)
    columns: dict[str, np.ndarray] = {
        "POSITION": places,
        "COLOR_0": rounded(colour * 255, 255).astype(np.uint8),
        f"{EXTENSION}:ROTATION": turn[:, [1, 2, 3, 0]].astype("<f4"),
        f"{EXTENSION}:SCALE": np.exp(splats.log_scales).astype("<f4"),
        f"{EXTENSION}:OPACITY": np.clip(solid, 0, 1).astype("<f4"),
    }
    for degree in range(splats.degree + 1):
        for i in range(2 * degree + 1):
            columns[f"{EXTENSION}:SH_DEGREE_{degree}_COEF_{i}"] = splats.harmonics[:, degree**2 + i].astype("<f4")
    views, accessors, body = [], [], b""
    for i, values in enumerate(columns.values()):
        data = np.ascontiguousarray(values).tobytes()
        views.append({"buffer": 0, "byteOffset": len(body), "byteLength": len(data), "target": VERTICES})
        kind = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[1 if values.ndim == 1 else values.shape[1]]
        entry: dict[str, Any] = {"bufferView": i, "componentType": FLOATS, "count": len(splats), "type": kind}
        if values.dtype == np.uint8:
            entry |= {"componentType": BYTES, "normalized": True}
        accessors.append(entry)
        body += data + b"\0" * (-len(data) % 4)
    accessors[0] |= {"min": places.min(0).tolist(), "max": places.max(0).tolist()}
    primitive = {
        "attributes": {name: i for i, name in enumerate(columns)},
        "mode": POINTS,
        "extensions": {EXTENSION: {
            "kernel": "ellipse", "colorSpace": space, "projection": "perspective", "sortingMethod": "cameraDistance",
        }},
    }  # fmt: skip
    asset = {
        "asset": {"version": "2.0", "generator": "dofnerf", "extras": {"dofnerf": plain_drawing(drawing)}},
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(body)}],
    }
    words = json.dumps(asset, allow_nan=False).encode()
    words += b" " * (-len(words) % 4)
    head = struct.pack("<4sII", b"glTF", 2, 12 + 8 + len(words) + 8 + len(body))
    with atomic(path) as temporary:
        temporary.write_bytes(
            head + struct.pack("<I4s", len(words), b"JSON") + words + struct.pack("<I4s", len(body), b"BIN\0") + body
        )


class _Asset:
    """A file, as far as splats need it. Every number in it is checked before it is used."""

    def __init__(self, path: Path) -> None:
        self.path, data = path, read_bytes(path)
        self.size, self.binary = len(data), b""
        if data[:4] == b"glTF":
            version, start = int.from_bytes(data[4:8], "little"), 12
            chunks: dict[bytes, bytes] = {}
            if version != 2:
                raise ValueError(f"glTF of version {version}, not 2")
            while start + 8 <= len(data):
                length, name = struct.unpack_from("<I4s", data, start)
                if start + 8 + length > len(data):
                    raise ValueError("it is truncated")
                chunks.setdefault(name, data[start + 8 : start + 8 + length])
                start += 8 + length
            words, self.binary = chunks.get(b"JSON", b""), chunks.get(b"BIN\0", b"")
        else:
            words = data
        self.json = _object(parse_json(words, str(path)), "the asset")
        self.buffers: dict[int | Path, bytes] = {}  # by number, or by file for those in files of their own
        self.unpacked = 0

    def splats(self) -> tuple[Splats, Drawing]:
        found: list[Splats] = []
        spaces: set[str] = set()
        visited = 0
        for mesh, transform in self._placed():
            for primitive in _list(_object(mesh, "a mesh").get("primitives"), "primitives"):
                visited += 1
                if visited > MOST_NODES or len(found) > MOST_PARTS:
                    raise ValueError("its nodes repeat meshes too often")
                extension = _object(_object(primitive, "a primitive").get("extensions", {}), "extensions")
                if EXTENSION not in extension:
                    continue
                spaces.add(str(_object(extension[EXTENSION], EXTENSION).get("colorSpace", "srgb_rec709_display")))
                found.append(_moved(self._primitive(primitive), transform))
        if not found:
            raise ValueError(f"no mesh has splats (the extension {EXTENSION})")
        if len(spaces) > 1 or not spaces <= SPACES.keys():
            raise ValueError(f"its color spaces are {shown(sorted(spaces))}; known are {', '.join(SPACES)}, one a file")
        kinds = min(splats.harmonics.shape[1] for splats in found)
        whole = Splats(
            np.concatenate([part.means for part in found]),
            np.concatenate([part.log_scales for part in found]),
            np.concatenate([part.rotations for part in found]),
            np.concatenate([part.opacities for part in found]),
            np.concatenate([part.harmonics[:, :kinds] for part in found]),
        )
        return whole, self._drawing(SPACES[spaces.pop()])

    def _drawing(self, blend: str) -> Drawing:
        extras = _object(self.json.get("asset", {}), "asset").get("extras")
        ours = extras.get("dofnerf") if isinstance(extras, dict) else None
        return drawing_of(ours, Drawing(blend, up=UP))

    def _placed(self) -> list[tuple[Any, np.ndarray]]:
        """The meshes of the scene, each with the transform of its node (4, 4)."""
        nodes, meshes = self._all("nodes"), self._all("meshes")
        scenes = self._all("scenes")
        if not scenes:
            return [(mesh, np.eye(4)) for mesh in meshes]
        scene = _object(scenes[_index(self.json.get("scene", 0), scenes, "scene")], "scene")
        waiting = [(node, np.eye(4), 0) for node in _list(scene.get("nodes", []), "nodes")]
        found: list[tuple[Any, np.ndarray]] = []
        visited = 0
        while waiting:
            which, above, depth = waiting.pop()
            visited += 1
            if depth > DEEPEST or visited > MOST_NODES:
                raise ValueError("its nodes are nested in a circle, or absurdly many")
            node = _object(nodes[_index(which, nodes, "node")], "a node")
            transform = above @ _transform(node)
            if "mesh" in node:
                found.append((meshes[_index(node["mesh"], meshes, "mesh")], transform))
            waiting += [(child, transform, depth + 1) for child in _list(node.get("children", []), "children")]
            if len(waiting) > MOST_NODES:
                raise ValueError("its nodes are absurdly many")
        return found

    def _primitive(self, primitive: dict[str, Any]) -> Splats:
        attributes = _object(primitive.get("attributes"), "attributes")
        inner = _object(primitive["extensions"][EXTENSION], EXTENSION)
        if inner.get("extensions"):
            raise ValueError(
                f"its splats are compressed by {shown(list(inner['extensions']))}, which is not known here"
            )

        def column(name: str, length: int) -> np.ndarray:
            if name not in attributes:
                raise ValueError(f"the attribute {name} is missing")
            return self._accessor(attributes[name], length)

        places = column("POSITION", 3)
        rotations = column(f"{EXTENSION}:ROTATION", 4)[:, [3, 0, 1, 2]]
        sizes = column(f"{EXTENSION}:SCALE", 3).astype(np.float64)
        # Drafts of the extension had logarithms, in which usual sizes are negative.
        logs = sizes if (sizes < 0).any() else np.log(np.maximum(sizes, 1e-30))
        solid = column(f"{EXTENSION}:OPACITY", 1)[:, 0]
        degree = 0
        while degree < 3 and f"{EXTENSION}:SH_DEGREE_{degree + 1}_COEF_0" in attributes:
            degree += 1
        names = [f"{EXTENSION}:SH_DEGREE_{d}_COEF_{i}" for d in range(degree + 1) for i in range(2 * d + 1)]
        harmonics = [column(name, 3) for name in names]
        columns = (places, rotations, logs, solid, *harmonics)
        if len({len(values) for values in columns}) != 1:
            raise ValueError("its attributes have different lengths")
        return Splats(places, logs.astype(np.float32), rotations, to_logits(solid), np.stack(harmonics, axis=1))

    def _accessor(self, which: Any, length: int) -> np.ndarray:
        """(N, length) float32, from any of the types that the extension allows."""
        accessors, views = self._all("accessors"), self._all("bufferViews")
        accessor = _object(accessors[_index(which, accessors, "accessor")], "an accessor")
        if "sparse" in accessor or "bufferView" not in accessor:
            raise ValueError("an accessor of splats is sparse")
        kind, count = TYPES.get(_whole(accessor.get("componentType"), "componentType")), accessor.get("count")
        if kind is None or LENGTHS.get(str(accessor.get("type"))) != length:
            raise ValueError(f"an accessor of type {shown(accessor.get('type'))}, expected {length} numbers")
        view = _object(views[_index(accessor["bufferView"], views, "bufferView")], "a bufferView")
        data = self._buffer(_whole(view.get("buffer"), "buffer"))
        row = length * np.dtype(kind).itemsize
        count, stride = _whole(count, "count"), _whole(view.get("byteStride", row), "byteStride")
        start, size = _whole(view.get("byteOffset", 0), "byteOffset"), _whole(view.get("byteLength"), "byteLength")
        inner = _whole(accessor.get("byteOffset", 0), "byteOffset")
        if stride < row or not count or start + size > len(data) or inner + stride * (count - 1) + row > size:
            raise ValueError(f"an accessor of {count} × {row} bytes does not fit into its buffer")
        self.unpacked += 4 * length * count
        if self.unpacked > max(FEW, GROWS * self.size):
            raise ValueError("its accessors and nodes use the same bytes too often")
        raw = np.ndarray((count, length), kind, data, start + inner, (stride, np.dtype(kind).itemsize))
        values = raw.astype(np.float32)
        if accessor.get("normalized") is True and raw.dtype.kind in "iu":
            values = np.maximum(values / np.iinfo(raw.dtype).max, -1)
        return values

    def _buffer(self, which: int) -> bytes:
        buffers = self._all("buffers")
        uri = _object(buffers[_index(which, buffers, "buffer")], "a buffer").get("uri")
        if uri is None:
            return self.binary
        embedded = isinstance(uri, str) and uri.startswith("data:")
        key = which if embedded else inside(self.path.parent, uri, str(self.path))  # one file may have many names
        if key not in self.buffers:
            if isinstance(key, int):
                self.buffers[key] = base64.b64decode(uri.partition(",")[2])
            else:
                self.buffers[key] = read_bytes(key)
                self.size += len(self.buffers[key])
        return self.buffers[key]

    def _all(self, name: str) -> list[Any]:
        return _list(self.json.get(name, []), name)


def _transform(node: dict[str, Any]) -> np.ndarray:
    """The transform of a node (4, 4) by its matrix, or by translation, rotation and scale."""

    def numbers(name: str, default: list[float]) -> np.ndarray:
        values = _list(node.get(name, default), name)
        if len(values) != len(default):
            raise ValueError(f"a node's {name} has {len(values)} numbers")
        return np.array([number(value, name) for value in values])

    if "matrix" in node:
        return numbers("matrix", np.eye(4).ravel().tolist()).reshape(4, 4).T
    x, y, z, w = numbers("rotation", [0.0, 0.0, 0.0, 1.0])
    length = float(np.sqrt(w * w + x * x + y * y + z * z))
    if not length > 1e-6:
        raise ValueError("a node's rotation is zero")
    whole = np.eye(4)
    whole[:3, :3] = matrix(np.array([w, x, y, z]) / length) * numbers("scale", [1.0, 1.0, 1.0])
    whole[:3, 3] = numbers("translation", [0.0, 0.0, 0.0])
    return whole


def _moved(splats: Splats, transform: np.ndarray) -> Splats:
    """The splats after a similarity: rotation, one scale, translation."""
    if (transform == np.eye(4)).all():
        return splats
    linear = transform[:3, :3]
    scale = float(np.cbrt(np.linalg.det(linear)))
    if not 1e-9 < scale < 1e9 or np.abs(linear @ linear.T / scale**2 - np.eye(3)).max() > 1e-3:
        raise ValueError("a node skews, mirrors or flattens its splats")
    x, y, z, w = Rotation.from_matrix(linear / scale).as_quat()
    still = turned(splats, (w, x, y, z))
    means = (still.means * scale + transform[:3, 3]).astype(np.float32)
    sizes = (still.log_scales + np.log(scale)).astype(np.float32)
    return Splats(means, sizes, still.rotations, still.opacities, still.harmonics)


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {shown(value)}, not an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {shown(value)}, not a list")
    return value


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 48:
        raise ValueError(f"{what} is {shown(value)}, not a whole number")
    return value


def _index(value: Any, values: list[Any], what: str) -> int:
    index = _whole(value, what)
    if index >= len(values):
        raise ValueError(f"there is no {what} {index}")
    return index
