"""Read and write single pictures.

A picture in memory is a float32 array (H, W, 3), 0..1 in display space; EXR files hold linear light and come back as
they are, and so do Radiance HDR and camera RAW (see `is_linear`). A map (depth or disparity) is float32 (H, W).
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from dofnerf.files.decoding import (
    LARGEST,
    RAW_SUFFIXES,
    deep_mode,
    radiance_size,
    raw_header,
    read_deep,
    read_radiance,
    read_raw,
    to_srgb,
)  # fmt: skip
from dofnerf.files.guard import check_regular, first_line, open_regular, read_array
from dofnerf.files.outputs import atomic

PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".heic", ".heif", ".avif")  # of cameras
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".exr")
READ_SUFFIXES = (*IMAGE_SUFFIXES, ".hdr", *RAW_SUFFIXES)  # of pictures that are read and not written
LINEAR_SUFFIXES = (".exr", ".hdr", *RAW_SUFFIXES)
# Depth and disparity maps are numbers, so only lossless formats are read.
MAP_SUFFIXES = (".png", ".tif", ".tiff", ".exr", ".npy")
_PAPER, _INK = (24, 24, 26), (235, 235, 235)  # of contact sheets
_EXR_HEADER = 1 << 20  # bytes that it may have
_EXR_PIXELS = 1 << 28
# Pixels a byte that compression may reach, in pictures larger than so many pixels: more is a bomb, or damage.
_RATIO, _FEW_PIXELS = 1 << 13, 1 << 24
_DEFLATE = 1032  # bytes a byte, at most: Pillow takes a PNG whose data end early, and shows black for the rest
_SIDE = 65535  # pixels, as JPEG has it
_SILENCE = threading.Lock()  # one thread at a time may redirect stderr
_LIMIT = threading.Lock()  # and one change Pillow's limit


def is_linear(path: Path | str) -> bool:
    """Whether the file holds linear light (EXR, HDR, RAW) rather than display values."""
    return Path(path).suffix.lower() in LINEAR_SUFFIXES


def has_more_than_8_bits(path: Path | str) -> bool:
    """Whether the file holds linear light, or colours of 16 bits a channel; False if it is no picture."""
    if is_linear(path):
        return True
    with contextlib.suppress(ValueError, OSError), open_picture(Path(path), load=False, most=LARGEST) as picture:
        return bool(deep_mode(picture))
    return False


def read_image(path: Path | str, orient: bool = False) -> np.ndarray:
    """One picture as float32 (H, W, 3). `orient` turns it as EXIF says, which poses from COLMAP assume it does not."""
    return to_floats(read_compact(path, orient))


def read_compact(path: Path | str, orient: bool = False) -> np.ndarray:
    """The same, but bytes (H, W, 3) where the file holds no more."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".exr":
        channels = _read_exr(path)
        if not {"R", "G", "B"} <= channels.keys():
            raise ValueError(
                f"{path}: EXR without R, G and B channels (it has {', '.join(sorted(channels)) or 'none'})"
            )
        image = np.stack([channels[c] for c in "RGB"], axis=-1).astype(np.float32)
    elif suffix == ".hdr":
        with one_line(path):
            image = read_radiance(path)
    elif suffix in RAW_SUFFIXES:
        with one_line(path):
            image = read_raw(path, orient)
    elif suffix in IMAGE_SUFFIXES:
        with open_picture(path, load=False) as picture:
            with one_line(path):
                mode = deep_mode(picture)
                picture.load()
                colours = read_deep(path, picture, mode) if mode else None
                picture = to_srgb(picture)
            if orient and colours is not None:
                with contextlib.suppress(Exception):  # broken EXIF: as it is stored
                    colours = turned(colours, picture.getexif().get(0x0112, 1))
            elif orient:
                with contextlib.suppress(Exception):
                    picture = ImageOps.exif_transpose(picture)
            if picture.mode.startswith(("I", "F")):  # 16-bit and float greyscale: Pillow's convert would clip
                grey = np.asarray(picture).astype(np.float32)
                image = np.repeat(grey[..., None] / (65535.0 if picture.mode.startswith("I") else 1.0), 3, axis=-1)
            elif colours is not None:
                image = colours
            else:
                image = np.asarray(picture.convert("RGB"))
    else:
        raise ValueError(f"{path}: unknown picture type {suffix or '(none)'}; use one of {' '.join(READ_SUFFIXES)}")
    if image.dtype != np.uint8 and not np.isfinite(image).all():
        raise ValueError(f"{path}: the picture holds NaN or infinity")
    return image


