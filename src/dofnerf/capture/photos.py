"""Working copies of photos: upright, shrunk in linear light, without duplicates.

A photo is decoded once; later steps, and a resumed capture, read the copy. All photos of a scene have one size. Where
some are portrait and others landscape, those of the rarer kind are rotated by 90 degrees: poses do not depend on which
way is up, and photos of one camera then share its sensor's axes, so one camera model.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from dofnerf.files import atomic, has_more_than_8_bits, image_size, is_linear, write_deep_png, write_image, write_json
from dofnerf.files.decoding import LARGEST, RAW_SUFFIXES, raw_header, to_srgb
from dofnerf.files.extras import how_to_install
from dofnerf.files.guard import first_line, read_json
from dofnerf.files.pictures import one_line, open_picture, to_bytes, turned
from dofnerf.scenes.exif import Exif, exif_of, orientation_of
from dofnerf.scenes.export import plain_stems
from dofnerf.scenes.masks import MaskFile, alpha_mask, fill_in
from dofnerf.scenes.source import PictureFile, resize

SMALLEST = 64  # pixels of the shorter side
_THUMBNAIL = 192  # pixels across, for finding duplicates
_SAME, _SAME_ANYWHERE = 1.5 / 255, 12 / 255  # mean and largest difference of two copies of one photo
_SIDEWAYS, _MIRRORED = (5, 6, 7, 8), (2, 4, 5, 7)
_PLAIN = {(False, False): 1, (True, False): 6, (False, True): 2, (True, True): 5}  # by sideways and mirrored


@dataclass(frozen=True)
class Header:
    """What a file's beginning says: size (width, height) as stored, EXIF's orientation, and the rest of EXIF."""

    path: Path
    stored: tuple[int, int]
    orientation: int
    exif: Exif

    @property
    def landscape(self) -> bool:
        """Whether the upright photo is at least as wide as high."""
        width, height = self.stored[::-1] if self.orientation in _SIDEWAYS else self.stored
        return width >= height


@dataclass(frozen=True)
class Photo:
    """A prepared photo: `file` is the copy of `size` (width, height); `full` is the size that the photo has itself.

    `sharpness` compares photos of one scene; see `sharpness()`. Of a photo of more than 8 bits there is a `deep` copy,
    too: poses are found in `file`, the scene gets the other. `mask`, if there is one, is that of the copy, in which
    what it leaves out is filled in.
    """

    name: str
    source: Path
    file: Path
    size: tuple[int, int]
    full: tuple[int, int]
    exif: Exif
    sharpness: float
    deep: Path | None = None
    mask: Path | None = None


def working_names(paths: Iterable[Path]) -> list[str]:
    """Names for copies: the files' own, without what a list of names with spaces between them cannot hold."""
    names = [re.sub(r"[^\w-]+", "_", name) for name in plain_stems([path.name for path in paths])]
    return names if len({name.lower() for name in names}) == len(names) else [f"{i:04d}" for i in range(len(names))]


def read_headers(paths: Iterable[Path]) -> tuple[list[Header], dict[str, str]]:
    """The headers of those that are pictures, and why the others (by name) are none."""
    _allow_heic()
    headers, bad = [], {}
    for path in paths:
        try:
            header = _read_header(path)
            if min(header.stored) < SMALLEST:
                bad[path.name] = f"too small ({header.stored[0]}×{header.stored[1]} pixels)"
            else:
                headers.append(header)
        except (ValueError, OSError) as error:
            bad[path.name] = _why(path, error)
    return headers, bad


def _read_header(path: Path) -> Header:
    suffix = path.suffix.lower()
    if suffix in RAW_SUFFIXES:
        with one_line(path):
            size, orientation, said = raw_header(path)
        return Header(path, size, orientation, Exif.from_plain(said))
    if is_linear(path):
        return Header(path, image_size(path), 1, Exif())
    with open_picture(path, load=False, most=LARGEST) as picture:
        return Header(path, picture.size, orientation_of(picture), exif_of(picture))


