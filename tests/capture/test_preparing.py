"""From files to working copies: orientation, sizes, groups, pairs, verdicts, and the sharpest frames of a video."""

import socket
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter
from small_files import deep_tiff, dng, radiance
from small_photos import save_photo

from dofnerf.capture import photos as photos_module
from dofnerf.capture.assembly import ScaleBy
from dofnerf.capture.inputs import extract_frames, list_files
from dofnerf.capture.mapping import ATTEMPTS, Mapped, choose_pairs, group_photos, most_similar
from dofnerf.capture.photos import Header, Photo, choose_turns, prepare, read_headers, sharpness, working_names
from dofnerf.capture.reasons import explain
from dofnerf.files import has_more_than_8_bits, read_image, write_exr, write_video
from dofnerf.files.pictures import to_bytes
from dofnerf.scenes.exif import Exif, read_exif

CARD = np.random.default_rng(1).uniform(0, 1, (12, 16, 3)).astype(np.float32).repeat(10, axis=0).repeat(10, axis=1)


def nothing(*_):
    pass


def test_photos_videos_and_raw_files(tmp_path):
    for name in ("b.JPG", "a.png", "c.tiff", "d.HEIC", ".hidden.jpg", "clip.MP4", "b.cr2", "x.nef", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    found = list_files(tmp_path)
    assert [path.name for path in found.photos] == ["a.png", "b.JPG", "c.tiff", "d.HEIC", "x.nef"]
    assert [path.name for path in found.videos] == ["clip.MP4"]
    assert not found.warnings  # b.cr2 is there as JPEG


def test_photos_of_more_than_8_bits_keep_them(tmp_path):
    """A 16-bit TIFF, RAW, EXR and HDR become a copy for the poses, and a deep one for the scene."""
    pytest.importorskip("rawpy")
    light = np.linspace(0.1, 0.9, 96 * 72 * 3, dtype=np.float32).reshape(72, 96, 3)
    light *= np.linspace(0.3, 1, 96, dtype=np.float32)[:, None]
    source = tmp_path / "photos"
    source.mkdir()
    display = light ** (1 / 2.2)
    deep_tiff(source / "a.tif", np.round(display * 65535))
    dng(source / "b.dng", np.rot90(light[::-1, ::-1], -1), orientation=8)  # stored sideways
    write_exr(source / "c.exr", {c: light[..., i][::-1] for i, c in enumerate("RGB")})
    radiance(source / "d.hdr", light[:, ::-1])
    headers, bad = read_headers(list_files(source).photos)
    assert not bad and headers[1].exif.camera is None
    photos, left = prepare(headers, list("abcd"), tmp_path / "work" / "photos", 1600, nothing)
    wanted = [display, display[::-1, ::-1], display[::-1], display[:, ::-1]]
    off = [np.abs(read_image(photo.deep) - one).max() for photo, one in zip(photos, wanted, strict=True)]
    assert [photo.size for photo in photos] == [(96, 72)] * 4 and not left
    assert max(off[0], off[2]) < 2e-5 and off[1] < 2e-3 and off[3] < 5e-3
    for photo, one in zip(photos, wanted, strict=True):
        assert np.abs(read_image(photo.file) - one).max() < 0.01 and not has_more_than_8_bits(photo.file)


@pytest.mark.parametrize(
    ("orientations", "stand", "turns"),
    [
        ((1, 1, 8), (0, 0, 0), [1, 1, 1]),  # the camera lay, was turned once: its sensor's own axes for all
        ((6, 6, 1), (0, 0, 0), [6, 6, 6]),  # it stood, and lay once
        ((1, 1, 1), (0, 0, 1), [1, 1, 6]),  # stored upright, no tag: turned by 90 degrees
        ((3, 1, 1), (0, 0, 0), [3, 1, 1]),  # upside down: upright
    ],
)
def test_all_photos_lie_or_all_stand(tmp_path, orientations, stand, turns):
    for i, orientation in enumerate(orientations):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(np.zeros((96, 64, 3) if stand[i] else (64, 96, 3), np.uint8)).save(
            tmp_path / f"{i}.jpg", exif=exif
        )
    headers, bad = read_headers(sorted(tmp_path.iterdir()))
    assert not bad and choose_turns(headers) == turns
    photos, left = prepare(headers, ["x", "y", "z"], tmp_path / "work", 1600, nothing)
    assert len(photos) == 1 and len(left) == 2  # all black: the same picture, which they are only if they have one size


@pytest.mark.parametrize("orientation", [2, 4, 5, 7])
@pytest.mark.parametrize("usual", [1, 6, 5])
@pytest.mark.parametrize("stored", [(64, 96), (96, 64)])
def test_a_mirrored_photo_stays_mirrored(orientation, usual, stored):
    """Turned by whatever: as many mirrorings as EXIF says, odd or even."""
    rest = [Header(Path(f"{i}.jpg"), (96, 64), usual, Exif()) for i in range(2)]
    turn = choose_turns([*rest, Header(Path("x.jpg"), stored, orientation, Exif())])[2]
    assert turn in (2, 4, 5, 7)
    wide = (stored[0] > stored[1]) != (turn in (5, 7))
    assert wide == (usual == 1)


def test_large_photos_are_taken_and_larger_ones_not(tmp_path, monkeypatch):
    Image.new("1", (9600, 9600)).save(tmp_path / "a.png")
    limit = Image.MAX_IMAGE_PIXELS
    headers, bad = read_headers([tmp_path / "a.png"])
    assert headers[0].stored == (9600, 9600) and not bad
    monkeypatch.setattr(photos_module, "LARGEST", 80_000_000)
    headers, bad = read_headers([tmp_path / "a.png"])
    assert not headers and bad == {"a.png": "too large (above 80 megapixels)"}
    assert limit == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("orientation", [1, 6])
def test_heic_of_a_telephone_is_read_upright_with_its_lens(tmp_path, orientation):
    heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    heif.register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = (
        orientation  # which HEIF says not to heed: a telephone's file turns its picture by itself, and is tagged too
    )
    exif.get_ifd(0x8769)[0x829D] = 1.8
    Image.fromarray((255 * CARD).round().astype(np.uint8)).save(tmp_path / "IMG_1.HEIC", exif=exif, quality=95)
    headers, bad = read_headers([tmp_path / "IMG_1.HEIC"])
    assert not bad and headers[0].exif.f_number == pytest.approx(1.8)
    (photo,), _ = prepare(headers, ["a"], tmp_path / "work", 160, nothing)
    assert photo.size == (160, 120)
    assert np.abs(read_image(photo.file)[5::10, 5::10] - CARD[5::10, 5::10]).mean() < 0.03


@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_copies_are_upright_and_shrunk(tmp_path, orientation):
    save_photo(tmp_path / "a.jpg", CARD, orientation=orientation)
    headers, _ = read_headers([tmp_path / "a.jpg"])
    (photo,), _ = prepare(headers, ["a"], tmp_path / "work", 80, nothing)
    assert photo.size == (80, 60) and photo.full == (160, 120)
    copy = read_image(photo.file)
    assert np.abs(copy[2::5, 2::5] - CARD[5::10, 5::10]).mean() < 0.02  # the middle of each field
    before = photo.file.stat().st_mtime_ns
    assert (
        prepare(headers, ["a"], tmp_path / "work", 80, nothing)[0] == [photo]
        and photo.file.stat().st_mtime_ns == before
    )
    save_photo(tmp_path / "a.jpg", 1 - CARD)
    (changed,), _ = prepare(read_headers([tmp_path / "a.jpg"])[0], ["a"], tmp_path / "work", 80, nothing)
    assert np.abs(read_image(changed.file)[2::5, 2::5] - (1 - CARD)[5::10, 5::10]).mean() < 0.02


def test_deep_grey_and_transparent_photos(tmp_path):
    grey = np.linspace(0, 65535, 96 * 64).reshape(64, 96)
    Image.fromarray(grey.astype(np.uint16)).save(tmp_path / "deep.tif")
    see_through = Image.fromarray(np.full((64, 96, 4), 0, np.uint8))
    see_through.save(tmp_path / "through.png")
    headers, bad = read_headers([tmp_path / "deep.tif", tmp_path / "through.png"])
    photos, left = prepare(headers, ["a", "b"], tmp_path / "work", 1600, nothing)
    assert not bad and not left
    assert np.abs(read_image(photos[0].file)[..., 0] - grey / 65535).max() < 0.01
    assert photos[0].mask is None and (read_image(photos[1].mask) == 0).all()


@pytest.mark.parametrize("turn", [1, 3, 6, 8])
@pytest.mark.parametrize("as_shown", [True, False])
def test_masks_follow_their_photos(tmp_path, turn, as_shown):
    hole = np.s_[10:30, 70:90]
    picture, mask = np.full((64, 96, 3), 0.5, np.float32), np.full((64, 96), 255, np.uint8)
    picture[hole], mask[hole] = (1, 0, 0), 0
    if turn == 3 or as_shown:
        shown = mask
    else:
        shown = {1: mask, 6: np.rot90(mask), 8: np.rot90(mask, -1)}[turn]
    stored = Image.fromarray(to_bytes(picture))
    back = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}[turn]
    exif = Image.Exif()
    exif[0x0112] = turn
    (stored if back is None else stored.transpose(back)).save(tmp_path / "a.png", exif=exif)
    Image.fromarray(np.ascontiguousarray(shown)).save(tmp_path / "a.mask.png")
    masks = {tmp_path / "a.png": tmp_path / "a.mask.png"}
    (photo,), left = prepare(*read_headers([tmp_path / "a.png"])[:1], ["a"], tmp_path / "work", 1600, nothing, masks)
    assert not left and np.abs(read_image(photo.file) - 0.5).max() < 0.01
    assert ((read_image(photo.mask)[..., 0] > 0.5) == (mask > 0)).all()


