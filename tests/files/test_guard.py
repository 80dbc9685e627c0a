"""Hostile and damaged files, one by one: a line that names the file, at once; never another error, never a wait."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from dofnerf.capture.photos import load_upright, read_headers
from dofnerf.cli import main
from dofnerf.evaluate.lpips import from_file
from dofnerf.files import read_image, read_map, write_deep_png, write_exr, write_image, write_json, write_map
from dofnerf.files.guard import bounds, parse_json, read_array, read_bytes, read_json
from dofnerf.files.outputs import append, atomic, check_file
from dofnerf.files.pictures import open_picture
from dofnerf.files.ply import read_drawing, read_ply, read_splats
from dofnerf.scenes import read_cameras
from dofnerf.scenes.exif import read_exif


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """No test here may take ten seconds: a reader that waits for a pipe would wait for ever."""

    def stop(*_: Any) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(act: Callable[[], object], *words: str) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        act()
    text = str(caught.value)
    assert len(text.splitlines()) == 1, text
    for word in words:
        assert word in text, text
    return text


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, depth=np.ones((4, 6)))
    return file.getvalue()


def header(words: str, data: bytes = b"\0" * 192, version: tuple[int, int] = (1, 0)) -> bytes:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(words))
    return b"\x93NUMPY" + bytes(version) + length + words.encode("latin1") + data


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 6), }\n"
ARRAYS = {
    "npz": zipped(),
    "damaged zip": zipped()[:60],
    "zip's beginning": b"PK\3\4" + b"\0" * 100,
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "unknown version": header(GOOD, version=(9, 0)),
    "long header": b"\x93NUMPY\2\0" + struct.pack("<I", 0x7FFFFFFF),
    "not closed": header("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 6"),
    "string not closed": header("{'descr': '<f8"),
    "code": header("__import__('os').getcwd()"),
    "nested": header("(" * 5000),
    "null": header("\0" * 20),
    "pickle": header(GOOD.replace("<f8", "|O")),
    "strings": header(GOOD.replace("<f8", "<U9")),
    "times": header(GOOD.replace("<f8", "<M8[s]")),
    "fields": header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4, 6)}"),
    "complex": header(GOOD.replace("<f8", "<c16")),
    "negative": header(GOOD.replace("(4, 6)", "(-4, -6)")),
    "huge": header(GOOD.replace("(4, 6)", "(1000000000000, 1000000000000)")),
    "digits": header(GOOD.replace("(4, 6)", f"({'9' * 5000},)")),
    "true": header(GOOD.replace("(4, 6)", "(True, 6)")),
    "list": header(GOOD.replace("(4, 6)", "[4, 6]")),
    "order": header(GOOD.replace("False", "'no'")),
    "short": header(GOOD, b"\0" * 191),
    "words": header("{'shape': (4, 6)}"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(tmp_path: Path, name: str, capsys: Any) -> None:
    path = tmp_path / "depth.npy"
    path.write_bytes(ARRAYS[name])
    refused(lambda: read_array(path), "depth.npy")
    write_image(tmp_path / "picture.png", np.zeros((4, 6, 3)))
    assert main(["refocus", str(tmp_path / "picture.png"), str(path), "--out", str(tmp_path / "out.png")]) == 2
    complaint = capsys.readouterr().err
    assert "depth.npy" in complaint and len(complaint.splitlines()) == 1, complaint


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2", "|u1", "<i4", ">u2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_kind_are_what_numpy_reads(tmp_path: Path, kind: str, order: Any) -> None:
    for shape in ((4, 6), (5,), (), (0, 17), (2, 3, 4)):
        np.save(tmp_path / "a.npy", np.arange(np.prod(shape)).reshape(shape, order=order).astype(kind))
        found = read_array(tmp_path / "a.npy")
        np.testing.assert_array_equal(found, np.load(tmp_path / "a.npy"))
        assert found.dtype == np.float64
    (tmp_path / "old.npy").write_bytes(header(GOOD.replace("(4, 6)", "(4L, 6L)")))  # as Python 2 wrote them
    assert read_array(tmp_path / "old.npy").shape == (4, 6)


READERS = {
    "picture.png": read_image, "picture.exr": read_image, "depth.npy": read_map, "depth.png": read_map,
    "depth.exr": read_map, "array.npy": read_array, "file.json": read_json, "cameras.json": read_cameras,
    "file": read_bytes,
    "points.ply": read_ply, "splats.ply": read_splats, "drawing.ply": read_drawing, "weights.npz": from_file,
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_only_regular_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    refused(lambda: READERS[name](path), name, "not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(lambda: READERS[name](path), name, "not a regular file")
    path.unlink()
    path.mkdir()
    refused(lambda: READERS[name](path), name, "folder")


def test_exif_of_a_pipe_is_unknown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    assert not read_exif(tmp_path / "a.jpg")


@pytest.mark.parametrize("verb", ["info", "render", "refocus", "capture", "train", "eval", "run", "export"])
def test_commands_refuse_pipes(tmp_path: Path, verb: str, capsys: Any) -> None:
    for name in ("pipe.ply", "pipe.json", "pipe.safetensors", "pipe.mp4", "pipe"):
        os.mkfifo(tmp_path / name)
        more = {"refocus": [str(tmp_path / name)], "train": ["--out", str(tmp_path / "run")], "export": ["--cameras"]}
        more = more.get(verb, [])
        assert main([verb, str(tmp_path / name), *more]) == 2
        complaint = capsys.readouterr().err
        assert name in complaint and len(complaint.splitlines()) == 1, complaint


def test_nothing_replaces_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.png")
    refused(lambda: check_file("--out", tmp_path / "out.png", (".png",)), "out.png", "not a regular file")


def test_logs_follow_no_link_and_wait_for_no_pipe(tmp_path: Path) -> None:
    """The log of somebody else's run must not lead into a file of ours."""
    ours = tmp_path / "bashrc"
    ours.write_text("mine\n")
    (tmp_path / "log.txt").symlink_to(ours)
    refused(lambda: append(tmp_path / "log.txt", "theirs"), "log.txt", "is a link")
    assert ours.read_text() == "mine\n"
    os.mkfifo(tmp_path / "pipe.txt")
    refused(lambda: append(tmp_path / "pipe.txt", "theirs"), "pipe.txt", "not a regular file")
    append(tmp_path / "new.txt", "a\n")
    append(tmp_path / "new.txt", "×\n")
    assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "a\n×\n"