def read_exr_alpha(path: Path) -> np.ndarray | None:
    """The alpha channel (H, W) of an EXR, if it has one."""
    return _read_exr(path).get("A")


def has_exr_alpha(path: Path) -> bool:
    """Whether an EXR has an alpha channel, by its header."""
    return "A" in _read_exr(path, only_names=True)


def image_size(path: Path | str) -> tuple[int, int]:
    """(width, height) from the header alone."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".exr":
        return read_image(path).shape[1::-1]
    if suffix == ".hdr":
        with one_line(path):
            return radiance_size(path)
    if suffix in RAW_SUFFIXES:
        with one_line(path):
            return raw_header(path)[0]
    with open_picture(path, load=False) as picture:
        return picture.size


def turned(image: np.ndarray, orientation: int) -> np.ndarray:
    """A stored picture (H, W, …) as EXIF's orientation, 1 to 8, shows it."""
    if orientation in (5, 6, 7, 8):
        image = image.swapaxes(0, 1)
    rows, columns = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    return np.ascontiguousarray(image[:: -1 if rows else 1, :: -1 if columns else 1])


def read_map(path: Path | str) -> tuple[np.ndarray, float]:
    """A depth or disparity map, float32 (H, W), and the value of a full-scale pixel (255, 65535; 1 for floats)."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        array, full = read_array(path), 1.0
    elif suffix == ".exr":
        channels = _read_exr(path)
        wanted = ["Z", "depth.Z", "Y", "V", "R", *(channels if len(channels) == 1 else ())]
        name = next((c for c in wanted if c in channels), None)
        if name is None:
            raise ValueError(f"{path}: EXR without a Z, Y or R channel (it has {', '.join(sorted(channels))})")
        array, full = channels[name], 1.0
    elif suffix in MAP_SUFFIXES:
        with open_picture(path) as picture:
            if picture.mode in ("RGB", "RGBA", "P", "LA"):
                picture = picture.convert("RGB")
                bands = np.asarray(picture)
                if (bands != bands[..., :1]).any():
                    raise ValueError(f"{path}: a colour picture, not a depth or disparity map (save it as greyscale)")
                array = bands[..., 0]
            else:
                array = np.asarray(picture)
            unsigned = 65535.0 if array.dtype.itemsize > 1 else 255.0
            full = {"u": unsigned, "i": 65535.0}.get(array.dtype.kind, 1.0)
    else:
        raise ValueError(f"{path}: unknown map type {suffix or '(none)'}; use one of {' '.join(MAP_SUFFIXES)}")
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        array = array[0] if array.shape[0] == 1 else array[..., 0]
    if array.ndim != 2:
        raise ValueError(f"{path}: expected one value per pixel, found shape {array.shape}")
    with np.errstate(over="ignore"):  # caught below
        values = array.astype(np.float32)
    if (np.isinf(values) & np.isfinite(array)).any():
        row, column = np.argwhere(np.isinf(values) & np.isfinite(array))[0]
        raise ValueError(f"{path}: {array[row, column]:g} at column {column}, row {row} is out of any range")
    return values, full


def write_image(path: Path | str, image: np.ndarray) -> None:
    """Write display values (H, W, 3) float 0..1 or uint8 as 8-bit PNG/JPEG/…, or linear float as EXR, by the suffix."""
    path = Path(path)
    if is_linear(path):
        write_exr(path, {c: image[..., i] for i, c in enumerate("RGB")})
        return
    with atomic(path) as temporary:
        options: dict[str, Any] = {"quality": 95, "subsampling": 0} if path.suffix.lower() in (".jpg", ".jpeg") else {}
        Image.fromarray(to_bytes(image)).save(temporary, **options)


def write_deep_png(path: Path | str, image: np.ndarray) -> None:
    """Write display values 0..1, (H, W, 3) or grey (H, W), as 16-bit PNG, which Pillow writes for greyscale only."""
    values = (np.clip(image, 0.0, 1.0) * 65535.0 + 0.5).astype(">u2")
    height, width = values.shape[:2]
    rows = values.reshape(height, -1).view(np.uint8)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    filtered = np.concatenate([np.full((height, 1), 2, np.uint8), rows - above], axis=1)  # filter 2: the row above
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if image.ndim == 3 else 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, chunk in (b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""):
        data += struct.pack(">I", len(chunk)) + name + chunk + struct.pack(">I", zlib.crc32(name + chunk))
    with atomic(Path(path)) as temporary:
        temporary.write_bytes(data)


def write_map(path: Path | str, values: np.ndarray) -> None:
    """Write float32 (H, W) as .npy or .exr (channel Z)."""
    path = Path(path)
    if is_linear(path):
        write_exr(path, {"Z": values})
    elif path.suffix.lower() == ".npy":
        packed = io.BytesIO()  # np.save into a file does not say why it fails
        np.save(packed, values.astype(np.float32), allow_pickle=False)
        with atomic(path) as temporary:
            temporary.write_bytes(packed.getbuffer())
    else:
        raise ValueError(f"{path}: a map is written as .npy or .exr, not {path.suffix}")


def write_exr(path: Path | str, channels: dict[str, np.ndarray]) -> None:
    """Write named float32 channels (H, W) as one EXR."""
    import OpenEXR

    with atomic(Path(path)) as temporary:
        header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        data = {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in channels.items()}
        try:
            with _silenced():
                OpenEXR.File(header, data).write(str(temporary))
        except RuntimeError:  # it does not say why
            raise OSError(f"{path}: cannot be written; the disk may be full") from None


def write_exr_parts(path: Path | str, parts: dict[str, dict[str, np.ndarray]]) -> None:
    """Write several pictures of named float32 channels (H, W) as the parts of one EXR."""
    import OpenEXR

    made = []
    for name, channels in parts.items():
        data = {channel: np.ascontiguousarray(values, dtype=np.float32) for channel, values in channels.items()}
        header = {"name": name, "compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        made.append(OpenEXR.Part(header, data))
    with atomic(Path(path)) as temporary:
        try:
            with _silenced():
                OpenEXR.File(made).write(str(temporary))
        except RuntimeError:  # it does not say why
            raise OSError(f"{path}: cannot be written; the disk may be full") from None


def to_bytes(image: np.ndarray) -> np.ndarray:
    """Display floats 0..1 → rounded uint8; uint8 passes through."""
    if image.dtype == np.uint8:
        return image
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def to_floats(image: np.ndarray) -> np.ndarray:
    """Bytes → display floats 0..1; anything else passes through."""
    return image.astype(np.float32) / np.float32(255) if image.dtype == np.uint8 else image


def contact_sheet(
    tiles: Sequence[tuple[str, np.ndarray]], columns: int, margin: int = 12, heading: str = ""
) -> np.ndarray:
    """Pictures (H, W, 3), all of one size, in rows with a caption under each, one line or more → uint8."""
    from matplotlib import get_data_path

    height, width = tiles[0][1].shape[:2]
    letters = f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf"  # has most of the world's letters
    font, large = (ImageFont.truetype(letters, size) for size in (max(12, width // 28), max(14, width // 20)))
    line = max(12, width // 28) * 1.35
    caption = round(line * max(words.count("\n") + 1 for words, _ in tiles) + 0.85 * line)
    top = round(2.4 * max(14, width // 20)) if heading else 0
    rows = -(-len(tiles) // columns)
    cell = width + margin, height + caption
    sheet = Image.new("RGB", (columns * cell[0] + margin, top + rows * cell[1] + margin), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((sheet.width / 2, (top + margin) / 2), heading, fill=_INK, font=large, anchor="mm")
    for i, (words, image) in enumerate(tiles):
        x, y = margin + i % columns * cell[0], top + margin + i // columns * cell[1]
        sheet.paste(Image.fromarray(to_bytes(image)), (x, y))
        middle = x + width / 2, y + height + (caption - margin / 2) / 2
        draw.multiline_text(middle, words, fill=_INK, font=font, anchor="mm", align="center", spacing=line * 0.25)
    return np.asarray(sheet)


@contextlib.contextmanager
def one_line(path: Path) -> Iterator[None]:
    """Whatever a decoder raises becomes one line that names the file."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, MemoryError):
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except Exception as error:
        raise ValueError(f"{path}: the picture is truncated or corrupt ({first_line(error)})") from None


