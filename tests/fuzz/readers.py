"""Every reader of files, with small whole files to begin from; made without the code under test where that is easy."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import small_scenes as small
from mutations import Reader
from PIL import Image

from dofnerf import scenes
from dofnerf.capture.photos import load_upright, read_headers
from dofnerf.evaluate.lpips import from_file
from dofnerf.evaluate.trained import read_origin
from dofnerf.files import read_image, read_map, write_exr
from dofnerf.files.guard import read_array, read_json
from dofnerf.files.ply import Drawing, Splats, read_drawing, read_ply, read_splats, write_splats
from dofnerf.files.splats import read_splat_file
from dofnerf.files.splats.compressed_ply import write_compressed_ply
from dofnerf.files.splats.gltf import write_glb
from dofnerf.files.splats.sog import write_sog
from dofnerf.files.splats.splat import write_splat
from dofnerf.files.splats.spz import write_spz
from dofnerf.lab.bench.results import read_results
from dofnerf.scenes.colmap_model import read_model
from dofnerf.scenes.exif import read_exif
from dofnerf.studio.keyframes import read_keyframes
from dofnerf.studio.rgbd import DepthConfig, read_rgbd
from dofnerf.train import checkpoint
from dofnerf.train.run import Run

OLD_RUNS = Path(__file__).parents[1] / "train" / "old_runs"


def arrays() -> list[Reader]:
    """.npy, as the guard reads it; weights of LPIPS (smaller than they are, so refused in the end)."""
    found = []
    for value in (
        np.arange(24.0).reshape(4, 6),
        np.ones((4, 6), ">f4"),
        np.ones((2, 3, 4), "<i2", order="F"),
        np.ones(5),
    ):
        file = io.BytesIO()
        np.save(file, value)
        found.append(file.getvalue())
    return [
        Reader("array", "a.npy", found, read_array, 10),
        Reader("depth .npy", "depth.npy", found[:2], read_map, 4),
        Reader("lpips weights", "weights.npz", [_weights()], from_file, 1, whole=False),
    ]


def _weights() -> bytes:
    file, dice = io.BytesIO(), np.random.default_rng(0)
    sizes = ((3, 4), (4, 4), (4, 4), (4, 4), (4, 4))
    values = {f"AlexNet_0/Conv_{i}/kernel": dice.random((3, 3, *size), np.float32) for i, size in enumerate(sizes)}
    values |= {f"AlexNet_0/Conv_{i}/bias": np.zeros(4, np.float32) for i in range(5)}
    values |= {f"NetLinLayer_{i}/Conv_0/kernel": np.ones((1, 1, 4, 1), np.float32) for i in range(5)}
    np.savez(file, **values)
    return file.getvalue()


def _pictures(form: str, **options: object) -> list[bytes]:
    dice, found = np.random.default_rng(1), []
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Maker"
    exif.get_ifd(0x8769)[0x829D] = 2.8
    for mode in ("RGB", "L", "P", "RGBA") if form == "PNG" else ("RGB", "L"):
        file = io.BytesIO()
        picture = Image.fromarray(dice.integers(0, 255, (70, 90, 3), dtype=np.uint8)).convert(mode)
        picture.save(file, form, **({"exif": exif} if form != "BMP" else {}), **options)
        found.append(file.getvalue())
    return found


def _exr(folder: Path) -> list[bytes]:
    dice, found = np.random.default_rng(2), []
    for names in ("RGB", "Z", "RGBAZ"):
        write_exr(folder / "seed.exr", {name: dice.random((12, 16), np.float32) for name in names})
        found.append((folder / "seed.exr").read_bytes())
    return found


def _radiance() -> list[bytes]:
    """Plain, and run-length coded: a run of 10 and 6 values of their own in each channel of a line."""
    head, dice = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 6 +X 16\n", np.random.default_rng(5)
    line = bytes([2, 2, 0, 16]) + bytes([138, 130, 6, 129, 128, 127, 126, 125, 124]) * 4
    return [head + dice.integers(3, 200, 6 * 16 * 4, np.uint8).tobytes(), head + line * 6]


def _photo(path: Path) -> None:
    headers, bad = read_headers([path])
    for reason in bad.values():
        raise ValueError(f"{path}: {reason}")
    load_upright(path, headers[0].orientation, 64)


def pictures(folder: Path) -> list[Reader]:
    """Photos and depth maps."""
    found = []
    for suffix, form in ((".png", "PNG"), (".jpg", "JPEG"), (".tif", "TIFF"), (".webp", "WEBP"), (".bmp", "BMP")):
        found.append(Reader(f"picture {suffix}", f"a{suffix}", _pictures(form), partial(read_image, orient=True), 5))
        found.append(Reader(f"photo {suffix}", f"a{suffix}", _pictures(form)[:1], _photo, 3))
    deep = io.BytesIO()
    Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30)).save(deep, "PNG")
    floats = io.BytesIO()
    Image.fromarray(np.arange(600, dtype=np.float32).reshape(20, 30)).save(floats, "TIFF")
    exr = _exr(folder)
    found += [
        Reader("depth .png", "depth.png", [deep.getvalue(), *_pictures("PNG")[1:2]], read_map, 6),
        Reader("depth .tif", "depth.tif", [floats.getvalue()], read_map, 5),
        Reader("depth .exr", "depth.exr", exr, read_map, 6),
        Reader("picture .exr", "a.exr", exr[::2], read_image, 5),
        Reader("exif", "a.jpg", _pictures("JPEG"), read_exif, 3),
        Reader("picture .hdr", "a.hdr", _radiance(), read_image, 4),
    ]
    small.picture(folder / "picture.png", 0.5)
    depth = io.BytesIO()
    np.save(depth, np.full((small.HEIGHT, small.WIDTH), 3.0, np.float32))

    def refocus(path: Path) -> object:
        return read_rgbd(folder / "picture.png", path, DepthConfig())

    return [*found, Reader("refocus", "rgbd.npy", [depth.getvalue()], refocus, 4)]


def plys(folder: Path) -> list[Reader]:
    """Points and splats, binary and ascii."""
    head = "ply\nformat {} 1.0\ncomment x\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    head += "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n"
    binary = b"".join(struct.pack("<3f3B", i, 2, 3, 9, 8, 7) for i in range(3))
    points = [
        head.format("ascii").encode() + b"1 2 3 9 9 9\n" * 3,
        head.format("binary_little_endian").encode() + binary,
    ]
    dice, found = np.random.default_rng(3), []
    for bases in (1, 4):
        shapes = (5, 3), (5, 3), (5, 4), (5,), (5, bases, 3)
        splats = Splats(*(dice.random(shape, np.float32) + 0.1 for shape in shapes))
        write_splats(folder / "seed.ply", splats, Drawing("light", (0.1, 0.2, 0.3), (0.0, 1.0, 0.0)))
        found.append((folder / "seed.ply").read_bytes())
    return [
        Reader("points .ply", "points.ply", points, read_ply, 8),
        Reader("splats .ply", "splats.ply", found, read_splats, 8),
        Reader("header of .ply", "head.ply", found, read_drawing, 3),
    ]


def splat_files(folder: Path) -> list[Reader]:
    """Every other format of splats. What is packed is also damaged inside, and packed again."""
    dice, seeds = np.random.default_rng(4), dict[str, list[bytes]]()
    drawing = Drawing("display", (0.1, 0.2, 0.3), (0.0, 1.0, 0.0), (0.5, 0.5, 0.5, 0.5))
    for bases in (1, 4):
        shapes = (300, 3), (300, 3), (300, 4), (300,), (300, bases, 3)
        splats = Splats(*(dice.random(shape, np.float32) + 0.1 for shape in shapes))
        for name, write in (
            ("a.compressed.ply", partial(write_compressed_ply, drawing=drawing)), ("a.spz", write_spz),
            ("a.splat", write_splat), ("a.sog", partial(write_sog, drawing=drawing)),
            ("a.glb", partial(write_glb, drawing=drawing)),
        ):  # fmt: skip
            write(folder / name, splats)
            seeds.setdefault(name, []).append((folder / name).read_bytes())
    glb = seeds["a.glb"][0]
    length = int.from_bytes(glb[12:16], "little")
    words, rest = glb[20 : 20 + length], glb[20 + length :]

    def gltf_words(path: Path) -> object:
        text = path.read_bytes()
        head = b"glTF" + (2).to_bytes(4, "little") + (20 + len(text) + len(rest)).to_bytes(4, "little")
        other = path.with_name("words.glb")
        other.write_bytes(head + len(text).to_bytes(4, "little") + b"JSON" + text + rest)
        return read_splat_file(other)

    def unpacked_spz(path: Path) -> object:
        path.with_name("inside.spz").write_bytes(gzip.compress(path.read_bytes(), 1))
        return read_splat_file(path.with_name("inside.spz"))

    def sog_words(path: Path) -> object:
        other = path.with_name("meta.sog")
        with zipfile.ZipFile(io.BytesIO(seeds["a.sog"][1])) as whole, zipfile.ZipFile(other, "w") as changed:
            for name in whole.namelist():
                changed.writestr(name, path.read_bytes() if name == "meta.json" else whole.read(name))
        return read_splat_file(other)

    meta = zipfile.ZipFile(io.BytesIO(seeds["a.sog"][1])).read("meta.json")
    found = [Reader(f"splats {name}", name, files, read_splat_file, 6) for name, files in seeds.items()]
    return [
        *found,
        Reader("words of .glb", "words.json", [words], gltf_words, 12, "words.glb"),
        Reader(
            "inside of .spz", "inside.bin", [gzip.decompress(s) for s in seeds["a.spz"]], unpacked_spz, 6, "inside.spz"
        ),
        Reader("meta.json of .sog", "meta.json", [meta], sog_words, 6, "meta.sog"),
    ]


def _run_file(path: Path) -> None:
    run = Run.load(path)
    assert all(np.isfinite(value).all() for value in run.lens.aperture.detach().numpy().reshape(1, -1))


def runs() -> list[Reader]:
    """Checkpoints, whole and by their words alone; config.json; results of experiments."""
    packed = [(OLD_RUNS / name / checkpoint.FILE).read_bytes() for name in ("splat", "hash")]
    learners = [checkpoint.unpack(data) for data in packed]
    new = [checkpoint.pack(learner) for learner in learners]
    length = int.from_bytes(new[0][:8], "little")
    header = json.loads(new[0][8 : 8 + length])
    rest, words = new[0][8 + length :], header["__metadata__"].pop("dofnerf")

    def by_words(path: Path) -> object:
        text = path.read_bytes().decode("utf-8", "replace")
        outer = json.dumps(header | {"__metadata__": {"dofnerf": text}}).encode()
        return checkpoint.unpack(len(outer).to_bytes(8, "little") + outer + rest, label=str(path))

    plain = json.loads(words)
    plain.pop("sha256", None)
    origin = {
        "scene": {"path": "/a", "format": "auto", "options": {"width": 100, "which_frames": [1, 2]}},
        "config": {},
    }
    table = {"title": "a", "head": ["b"], "rows": [["c"]], "notes": ["d"]}
    results = {"experiment": "a", "about": "b", "command": "c", "tables": [table], "figures": [], "failed": ["e"]}
    return [
        Reader("checkpoint", "checkpoint.safetensors", [new[0], packed[0]], _run_file, 6),
        Reader("checkpoint of a volume", "checkpoint.safetensors", [new[1]], _run_file, 2),
        Reader("words of a checkpoint", "words.json", [json.dumps(plain).encode()], by_words, 8),
        Reader("config.json", "config.json", [json.dumps(origin).encode()], lambda path: read_origin(path.parent), 4),
        Reader("results.json", "results.json", [json.dumps(results).encode()], lambda p: read_results(p.parent), 3),
    ]


def whole_scene(root: Path) -> None:
    """Read everything of a scene."""
    scene = scenes.load(root, mix="photo")
    for i in range(len(scene)):
        scene.photo(i), scene.visible(i), scene.depth(i)
    scenes.describe(scene)


def _scene(make: Callable[[Path], Path], place: Path, name: str, files: dict[str, int]) -> list[Reader]:
    """A reader for each of the files of a scene, of which the others stay whole."""
    found = []
    for file, share in files.items():
        root = place / f"{name}-{file.replace('/', '-')}"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        make(root)

        def read(path: Path, root: Path = root) -> None:
            whole_scene(root)

        path = str((root / file).relative_to(place))
        found.append(Reader(f"{name}: {file}", path, [(root / file).read_bytes()], read, share, root.name))
    return found


def scene_readers(place: Path) -> list[Reader]:
    """All formats of scenes; `place` is the folder that the readers' paths start from."""
    model = ("cameras", "images", "points3D")
    found = _scene(small.llff, place, "llff", {"poses_bounds.npy": 6, "images/photo_1.png": 2})
    found += _scene(small.triplets, place, "triplets", {"poses_bounds.npy": 3})
    found += _scene(small.colmap, place, "colmap", {f"sparse/0/{part}.bin": 6 for part in model})
    text = partial(small.colmap, text=True)
    found += _scene(text, place, "colmap text", {f"sparse/0/{part}.txt": 6 for part in model})
    found += _scene(small.lightfield, place, "lightfield", {"manifest.json": 2})
    found += _scene(
        small.complete, place, "transforms", {"transforms.json": 10, "points.ply": 2, "visible/photo_1.npy": 2}
    )
    found += _scene(_llff_with_model, place, "llff with points", {f"sparse/0/{part}.bin": 2 for part in model[::2]})
    root = place / "model"
    for text_files in (False, True):
        small.colmap(root, text=text_files)
    models = {file.name: file.read_bytes() for file in (root / "sparse/0").iterdir()}
    shutil.rmtree(root)
    for file, whole in models.items():
        beside = "cameras.bin" if file.endswith("bin") else "cameras.txt"

        def read(path: Path, beside: str = beside) -> None:
            if path.name != beside:
                (path.parent / beside).write_bytes(models[beside])
            read_model(path.parent)

        found.append(Reader(f"model: {file}", f"model-{file}/{file}", [whole], read, 6, "points3D"))
    small.transforms(place / "cameras")
    listed = {"fx": 10, "fy": 10, "width": 10, "height": 10, "position": [0, 0, 0], "rotation": np.eye(3).tolist()}
    cameras = [(place / "cameras/transforms.json").read_bytes(), json.dumps([listed | {"img_name": "a"}] * 2).encode()]
    found.append(Reader("cameras", "cameras/transforms.json", cameras, scenes.read_cameras, 6))
    timed = [listed | {"img_name": "a", "time": i, "blades": 6, "exposure": 0.5} for i in range(3)]
    found.append(Reader("keyframes", "cameras/keyframes.json", [json.dumps(timed).encode()], read_keyframes, 4))
    return [*found, Reader("json", "a.json", cameras[:1], read_json, 3)]


def _llff_with_model(root: Path) -> Path:
    small.llff(root)
    other = small.colmap(root.with_name(root.name + "-other"))
    shutil.move(other / "sparse", root / "sparse")
    shutil.rmtree(other)
    (root / "sparse/0/images.bin").unlink()
    return root
