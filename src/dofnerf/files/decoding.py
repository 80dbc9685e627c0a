"""What Pillow leaves undone in photos: 16 bits a channel, colour profiles, Radiance HDR and camera RAW.

Each function checks what it reads; the caller (pictures.py) turns whatever fails into one line that names the file.
"""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms

from dofnerf.files.extras import how_to_install
from dofnerf.files.guard import open_regular

RAW_SUFFIXES = (
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos", ".mrw",
    ".nef",
    ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
)  # fmt: skip
LARGEST = 500_000_000  # pixels of a picture
_SWAPPED = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_FLIPS = {3: 3, 5: 8, 6: 6}  # LibRaw's → EXIF's orientation
# Linear sRGB → XYZ, adapted to the white of D50, in which profiles are.
_SRGB_TO_XYZ = np.array(
    [[0.4360747, 0.3850649, 0.1430804], [0.2225045, 0.7168786, 0.0606169], [0.0139322, 0.0971045, 0.7141733]]
)


def deep_mode(picture: Image.Image) -> str:
    """Of an open, not yet decoded picture with 16 bits a colour channel, of which Pillow would keep eight: how its
    bytes lie, such as RGB;16B. Otherwise empty."""
    tiles = getattr(picture, "tile", None)
    arguments = tiles[0].args if tiles else ""
    mode = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    if not isinstance(mode, str) or picture.mode not in ("RGB", "RGBA"):
        return ""
    if picture.format == "TIFF" and picture.tag_v2.get(284) == 2 and max(picture.tag_v2.get(258, (8,))) > 8:  # type: ignore[attr-defined]
        raise ValueError("16 bits a channel in separate planes; save it with interleaved channels")
    return mode if mode.split(";")[-1] in ("16B", "16L", "16N") else ""


def read_deep(path: Path, picture: Image.Image, mode: str) -> np.ndarray:
    """The colours (H, W, 3) float32, 0..1, of a decoded picture whose `deep_mode` was `mode`.

    Pillow decodes the more significant byte of each value. Told that the bytes lie the other way round, it decodes the
    less significant one: so the file is decoded twice.
    """
    if mode.partition(";")[0] not in ("RGB", "RGBA"):
        raise ValueError("16 bits a channel in an unusual order; save it as RGB")
    high = np.asarray(picture)[..., :3]
    with Image.open(path) as again:
        other = mode[:-1] + _SWAPPED[mode[-1]]
        again.tile = [
            tile._replace(args=(other, *tile.args[1:]) if isinstance(tile.args, tuple) else other)
            for tile in again.tile
        ]
        low = np.asarray(again)[..., :3]
    values = high.astype(np.float32) * 256 + low
    return _profiled(values / 65535, picture.info.get("icc_profile"))