@contextlib.contextmanager
def open_picture(path: Path, load: bool = True, most: int | None = None) -> Iterator[Image.Image]:
    """Pillow's image, decoded; a bad file gives one line. `most` pixels instead of Pillow's own limit."""
    check_regular(path)
    pixels = 1 << 62  # not known yet
    try:
        with _allowing(most), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(path)
            pixels, length = picture.width * picture.height, os.stat(path).st_size
            ratio = _DEFLATE / len(picture.getbands()) if picture.format == "PNG" and len(picture.mode) > 1 else _RATIO
            if pixels > max(_FEW_PIXELS, ratio * length) or max(picture.size) > _SIDE:
                raise Image.DecompressionBombError
            if load:
                picture.load()
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except UnidentifiedImageError:
        raise ValueError(f"{path}: not a picture that can be read (corrupt, empty or of another type)") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        if most is not None and pixels > most:
            raise ValueError(f"{path}: too large (above {most / 1e6:g} megapixels)") from None
        raise ValueError(f"{path}: the header claims an absurd picture size; the file is corrupt or hostile") from None
    except Exception as error:
        raise ValueError(f"{path}: the picture is truncated or corrupt ({first_line(error)})") from None
    with picture:
        yield picture


@contextlib.contextmanager
def _allowing(most: int | None) -> Iterator[None]:
    """Pillow takes pictures of up to `most` pixels; its limit is the process's, so one thread at a time."""
    if most is None:
        yield
        return
    with _LIMIT:
        kept, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, most
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = kept