def test_copies_of_one_photo_are_found_and_other_focus_is_not(tmp_path):
    picture = Image.fromarray((CARD * 255).astype(np.uint8)).resize((960, 720), Image.Resampling.BICUBIC)
    picture.save(tmp_path / "a.jpg", quality=97)
    picture.save(tmp_path / "a saved again.jpg", quality=85)
    picture.filter(ImageFilter.GaussianBlur(8)).save(tmp_path / "b.jpg", quality=97)
    headers, _ = read_headers(sorted(tmp_path.glob("*.jpg")))
    photos, left = prepare(headers, working_names(h.path for h in headers), tmp_path / "work", 1600, nothing)
    assert [photo.name for photo in photos] == ["a", "b"] and left == {"a saved again.jpg": "the same picture as a.jpg"}
    assert photos[0].sharpness > 1.5 * photos[1].sharpness


def test_exif_is_read_and_broken_exif_is_nothing(tmp_path):
    save_photo(tmp_path / "a.jpg", CARD, f_number=2.8, equivalent=50)
    exif = read_exif(tmp_path / "a.jpg")
    assert exif == Exif(2.8, 35.0, 50.0, 3.5, "Maker Model 1") and Exif.from_plain(exif.plain()) == exif
    # 50 mm before a film of 36 × 24 mm: 50 / 43.27 of the diagonal.
    assert exif.focal_pixels(3000, 2000) == pytest.approx(3000 / 36 * 50, rel=1e-6)
    assert not Exif.from_plain(
        {"f_number": -1, "focal_length": "x", "camera": 3, "lens": "\n", "subject_distance": 1e99}
    )
    save_photo(tmp_path / "b.jpg", CARD, f_number=0.0)
    assert read_exif(tmp_path / "b.jpg").f_number is None
    data = bytearray((tmp_path / "a.jpg").read_bytes())
    data[30:90] = b"\xff" * 60
    (tmp_path / "c.jpg").write_bytes(data)
    assert read_exif(tmp_path / "c.jpg").f_number is None and not read_exif(tmp_path / "nowhere.jpg")