def to_srgb(picture: Image.Image) -> Image.Image:
    """An 8-bit picture in sRGB, by its colour profile; the picture itself where it has none, or a broken one."""
    profile = picture.info.get("icc_profile")
    if not profile or picture.mode not in ("RGB", "RGBA", "CMYK"):
        return picture
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if own.profile.xcolor_space.strip() != picture.mode[:4].removesuffix("A") or _is_srgb(own):
            return picture
        mode = "RGBA" if picture.mode == "RGBA" else "RGB"
        changed = ImageCms.profileToProfile(picture, own, ImageCms.createProfile("sRGB"), outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return picture
    return changed or picture


def _is_srgb(profile: ImageCms.ImageCmsProfile) -> bool:
    return "srgb" in (profile.profile.profile_description or "").lower()


def _profiled(image: np.ndarray, profile: bytes | None) -> np.ndarray:
    """Deep values in sRGB, by a profile of three primaries and curves, as all common RGB spaces have; lcms in Pillow
    handles 8 bits only."""
    if not profile:
        return image
    try:
        if _is_srgb(ImageCms.ImageCmsProfile(io.BytesIO(profile))):
            return image
        tags = _tags(profile)
        primaries = np.stack([_xyz(tags[f"{c}XYZ"]) for c in "rgb"], axis=1)
        linear = np.stack([_curve(tags[f"{c}TRC"], image[..., i]) for i, c in enumerate("rgb")], axis=-1)
        matrix = (np.linalg.inv(_SRGB_TO_XYZ) @ primaries).astype(np.float32)
    except (ImageCms.PyCMSError, OSError, ValueError, KeyError, IndexError, struct.error, OverflowError):
        return image
    linear = np.clip(linear @ matrix.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** np.float32(1 / 2.4) - 0.055)


def _tags(profile: bytes) -> dict[str, bytes]:
    (count,) = struct.unpack_from(">I", profile, 128)
    tags = {}
    for k in range(min(count, 100)):
        name, start, length = struct.unpack_from(">4sII", profile, 132 + 12 * k)
        tags[name.decode("latin-1")] = profile[start : start + length]
    return tags


def _xyz(tag: bytes) -> np.ndarray:
    return np.array(struct.unpack_from(">3i", tag, 8)) / 65536


def _curve(tag: bytes, values: np.ndarray) -> np.ndarray:
    """Display values → linear light by a profile's curve: a table, a gamma, or one of the parametric kinds."""
    if tag[:4] == b"curv":
        (count,) = struct.unpack_from(">I", tag, 8)
        if count == 0:
            return values
        table = np.frombuffer(tag, ">u2", count, 12)
        if count == 1:
            return values ** np.float32(table[0] / 256)
        return np.interp(values, np.linspace(0, 1, count), table / 65535).astype(np.float32)
    if tag[:4] != b"para":
        raise ValueError("no curve")
    (kind,) = struct.unpack_from(">H", tag, 8)
    g, *rest = (np.array(struct.unpack_from(f">{(1, 3, 4, 5, 7)[kind]}i", tag, 12)) / 65536).tolist()
    a, b, c, d, e, f = [*rest, *[0.0] * (6 - len(rest))] if rest else [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    if kind in (1, 2):  # a power from −b/a on, plus c; below it c
        c, d, e, f = 0.0, -b / a, c, c
    above = np.maximum(a * values + b, 0) ** g + e
    return np.where(values >= d, above, c * values + f).astype(np.float32)


def radiance_size(path: Path) -> tuple[int, int]:
    """(width, height) of a Radiance .hdr."""
    with open_regular(path) as file:
        return _radiance_header(file.read(65536))[:2]


def read_radiance(path: Path) -> np.ndarray:
    """Linear light (H, W, 3) float32 of a Radiance .hdr."""
    with open_regular(path) as file:
        width, height, upwards, body = _radiance_header(file.read())
    bytes_ = _scanlines(np.frombuffer(body, np.uint8), width, height)
    exponent = bytes_[..., 3:].astype(np.int32)
    scale = np.where(exponent > 0, np.ldexp(np.float32(1), exponent - 136), 0).astype(np.float32)
    image = (bytes_[..., :3] + np.float32(0.5)) * scale
    return image[::-1] if upwards else image


def _radiance_header(data: bytes) -> tuple[int, int, bool, bytes]:
    """(width, height, whether the lowest line comes first, what follows)."""
    head, _, rest = data.partition(b"\n\n")
    if not head.startswith((b"#?RADIANCE", b"#?RGBE")) or b"32-bit_rle_xyze" in head:
        raise ValueError("not a Radiance RGBE picture")
    line, _, body = rest.partition(b"\n")
    words = line.split()
    if len(words) != 4 or words[0] not in (b"-Y", b"+Y") or words[2] != b"+X":
        raise ValueError("its lines lie in an unusual order")
    height, width = int(words[1]), int(words[3])
    if not 0 < width * height <= LARGEST or width < 1:
        raise ValueError(f"a picture of {width}×{height} pixels")
    return width, height, words[0] == b"+Y", body


def _scanlines(data: np.ndarray, width: int, height: int) -> np.ndarray:
    """RGBE (H, W, 4) uint8 of lines that are plain, or run-length coded channel by channel."""
    if not 8 <= width < 32768 or data[:2].tolist() != [2, 2]:
        if len(data) < 4 * width * height:
            raise ValueError("the file breaks off")
        return data[: 4 * width * height].reshape(height, width, 4)
    if len(data) < height * (4 + 8 * -(-width // 127)):  # no line is shorter
        raise ValueError("the file breaks off")
    lines = np.empty((height, 4, width), np.uint8)
    at = 0
    for row in range(height):
        if data[at : at + 4].tolist() != [2, 2, width >> 8, width & 255]:
            raise ValueError("a line does not begin as it should")
        at += 4
        for channel in range(4):
            column = 0
            while column < width:
                count = int(data[at])
                run = count > 128
                count -= 128 * run
                if not 0 < count <= width - column:
                    raise ValueError("a line is longer than the picture is wide")
                values = data[at + 1 : at + 2 + (0 if run else count - 1)]
                if len(values) != (1 if run else count):
                    raise ValueError("the file breaks off")
                lines[row, channel, column : column + count] = values
                column, at = column + count, at + 1 + len(values)
    return lines.transpose(0, 2, 1)


def open_raw(path: Path) -> Any:
    """rawpy's object for a camera's RAW file; a context manager."""
    try:
        import rawpy
    except ImportError:
        raise ValueError(f"RAW files need rawpy: {how_to_install('raw')}; or develop them to JPEG or TIFF") from None
    with open_regular(path):  # rawpy's own message for a missing file does not name it
        return rawpy.imread(str(path))


def raw_header(path: Path) -> tuple[tuple[int, int], int, dict[str, Any]]:
    """A RAW file's size (width, height) as stored, orientation as EXIF has it, and what it says of the exposure."""
    with open_raw(path) as raw:
        sizes, other, lens = raw.sizes, raw.other, raw.lens
        said = {
            "f_number": other.aperture, "focal_length": other.focal_length, "lens": lens.model or None,
            "taken": other.timestamp, "exposure_time": other.shutter_speed, "iso": other.iso_speed,
        }  # fmt: skip
        return (sizes.width, sizes.height), _FLIPS.get(sizes.flip, 1), said


def read_raw(path: Path, orient: bool) -> np.ndarray:
    """A RAW file as linear light (H, W, 3) float32, sRGB's primaries, by the camera's own white balance."""
    with open_raw(path) as raw:
        values = raw.postprocess(
            use_camera_wb=True, no_auto_bright=True, gamma=(1, 1), output_bps=16,
            adjust_maximum_thr=0.0, user_flip=None if orient else 0,  # no exposure of each photo's own
        )  # fmt: skip
    return values.astype(np.float32) / 65535
