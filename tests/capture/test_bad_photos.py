"""What people point a capture at by mistake: one clear line each, and nothing lost."""

import errno
import importlib.util
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_photos import place, save_photo

from dofnerf.capture import mapping, pipeline
from dofnerf.cli import main
from dofnerf.files import outputs, write_video
from painted import paint

NOISE = np.random.default_rng(0).uniform(0, 1, (80, 96, 3)).astype(np.float32)


def photos(folder, count, size=slice(None)):
    folder.mkdir(exist_ok=True)
    for i in range(count):
        save_photo(folder / f"{i}.jpg", np.roll(NOISE, 7 * i, axis=1)[size])
    return folder


def touch(folder, *names, content=b"nothing"):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)
    return folder


def no_luck(monkeypatch, folder):
    """All goes well until pycolmap, which fails."""
    (folder / "child.py").write_text("raise RuntimeError('no luck')")
    monkeypatch.setattr(pipeline, "check_installed", lambda *_: None)
    monkeypatch.setattr(mapping, "CHILD", folder / "child.py")


def cut_off(folder):
    photos(folder, 4)
    for i in (1, 2):
        path = folder / f"{i}.jpg"
        path.write_bytes(path.read_bytes()[:3000])
    return folder


def doubles(folder):
    photos(folder, 2)
    for i in range(5):
        shutil.copy(folder / "0.jpg", folder / f"0 again {i}.jpg")
    return folder


BAD = {
    "nowhere: there is no such folder or video": lambda at: at / "nowhere",
    "the folder is empty": lambda at: touch(at / "empty"),
    "empty but for 1 folders; give the one that holds the photos": lambda at: (
        photos(touch(at / "outer") / "inner", 3).parent
    ),
    "no photos (2 .txt, 1 .pdf)": lambda at: touch(at / "words", "a.txt", "b.txt", "c.pdf"),
    "0 usable photos, at least 3 are needed; a.CR3: ": lambda at: touch(at / "raw", "a.CR3", "b.cr3", "c.NEF"),
    "1 usable photo, at least 3 are needed": lambda at: photos(at / "one", 1),
    "one photo is not enough; give the folder": lambda at: photos(at / "single", 1) / "0.jpg",
    "neither a folder of photos nor a video": lambda at: touch(at / "text", "a.txt") / "a.txt",
    "2 usable photos, at least 3 are needed; 1.jpg: the picture is truncated or corrupt": lambda at: cut_off(
        at / "cut"
    ),
    "2 usable photos, at least 3 are needed; 0 again 0.jpg: the same picture as 0.jpg": lambda at: doubles(
        at / "doubles"
    ),
    "0 usable photos, at least 3 are needed; 0.jpg: too small (40×30 pixels)": lambda at: photos(
        at / "tiny", 3, (slice(30), slice(40))
    ),
    "a.jpg: not a picture that can be read": lambda at: touch(at / "fake", "a.jpg", "b.jpg", "c.jpg"),
    "not a video that ffmpeg can read": lambda at: touch(at / "fake-video", "a.mp4") / "a.mp4",
}


@pytest.mark.parametrize("words", BAD)
def test_one_line(words, tmp_path, capsys):
    source = BAD[words](tmp_path)
    line = complaint(capsys, source, tmp_path / "out")
    assert line.startswith(f"{source}") and words in line
    assert not (tmp_path / "out" / "transforms.json").exists()


def test_heic_without_the_package_that_reads_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(Image, "EXTENSION", {k: v for k, v in Image.registered_extensions().items() if k != ".heic"})
    line = complaint(capsys, touch(tmp_path / "heic", "a.heic", "b.HEIC", "c.heic"), tmp_path / "out")
    assert "HEIC is not read by this Pillow: install the extra 'capture'" in line


def complaint(capsys, source, out, *flags):
    assert main(["capture", str(source), "--out", str(out), *flags]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dofnerf: error: ")]
    assert len(lines) == 1
    return lines[0].removeprefix("dofnerf: error: ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--size", "20"], "--size 20: expected 200 to 20000"),
        (["--attempts", "9"], "--attempts 9: expected 1 to 4"),
        (["--every", "0"], "--every 0: expected 1 or more"),
        (["--hold-every", "1"], "--hold-every 1: expected 0, or 2 or more"),
        (["--scale-by", "0,1"], "--scale-by 0,1: expected A,B,METRES"),
        (["--scale-by", "0,0,2"], "two different photos"),
        (["--scale-by", "0,1,-2"], "a distance above 0"),
        (["--scale-by", "0,3,2"], "there is no photo 3; name two by their file names, or their numbers from 0 to 2"),
        (["--scale-by", "0,0.jpg,2"], "0 and 0.jpg are one photo"),
    ],
)
def test_bad_flags(flags, words, tmp_path, capsys):
    assert words in complaint(capsys, photos(tmp_path / "some", 3), tmp_path / "out", *flags)
    assert not (tmp_path / "out").exists()