def test_a_radiance_picture_that_its_few_bytes_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.hdr"
    path.write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 15000 +X 32767\n" + b"\2\2\x7f\xff" + bytes(120_000))
    tracemalloc.start()
    refused(lambda: read_image(path), "a.hdr", "breaks off")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 24


def test_numbers_too_large(tmp_path: Path) -> None:
    digits = "9" * 400
    assert parse_json(f"[{digits}, -{digits}]", "here") == [float("inf"), -float("inf")]
    path = tmp_path / "cameras.json"
    camera = {"fx": 10, "fy": 10, "width": 10, "height": 10, "position": [0, 0, 0], "rotation": np.eye(3).tolist()}
    for key, value in (("position", [0, 0, "@"]), ("fx", "@"), ("width", "@"), ("rotation", [["@", 0, 0]] * 3)):
        path.write_text(json.dumps([camera | {key: value}]).replace('"@"', digits))
        refused(lambda: read_cameras(path), "cameras.json", "camera 0")
    refused(
        lambda: (parse_json("9" * 5000, "here") and None) or bounds(parse_json("9" * 5000, "here"), 1, "here"), "here"
    )


def test_a_depth_range_without_depth() -> None:
    refused(lambda: bounds(3, 3.0000001, "here"), "here", "depth range 3 to 3.0000001 is too narrow")
    refused(lambda: bounds(3, 3, "here"), "depth range")
    refused(lambda: bounds(float("nan"), 3, "here"), "here")
    assert bounds(3e-6, 3.01e-6, "here") == (3e-6, 3.01e-6)


def test_broken_exif_does_not_hide_a_picture(tmp_path: Path) -> None:
    about = PngImagePlugin.PngInfo()
    about.add_text("Raw profile type exif", "\nexif\n  12\nthis is no hexadecimal number")
    Image.new("RGB", (6, 4), "red").save(tmp_path / "a.png", pnginfo=about)
    assert read_image(tmp_path / "a.png", orient=True).shape == (4, 6, 3)


def exr(tmp_path: Path, window: tuple[int, int, int, int]) -> Path:
    path = tmp_path / "a.exr"
    write_exr(path, {"Z": np.ones((4, 6), np.float32)})
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<4i", 0, 0, 5, 3), struct.pack("<4i", *window)))
    assert path.read_bytes() != data
    return path


@pytest.mark.parametrize(
    "window", [(0, 0, 10**6, 10**6), (0, 0, 2**31 - 1, 3), (5, 3, 0, 0), (-(2**31), 0, 2**31 - 1, 0)]
)
def test_exr_bombs(tmp_path: Path, window: tuple[int, int, int, int]) -> None:
    refused(lambda: read_map(exr(tmp_path, window)), "a.exr", "pixels, which")


def test_exr_headers_are_read_in_linear_time(tmp_path: Path) -> None:
    (tmp_path / "a.exr").write_bytes(b"\x76\x2f\x31\x01\2\0\0\0" + b"a\0b\0\0\0\0\0" * (1 << 17))
    refused(lambda: read_map(tmp_path / "a.exr"), "a.exr")


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def test_png_bombs(tmp_path: Path) -> None:
    size = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(10**7)))
    (tmp_path / "a.png").write_bytes(data)
    refused(lambda: read_image(tmp_path / "a.png"), "a.png", "absurd picture size")
    refused(lambda: read_map(tmp_path / "a.png"), "a.png")