def choose_turns(headers: list[Header]) -> list[int]:
    """The orientation (EXIF's 1 … 8) by which to turn each stored picture, so that all lie or all stand."""
    landscape = 2 * sum(header.landscape for header in headers) >= len(headers)
    usual = Counter(header.orientation for header in headers if header.landscape == landscape).most_common(1)[0][0]
    turns = []
    for header in headers:
        turn = header.orientation
        if header.landscape != landscape and header.stored[0] != header.stored[1]:
            fits = (header.stored[0] >= header.stored[1]) == (landscape != (usual in _SIDEWAYS))
            mirrored = turn in _MIRRORED  # stays so, however it is turned
            if fits and mirrored == (usual in _MIRRORED):
                turn = usual
            else:
                turn = _PLAIN[(usual in _SIDEWAYS) if fits else (turn not in _SIDEWAYS), mirrored]
        turns.append(turn)
    return turns


def prepare(
    headers: list[Header],
    names: list[str],
    folder: Path,
    longest: int,
    report: Callable[[int, int], None],
    masks: Mapping[Path, Path] = {},
) -> tuple[list[Photo], dict[str, str]]:
    """Copies into `folder` whose longer side is at most `longest` pixels; why some photos (by file name) are left out.
    `masks` are files, by photo; a photo without one has its alpha channel, if there is any.

    A copy that is there already is kept. Damaged photos and second copies of the same picture are left out.
    """
    photos: list[Photo] = []
    thumbnails: dict[str, np.ndarray] = {}
    left: dict[str, str] = {}
    jobs = list(zip(headers, choose_turns(headers), names, strict=True))
    # "IMG 1.jpg" and "IMG 1 copy.jpg": the shorter name is the original's, so it comes first.
    for i, (header, turn, name) in enumerate(sorted(jobs, key=lambda job: len(job[0].path.name))):
        report(i, len(headers))
        try:
            photo, thumbnail = _prepare_one(header, turn, folder / f"{name}.png", longest, masks.get(header.path))
        except ValueError as error:
            left[header.path.name] = _why(header.path, error)
            continue
        thumbnails[name] = thumbnail
        same = next((other for other in photos if _same(thumbnails[other.name], thumbnail)), None)
        if same is None:
            photos.append(photo)
        else:
            left[header.path.name] = f"the same picture as {same.source.name}"
    report(len(headers), len(headers))
    return sorted(photos, key=lambda photo: names.index(photo.name)), left


def _prepare_one(header: Header, turn: int, file: Path, longest: int, mask: Path | None) -> tuple[Photo, np.ndarray]:
    record = file.with_suffix(".json")
    known = _known(record, header) if file.is_file() else None
    if known is None:
        given = None if mask is None else _as_stored(mask, header)
        image, full, counts = load_upright(header.path, turn, longest, given)
        if counts is not None:
            write_image(_beside(file, "masks"), np.uint8(255) * counts)
        deep = has_more_than_8_bits(header.path)
        if deep:
            write_deep_png(_beside(file, "deep"), image)
        with atomic(file) as temporary:
            Image.fromarray(to_bytes(image)).save(temporary, compress_level=1)
        known = {"source": _identity(header.path), "size": image.shape[1::-1], "full": full, "deep": deep}
        known["masked"] = counts is not None
        known["sharpness"] = sharpness(image)
        write_json(record, known)
    size, full = tuple(known["size"]), tuple(known["full"])
    others = (_beside(file, kind) if known.get(key) else None for kind, key in (("deep", "deep"), ("masks", "masked")))
    photo = Photo(file.stem, header.path, file, size, full, header.exif, known["sharpness"], *others)
    return photo, _thumbnail(file)


def _beside(file: Path, kind: str) -> Path:
    return file.parent.with_name(kind) / file.name


def _as_stored(path: Path, header: Header) -> np.ndarray:
    """A photo's mask, (H, W) bool, in the orientation in which the photo is stored: masks are drawn on it as shown, or
    as stored, which their shape tells."""
    mask, (width, height), turn = MaskFile(path, *image_size(path)).load(), header.stored, header.orientation
    sideways = turn in _SIDEWAYS and (mask.shape[1] > mask.shape[0]) == (width > height)
    mask = mask if sideways else turned(mask, {6: 8, 8: 6}.get(turn, turn))
    if abs(mask.shape[0] * width / mask.shape[1] - height) > max(1.5, 0.01 * height):
        raise ValueError(f"its mask {path.name} has another shape ({mask.shape[1]}×{mask.shape[0]} pixels)")
    return mask


