"""A photo's EXIF, as far as it concerns the lens; values out of range count as unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import Image

from dofnerf.files.decoding import RAW_SUFFIXES, raw_header
from dofnerf.files.guard import check_regular

_SUB_IFD, _MAKE, _MODEL, _ORIENTATION = 0x8769, 0x010F, 0x0110, 0x0112
_F_NUMBER, _FOCAL, _FOCAL_35, _SUBJECT, _LENS = 0x829D, 0x920A, 0xA405, 0x9206, 0xA434
_TIME, _ISO, _TAKEN, _SUBSECOND = 0x829A, 0x8827, 0x9003, 0x9291
DIAGONAL_35 = math.hypot(36, 24)  # millimetres, of the film that 35 mm equivalents are about


@dataclass(frozen=True)
class Exif:
    """Focal lengths in millimetres, true and 35 mm equivalent; `subject_distance` in metres; `exposure_time` in
    seconds; `taken` when, in seconds since 1970 by the camera's clock; names as written."""

    f_number: float | None = None
    focal_length: float | None = None
    focal_length_35: float | None = None
    subject_distance: float | None = None
    camera: str | None = None
    lens: str | None = None
    exposure_time: float | None = None
    iso: float | None = None
    taken: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())

    def plain(self) -> dict[str, float | str]:
        """Only what is known, for JSON."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Exif:
        """The inverse; what makes no sense counts as unknown."""
        words = {name: _words(values.get(name)) for name in ("camera", "lens")}
        numbers = {one.name: _positive(values.get(one.name)) for one in fields(cls) if one.name not in words}
        numbers["taken"] = _positive(values.get("taken"), most=1e11)
        return cls(**numbers, **words)  # type: ignore[arg-type]

    @property
    def exposure(self) -> float | None:
        """How much light counts as white, in no particular unit: time · ISO / f-number²."""
        if self.exposure_time is None or self.iso is None or self.f_number is None:
            return None
        return self.exposure_time * self.iso / self.f_number**2

    def focal_pixels(self, width: int, height: int) -> float | None:
        """The focal length in pixels of a photo of this size, by the 35 mm equivalent, whose diagonal is 43.3 mm."""
        return None if self.focal_length_35 is None else self.focal_length_35 * math.hypot(width, height) / DIAGONAL_35


def read_exif(path: Path) -> Exif:
    """The EXIF of a file; an empty one where there is none or it cannot be read. A file is read once."""
    try:
        check_regular(path)
        return _read(path, path.stat().st_mtime_ns)
    except Exception:  # Pillow raises whatever the broken bytes lead to
        return Exif()


@lru_cache(maxsize=10_000)
def _read(path: Path, changed: int) -> Exif:
    if path.suffix.lower() in RAW_SUFFIXES:
        return Exif.from_plain(raw_header(path)[2])
    with Image.open(path) as picture:
        return exif_of(picture)


def exif_of(picture: Image.Image) -> Exif:
    """The EXIF of an open picture."""
    try:
        tags = picture.getexif()
        inner = tags.get_ifd(_SUB_IFD)
    except Exception:  # Pillow raises whatever the broken bytes lead to
        return Exif()
    names = [_words(tags.get(key)) for key in (_MAKE, _MODEL)]
    return Exif(
        f_number=_positive(inner.get(_F_NUMBER)),
        focal_length=_positive(inner.get(_FOCAL)),
        focal_length_35=_positive(inner.get(_FOCAL_35)),
        subject_distance=_positive(inner.get(_SUBJECT)),
        exposure_time=_positive(inner.get(_TIME)),
        iso=_positive(iso[0] if isinstance(iso := inner.get(_ISO), tuple) and iso else iso),
        camera=" ".join(name for name in names if name) or None,
        lens=_words(inner.get(_LENS)),
        taken=_moment(inner.get(_TAKEN), inner.get(_SUBSECOND)),
    )


def _moment(value: Any, fraction: Any) -> float | None:
    """Seconds since 1970 of "2026:11:18 05:30:00" and the digits of a fraction of a second."""
    try:
        whole = datetime.strptime(str(value).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    digits = str(fraction).strip("\0 ")
    return _positive(whole + (float(f"0.{digits}") if digits.isdecimal() and len(digits) < 10 else 0.0), most=1e11)


def orientation_of(picture: Image.Image) -> int:
    """EXIF's orientation, 1 (upright) to 8."""
    try:
        value = picture.getexif().get(_ORIENTATION, 1)
    except Exception:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def in_seconds(time: float | None) -> str:
    """An exposure time as cameras show it."""
    return "" if time is None else f"1/{1 / time:.0f} s" if time < 0.4 else f"{time:g} s"


def _positive(value: Any, most: float = 1e6) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return number if 0 < number < most else None


def _words(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    text = " ".join("".join(c if c.isprintable() else " " for c in value).split())[:100]
    return text or None