def test_a_picture_that_its_few_bytes_cannot_hold(tmp_path: Path) -> None:
    size = struct.pack(">IIBBBBB", 90, 900_000, 8, 2, 0, 0, 0)  # below the limit of 89 megapixels
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    (tmp_path / "a.png").write_bytes(data)
    refused(lambda: read_image(tmp_path / "a.png"), "a.png", "absurd picture size")


@pytest.mark.parametrize("size", [(90, 1_245_254), (10_000, 11_000), (65_536, 64)])
def test_absurd_photos_are_refused_by_their_header(tmp_path: Path, size: tuple[int, int]) -> None:
    """Pillow would decode a PNG whose data end early: 112 megapixels from 20 kB."""
    head = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    rows = np.random.default_rng(0).integers(0, 256, (70, 271), dtype=np.uint8)
    rows[:, 0] = 0
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes()))
    (tmp_path / "a.png").write_bytes(data + chunk(b"IEND", b""))
    assert read_headers([tmp_path / "a.png"]) == (
        [], {"a.png": "the header claims an absurd picture size; the file is corrupt or hostile"}
    )  # fmt: skip
    refused(lambda: load_upright(tmp_path / "a.png", 1, 64), "a.png", "absurd picture size")


def test_a_large_and_plain_picture_is_none_of_those(tmp_path: Path) -> None:
    Image.new("RGB", (5000, 4000), (9, 9, 9)).save(tmp_path / "a.png")
    with open_picture(tmp_path / "a.png", load=False) as picture:
        assert picture.size == (5000, 4000)


WRITERS = {
    "a.png": lambda path: write_image(path, np.random.default_rng(0).random((200, 200, 3))),
    "a.jpg": lambda path: write_image(path, np.random.default_rng(0).random((200, 200, 3))),
    "a.tif": lambda path: write_image(path, np.random.default_rng(0).random((200, 200, 3))),
    "a.webp": lambda path: write_image(path, np.random.default_rng(0).random((200, 200, 3))),
    "b.png": lambda path: write_deep_png(path, np.random.default_rng(0).random((100, 100, 3))),
    "a.exr": lambda path: write_image(path, np.random.default_rng(0).random((200, 200, 3))),
    "a.npy": lambda path: write_map(path, np.zeros((200, 200))),
    "a.json": lambda path: write_json(path, list(range(10_000))),
    "a.log": lambda path: append(path, "x" * 100_000),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_names_the_file(tmp_path: Path, name: str) -> None:
    """A limit on the size of files stands for a full disk: writing fails in the same calls."""
    path = tmp_path / name
    if name != "a.log":
        path.write_bytes(b"as before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        text = refused(lambda: WRITERS[name](path), str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ".dofnerf-" not in text
    if name != "a.log":
        assert path.read_bytes() == b"as before" and len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(tmp_path: Path) -> None:
    code = "import os, sys\nfrom pathlib import Path\nfrom dofnerf.files.outputs import atomic\n"
    code += "with atomic(Path(sys.argv[1])) as path: print(path, flush=True); sys.stdin.read()"

    def writing(name: str) -> tuple[subprocess.Popen[str], Path]:
        words = [sys.executable, "-c", code, str(tmp_path / name)]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert child.stdout is not None
        return child, Path(child.stdout.readline().strip())

    (dead, left), (alive, busy) = writing("a.bin"), writing("b.bin")
    dead.kill()
    dead.communicate()
    (tmp_path / ".mine-abcdefgh.bin").touch()
    assert left.exists()
    with atomic(tmp_path / "c.bin"):
        pass
    assert not left.exists() and busy.exists()
    alive.communicate("")
    assert {path.name for path in tmp_path.iterdir()} == {"b.bin", "c.bin", ".mine-abcdefgh.bin"}


def test_errors_of_the_system_name_the_file_asked_for(tmp_path: Path, capsys: Any) -> None:
    def fail(number: int) -> None:
        with atomic(tmp_path / "a.bin"):
            raise OSError(number, os.strerror(number))

    assert "a.bin" in refused(lambda: fail(errno.ENOSPC), "No space left")
    if Path("/proc/self").exists():
        write_image(tmp_path / "a.png", np.zeros((4, 6, 3)))
        write_map(tmp_path / "a.npy", np.ones((4, 6)))
        assert main(["refocus", str(tmp_path / "a.png"), str(tmp_path / "a.npy"), "--out", "/proc/x.png"]) == 2
        complaint = capsys.readouterr().err
        assert "/proc/x.png" in complaint and "/proc/.x" not in complaint and len(complaint.splitlines()) == 1, (
            complaint
        )


def test_time_is_linear_in_the_length(tmp_path: Path) -> None:
    start = time.perf_counter()
    (tmp_path / "a.json").write_text("[" * 10**6)
    refused(lambda: read_json(tmp_path / "a.json"), "a.json")
    (tmp_path / "a.ply").write_bytes(b"ply\n" + b"comment x\n" * 10**5 + b"end_header\n")
    refused(lambda: read_ply(tmp_path / "a.ply"), "a.ply")
    assert time.perf_counter() - start < 2