def photo(name, exif=None, size=(1600, 1067), sharp=0.3):
    return Photo(name, Path(f"{name}.jpg"), Path(f"{name}.png"), size, size, exif or Exif(), sharp)


def test_one_camera_for_photos_of_one_body_lens_and_zoom():
    wide, long = Exif(2.0, 35.0, 52.0, None, "A", "L"), Exif(4.0, 70.0, 105.0, None, "A", "L")
    photos = [
        photo("a", wide),
        photo("b", long),
        photo("c", wide),
        photo("d"),
        photo("e", size=(1600, 1200)),
        photo("f"),
    ]
    groups = group_photos(photos, 1.0)
    assert [group.names for group in groups] == [("a", "c"), ("b",), ("d", "f"), ("e",)]
    assert [group.known for group in groups] == [True, True, False, False]
    assert groups[0].focal == pytest.approx(1600 / 36 * 52, rel=0.01) and groups[2].focal == 1.2 * 1600
    assert group_photos(photos[:1], 2.0)[0].size == (3200, 2134)


def test_pairs_of_few_and_of_many(tmp_path):
    files = []
    for i in range(60):
        path = tmp_path / f"{i}.png"
        Image.fromarray(np.random.default_rng(i % 30).integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(path)
        files.append(path)
    assert choose_pairs(files[:9]) == list(combinations(range(9), 2))
    pairs = choose_pairs(files, exhaustive=50)
    assert len(pairs) == len(set(pairs)) < 60 * 59 / 2 * 0.8 and all(0 <= a < b < 60 for a, b in pairs)
    assert {(i, i + step) for i in range(44) for step in (1, 8, 16)} <= set(pairs)
    assert {(i, i + 30) for i in range(30)} <= set(pairs)  # they show the same
    assert most_similar(np.eye(3)[[0, 0, 1]], 1)[:2].ravel().tolist() == [1, 0]


def test_the_ladder_grows_more_tolerant():
    first, second, small, third = ATTEMPTS
    assert len({attempt.features for attempt in ATTEMPTS}) == 3 and first.features == second.features
    assert small.small and not any(attempt.small for attempt in (first, second, third))
    assert small.extraction == third.extraction and small.mapping == second.mapping
    assert third.extraction["sift"]["estimate_affine_shape"] and third.extraction["sift"]["domain_size_pooling"]
    assert third.matching["guided_matching"] and not first.matching
    assert third.extraction["sift"]["peak_threshold"] < first.extraction["sift"]["peak_threshold"]


def test_reasons():
    photos = [*(photo(f"good {i}") for i in range(4)), photo("soft", sharp=0.05), photo("other"), photo("odd")]
    features = {p.name: 4000 for p in photos} | {"soft": 90}
    matches = {p.name: 300 for p in photos} | {"soft": 5, "other": 3, "odd": 80}
    reasons = explain(photos, Mapped("x", None, tuple(f"good {i}" for i in range(4)), 0.5, 9, features, matches))
    assert list(reasons) == ["soft.jpg", "other.jpg", "odd.jpg"]
    assert reasons["soft.jpg"].startswith("too blurred or too plain: 90 features, the others have about 4000")
    assert reasons["other.jpg"].startswith("too few matches: at most 3")
    assert "do not fit" in reasons["odd.jpg"]


def test_the_sharpest_frame_of_each_window(tmp_path):
    """Every window of six frames has one sharp frame; its place is what comes out."""
    sharp = {1: 0, 8: 1, 17: 2, 20: 3}
    frames = []
    for i in range(24):
        card = Image.fromarray((np.roll(CARD, 10 * i, axis=1) * 255).astype(np.uint8))
        frames.append(np.asarray(card if i in sharp else card.filter(ImageFilter.GaussianBlur(3))))
    write_video(tmp_path / "clip.mp4", frames)
    seen = []
    files = extract_frames(tmp_path / "clip.mp4", tmp_path / "frames", 6, lambda *counts: seen.append(counts))
    assert [path.name for path in files] == [f"clip-{i:04d}.jpg" for i in range(1, 5)] and seen[-1] == (24, 24)
    for i, k in sharp.items():
        assert np.abs(read_image(files[k]) - np.roll(CARD, 10 * i, axis=1)).mean() < 0.05
        assert sharpness(read_image(files[k])) > 0.2
    before = [path.stat().st_mtime_ns for path in files]
    assert extract_frames(tmp_path / "clip.mp4", tmp_path / "frames", 6, nothing) == files
    assert [path.stat().st_mtime_ns for path in files] == before


def test_a_video_s_name_and_content_lead_nowhere_else(tmp_path, monkeypatch):
    """A name that ffmpeg takes for an address, a play list, and a hostile list of frames that are done."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        name = f"http:127.0.0.1:{listener.getsockname()[1]}.mp4"
        write_video(tmp_path / "secret.mp4", [np.zeros((64, 64, 3))] * 4)
        Path("secret.mp4").rename(name)
        (video,) = list_files(Path()).videos
        assert str(video) == name and len(extract_frames(video, tmp_path / "frames", 2, nothing)) == 2
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()
    Path(name).rename("secret.mp4")
    Path("list.mp4").write_text("ffconcat version 1.0\nfile secret.mp4\n")
    with pytest.raises(ValueError, match=r"list\.mp4: not a video"):
        extract_frames(Path("list.mp4"), tmp_path / "other", 2, nothing)
    (tmp_path / "other").mkdir(exist_ok=True)
    (tmp_path / "other" / "frames.json").write_text('["../secret.mp4"]')
    with pytest.raises(ValueError, match=r"frames\.json: .*outside"):
        extract_frames(tmp_path / "secret.mp4", tmp_path / "other", 2, nothing)


def test_names_of_digits_are_names_before_they_are_numbers():
    files = [f"{i:04d}.jpg" for i in range(1, 22)]
    assert ScaleBy.parse("0001,0009,0.4").find(files) == (0, 8)
    assert ScaleBy.parse("0001.jpg,12,0.4").find(files) == (0, 12)
    assert ScaleBy.parse("0,0009,0.4").words(files) == "0001.jpg and 0009.jpg were taken 0.4 m apart"


def test_photos_are_listed_in_the_order_of_their_numbers(tmp_path):
    for name in ("IMG_10.jpg", "IMG_2.jpg", "IMG_1.jpg", "a.png", "12.jpg", "9.jpg"):
        (tmp_path / name).write_bytes(b"")
    names = [path.name for path in list_files(tmp_path).photos]
    assert names == ["9.jpg", "12.jpg", "IMG_1.jpg", "IMG_2.jpg", "IMG_10.jpg", "a.png"]