def test_bad_places_to_write(tmp_path, capsys, monkeypatch):
    source = photos(tmp_path / "some", 3)
    assert "lies in the source" in complaint(capsys, source, source / "scene")
    (tmp_path / "file").write_text("mine")
    assert "is not a folder" in complaint(capsys, source, tmp_path / "file")
    touch(tmp_path / "full", "mine.txt")
    assert "not empty and not begun by dofnerf capture" in complaint(capsys, source, tmp_path / "full")
    monkeypatch.setattr(outputs.os, "access", lambda *_: False)
    assert "no permission to write in" in complaint(capsys, source, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "full", "some"] and len(list(source.iterdir())) == 3


def test_a_disk_that_is_too_small(tmp_path, capsys, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 1000))
    no_luck(monkeypatch, tmp_path)
    assert "0 MB are free on this disk, about 0 MB are needed" in complaint(
        capsys, photos(tmp_path / "a", 3), tmp_path / "out"
    )
    assert "0 MB are free" in complaint(capsys, tmp_path / "a", tmp_path / "out", "--size", "200")  # as it advises
    monkeypatch.undo()
    no_luck(monkeypatch, tmp_path)
    assert "no luck" in complaint(capsys, tmp_path / "a", tmp_path / "out")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 1000))
    held = tmp_path / "out" / "work" / "features.db"  # what is there already needs no more room
    held.write_bytes(bytes(9 * 3 * 80 * 96))
    assert "no luck" in complaint(capsys, tmp_path / "a", tmp_path / "out")


@pytest.mark.parametrize("few", [lambda at: photos(at, 2), cut_off])
def test_more_photos_after_too_few(few, tmp_path, capsys, monkeypatch):
    no_luck(monkeypatch, tmp_path)
    source = few(tmp_path / "a")
    assert "2 usable photos" in complaint(capsys, source, tmp_path / "out")
    photos(source, 5)
    assert "no luck" in complaint(capsys, source, tmp_path / "out")


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up(tmp_path, capsys, monkeypatch):
    """Copies that were made stay, and the same command goes on."""
    source, out = photos(tmp_path / "a", 3), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", full)
        assert complaint(capsys, source, out).startswith(f"{out}: the disk is full; free some space and run the same")
    assert not [path for path in out.rglob("*") if path.is_file() and path.name != "capture.json"]
    child = tmp_path / "child.py"
    monkeypatch.setattr(mapping, "CHILD", child)
    monkeypatch.setattr(pipeline, "check_installed", lambda *_: None)
    child.write_text("import sys; sys.exit('SQLite error: database or disk is full')")
    assert "the disk is full; free some space and run the same command again" in complaint(capsys, source, out)
    copies = {path: path.stat().st_mtime_ns for path in (out / "work/photos").iterdir()}
    child.write_text("raise RuntimeError('no luck')")
    assert "pycolmap failed (1): RuntimeError: no luck; the log is" in complaint(capsys, source, out)
    assert {path: path.stat().st_mtime_ns for path in (out / "work/photos").iterdir()} == copies and len(copies) == 6
    save_photo(source / "new.jpg", NOISE[::-1])
    assert "made with another photos; choose another folder" in complaint(capsys, source, out)


def test_without_pycolmap(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = complaint(capsys, photos(tmp_path / "a", 3), tmp_path / "out")
    assert words.startswith("pycolmap is not installed: install the extra 'capture': pip install 'dofnerf[capture]'")


def test_photos_of_different_things(tmp_path, capsys):
    if importlib.util.find_spec("pycolmap") is None:
        pytest.skip("needs pycolmap")
    source = touch(tmp_path / "things")
    for i in range(4):
        save_photo(source / f"{i}.jpg", paint(place(i), seed=10 + i)[:120, :160])
    words = complaint(capsys, source, tmp_path / "out", "--attempts", "1")
    assert "no photos fit together (at most" in words and "take photos of one still scene" in words
    assert (tmp_path / "out/photos.jpg").is_file()
    save_photo(source / "4.jpg", paint(place(4), seed=14)[:120, :160])  # the folder is free for other photos
    assert "fit together" in complaint(capsys, source, tmp_path / "out", "--attempts", "1")


def test_a_bad_video_among_good_photos_is_left_out(tmp_path, capsys, monkeypatch):
    source = photos(tmp_path / "a", 3)
    (source / "clip.mp4").write_bytes(b"no film")
    (source / "IMG_0.MOV").write_bytes(b"a moment of film beside IMG_0.jpg")
    save_photo(source / "IMG_0.jpg", NOISE[::-1])
    no_luck(monkeypatch, tmp_path)
    assert main(["capture", str(source), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "no luck" in said and "1 videos are left out, because there are photos of the same names" in said


def test_a_video_too_short_for_its_windows(tmp_path, capsys):
    write_video(tmp_path / "short.mp4", [NOISE[:64, :96]] * 3)
    assert "3 frames, too few for one photo every 30" in complaint(
        capsys, Path(tmp_path / "short.mp4"), tmp_path / "out", "--every", "30"
    )