def load_upright(
    path: Path, turn: int, longest: int, mask: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[int, int], np.ndarray | None]:
    """The picture (H, W, 3), display values, turned and shrunk in linear light; the size (width, height) it had; and
    which pixels count, (H, W), if not all do: by `mask`, whose orientation is the file's, or by its alpha channel."""
    if has_more_than_8_bits(path):
        whole = PictureFile(path, *image_size(path)).load()
        source = None if mask is not None else alpha_mask(path, whole.shape[1::-1])
        picked = mask if source is None else source.load()
        full = whole.shape[1::-1]
    else:
        whole, full, picked = _load_bytes(path, longest, mask)
    if picked is not None and not picked.all():
        picked = resize(picked, *whole.shape[1::-1])
        whole = fill_in(whole.astype(np.float32) / 255 if whole.dtype == np.uint8 else whole, picked)
    whole, full = turned(whole, turn), full[::-1] if turn in _SIDEWAYS else full
    size = _shrunk(full, longest)
    image, counts = resize(whole, *size), None if picked is None else resize(turned(picked, turn), *size)
    return image, full, None if counts is None or counts.all() else counts


def _load_bytes(
    path: Path, longest: int, mask: np.ndarray | None
) -> tuple[np.ndarray, tuple[int, int], np.ndarray | None]:
    """An 8-bit picture (H, W, 3) at about the wanted size or larger, its own size, and its mask."""
    with open_picture(path, load=False, most=LARGEST) as picture:
        try:
            full = picture.size
            # JPEG can be decoded at half, a quarter … of its size; twice the wanted size loses nothing that shows.
            picture.draft(None, (2 * longest, 2 * longest))
            if picture.mode.startswith(("I", "F")):
                deep = np.asarray(picture).astype(np.float32) / (65535 if picture.mode.startswith("I") else 1)
                picture = Image.fromarray((np.clip(deep, 0, 1) * 255 + 0.5).astype(np.uint8))
            if mask is None and "A" in picture.getbands():
                mask = np.asarray(picture.getchannel("A")) == 255
            if "A" in picture.getbands() or "transparency" in picture.info:
                paper = Image.new("RGBA", picture.size, "white")
                picture = Image.alpha_composite(paper, picture.convert("RGBA"))
            picture = to_srgb(picture).convert("RGB")
        except Exception as error:  # Pillow raises whatever the broken bytes lead to
            raise ValueError(f"{path}: the picture is truncated or corrupt ({first_line(error)})") from None
        return np.asarray(picture), full, mask


def _shrunk(size: tuple[int, int], longest: int) -> tuple[int, int]:
    shrink = min(1.0, longest / max(size))
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def sharpness(image: np.ndarray) -> float:
    """The 99th percentile of the gradient of a picture (H, W, 3), as a fraction of its contrast."""
    grey = image.mean(axis=-1)
    step = np.hypot(np.diff(grey, axis=1)[:-1], np.diff(grey, axis=0)[:, :-1])
    return float(np.percentile(step, 99) / (np.ptp(np.percentile(grey, [1, 99])) + 1e-3))


def _thumbnail(file: Path) -> np.ndarray:
    with Image.open(file) as picture:
        small = ImageOps.contain(picture.convert("L"), (min(_THUMBNAIL, picture.width),) * 2, Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32) / 255


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    off = np.abs(one - other)
    return bool(off.mean() < _SAME and off.max() < _SAME_ANYWHERE)


def _known(record: Path, header: Header) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = read_json(record)
        if known["source"] == _identity(header.path) and math.isfinite(known["sharpness"]):
            return known
    return None


def _identity(path: Path) -> list[Any]:
    about = path.stat()
    return [path.name, about.st_size, about.st_mtime_ns]


def fingerprint(paths: Iterable[Path]) -> str:
    """Changes when a photo is added, taken away or changed."""
    return hashlib.sha256(repr([_identity(path) for path in paths]).encode()).hexdigest()[:16]


def _allow_heic() -> None:
    """Pillow reads HEIC where the package pillow-heif is installed."""
    with contextlib.suppress(ImportError):
        from pillow_heif import register_heif_opener

        register_heif_opener()


def _why(path: Path, error: Exception) -> str:
    kind = path.suffix.lower()
    if kind in (".heic", ".heif", ".avif") and kind not in Image.registered_extensions():
        return f"{kind[1:].upper()} is not read by this Pillow: {how_to_install('capture')}; or save it as JPEG"
    if isinstance(error, UnidentifiedImageError):
        return "not a picture"
    text = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return str(text).removeprefix(f"{path}: ")
