"""PNG with 16 bits a channel, which Pillow writes for greyscale only."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from dofnerf.files.pictures import atomic

_COLOUR, _GREY = 2, 0  # PNG's colour types
_UP = 2  # PNG's filter: a row less the one above, which is next to nothing in a smooth picture


def write_deep_png(path: Path | str, image: np.ndarray) -> None:
    """Write display values 0..1, (H, W, 3) or grey (H, W), as 16-bit PNG."""
    values = (np.clip(image, 0.0, 1.0) * 65535.0 + 0.5).astype(">u2")
    height, width = values.shape[:2]
    rows = values.reshape(height, -1).view(np.uint8)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    filtered = np.concatenate([np.full((height, 1), _UP, np.uint8), rows - above], axis=1)
    kind = _COLOUR if image.ndim == 3 else _GREY
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b"")
    with atomic(Path(path)) as temporary:
        temporary.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