def _read_exr(path: Path, only_names: bool = False) -> dict[str, np.ndarray]:
    """The channels of an EXR by name; with `only_names`, empty ones."""
    import OpenEXR

    with open_regular(path) as file:  # OpenEXR's own message for a missing file does not name it
        head, length = file.read(_EXR_HEADER), os.fstat(file.fileno()).st_size
    if head[:4] != b"\x76\x2f\x31\x01":
        raise ValueError(f"{path}: not an EXR file")
    try:
        _check_exr(head, length)
        with _silenced(), OpenEXR.File(str(path), separate_channels=True, header_only=only_names) as file:
            if only_names:
                return {channel.name: np.empty(0) for channel in file.header()["channels"]}
            return {name: np.asarray(channel.pixels) for name, channel in file.channels().items()}
    except Exception as error:
        raise ValueError(f"{path}: the EXR is truncated or corrupt ({first_line(error)})") from None


def _check_exr(head: bytes, length: int) -> None:
    """Refuse headers that claim more pixels than the file could hold: OpenEXR would make room for them first."""
    at, parts = 8, 0
    while True:
        size, values = (0, 0), 0
        while head[at : at + 1] != b"\0":  # an attribute: name, type, length in bytes, value
            name, kind = head[at : at + 512].split(b"\0", 2)[:2]
            at += len(name) + len(kind) + 6
            (count,) = struct.unpack_from("<i", head, at - 4)
            if count < 0 or at + count > len(head):
                raise ValueError("its header is truncated or absurdly long")
            if kind == b"box2i" and name == b"dataWindow":
                left, top, right, bottom = struct.unpack_from("<4i", head, at)
                size = right - left + 1, bottom - top + 1
            elif kind == b"chlist":
                values = max(1, count // 18)  # channels: each has a name that ends with 0, and 16 bytes
            at += count
        at, parts = at + 1, parts + 1
        pixels = max(size[0], 0) * max(size[1], 0)
        if min(size) < 1 or max(size) > 1 << 20 or pixels > _EXR_PIXELS or pixels * values > length * _RATIO:
            raise ValueError(f"it claims {size[0]} × {size[1]} pixels, which {length} bytes cannot hold")
        several = head[5] & 0x10  # parts, whose headers follow each other up to an empty one
        if not several or parts > 100 or head[at : at + 1] in (b"\0", b""):
            return


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keeps OpenEXR's own messages about a broken file off both streams."""
    with _SILENCE, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
