"""SPZ, Niantic's compressed splats: columns of bytes, packed by gzip (versions 1 to 3) or zstd (4).

Positions are fixed-point numbers of 24 bits. Axes are right, up, back: y and z point the other way than in 3D Gaussian
Splatting, and are turned when files are read and written.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np

from dofnerf.files.extras import check_installed
from dofnerf.files.guard import read_bytes
from dofnerf.files.outputs import atomic
from dofnerf.files.ply import BASES, Drawing, Splats
from dofnerf.files.splats import (
    BOMB,
    FEW,
    SplatFormat,
    packed_quaternions,
    register,
    rounded,
    to_logits,
    to_opacities,
    unpacked_quaternions,
)

MAGIC = b"NGSP"
HEADER = struct.Struct("<4sIIBBBB")  # magic, version, splats, degree, bits after the point, flags, streams
ANTIALIASED = 1
COLOUR = 0.15
VERSION = 3  # that is written: all readers know it
# Signs of the harmonics, and of a quaternion (w, x, y, z), when y and z are turned round.
HALF_TURN = np.array([1, -1, -1, 1, -1, 1, 1, -1, 1, -1, 1, -1, -1, 1, -1, 1], np.float32)
TURNED = np.array([1, 1, -1, -1], np.float32)
_MEMBER = b"\x1f\x8b"


@register
class Spz(SplatFormat):
    """All four versions; the fourth needs zstandard."""

    name = "SPZ"
    suffixes = (".spz",)

    def detects(self, head: bytes) -> bool:
        return head[:2] == _MEMBER or head[:4] == MAGIC

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        data = read_bytes(path)
        stream = zlib.decompressobj(31) if data[:2] == _MEMBER else None
        head = data if stream is None else stream.decompress(data, HEADER.size)
        if len(head) < HEADER.size:
            raise ValueError("it is truncated")
        magic, version, count, degree, bits, flags, streams = HEADER.unpack_from(head)
        if magic != MAGIC or not 1 <= version <= 4 or (version == 4) != (stream is None):
            raise ValueError(f"its header is not that of SPZ 1 to 4 (version {version})")
        if degree >= len(BASES) or bits > 24:
            raise ValueError(f"harmonics of degree {degree}, {bits} bits after the point")
        kinds = BASES[degree] - 1
        sizes = [count * each for each in (6 if version == 1 else 9, 1, 3, 3, 3 if version < 3 else 4, 3 * kinds)]
        if sum(sizes) > max(FEW, BOMB * len(data)):
            raise ValueError(f"it claims {count} splats, which {len(data)} bytes cannot hold")
        if stream is None:
            columns = _zstd(data, sizes, streams)
        else:
            body = stream.decompress(stream.unconsumed_tail, sum(sizes)) if sum(sizes) else b""
            if len(body) < sum(sizes):
                raise ValueError("it is truncated")
            columns = [body[start:end] for start, end in pairwise(np.cumsum([0, *sizes]))]
        splats = _splats([np.frombuffer(column, np.uint8) for column in columns], version, count, kinds, bits)
        return splats, Drawing(antialiased=True) if flags & ANTIALIASED else None


def write_spz(path: Path, splats: Splats, drawing: Drawing | None = None) -> None:
    """Write version 3, with as many bits after the point as the farthest splat allows."""
    farthest = float(np.abs(splats.means).max())
    bits = int(np.clip(22 - np.ceil(np.log2(max(farthest, 1e-6))), 4, 20))
    means = splats.means.astype(np.float64) * [1, -1, -1]
    fixed = np.clip(np.rint(means * 2**bits), -(2**23), 2**23 - 1).astype("<i4")
    parts, largest = packed_quaternions((splats.rotations * TURNED)[:, [1, 2, 3, 0]])
    packed = largest.astype(np.int64)
    for i in range(3):
        size = rounded(np.abs(parts[:, i]) * 2**0.5 * 511, 511)
        packed = packed << 10 | (parts[:, i] < 0).astype(np.int64) << 9 | size
    rest = (splats.harmonics * HALF_TURN[: splats.harmonics.shape[1], None])[:, 1:]
    columns = [
        fixed.view(np.uint8).reshape(-1, 3, 4)[..., :3],
        rounded(to_opacities(splats.opacities) * 255, 255),
        rounded(splats.harmonics[:, 0] * (COLOUR * 255) + 127.5, 255),
        rounded((splats.log_scales + 10) * 16, 255),
        packed.astype("<u4").view(np.uint8),
        rounded(rest * 128 + 128, 255),
    ]
    flags = ANTIALIASED if drawing is not None and drawing.antialiased else 0
    body = HEADER.pack(MAGIC, VERSION, len(splats), splats.degree, bits, flags, 0)
    body += b"".join(column.astype(np.uint8).tobytes() for column in columns)
    with atomic(path) as temporary:
        temporary.write_bytes(gzip.compress(body, mtime=0))


def _splats(columns: list[np.ndarray], version: int, count: int, kinds: int, bits: int) -> Splats:
    places, solid, colour, sizes, turns, rest = columns
    if version == 1:
        means = places.view("<f2").astype(np.float32).reshape(count, 3)
    else:
        wide = np.zeros((count * 3, 4), np.uint8)
        wide[:, 1:] = places.reshape(-1, 3)
        means = ((wide.view("<i4")[:, 0] >> 8).astype(np.float64) / 2**bits).astype(np.float32).reshape(count, 3)
    if version < 3:
        xyz = turns.astype(np.float32).reshape(count, 3) / 127.5 - 1
        w = np.sqrt(np.maximum(1 - np.square(xyz).sum(1, keepdims=True), 0))
        rotations = np.concatenate([w, xyz], axis=1)
    else:
        packed = turns.view("<u4").astype(np.int64)
        parts = np.stack([packed >> shift & 1023 for shift in (20, 10, 0)], axis=1)
        parts = np.where(parts & 512, -1, 1) * (parts & 511) / (511 * 2**0.5)
        rotations = unpacked_quaternions(parts, packed >> 30)[:, [3, 0, 1, 2]]
    harmonics = np.empty((count, 1 + kinds, 3), np.float32)
    harmonics[:, 0] = (colour.reshape(count, 3) / np.float32(255) - 0.5) / COLOUR
    harmonics[:, 1:] = (rest.reshape(count, kinds, 3).astype(np.float32) - 128) / 128
    return Splats(
        means * np.array([1, -1, -1], np.float32),
        sizes.reshape(count, 3) / np.float32(16) - 10,
        rotations * TURNED,
        to_logits(solid / 255),
        harmonics * HALF_TURN[: 1 + kinds, None],
    )


def _zstd(data: bytes, sizes: list[int], streams: int) -> list[bytes]:
    """The columns of version 4, each compressed by itself."""
    check_installed("zstandard", "spz")
    import zstandard

    (table,) = struct.unpack_from("<I", data, HEADER.size)
    wanted = [i for i, size in enumerate(sizes) if size]
    if streams != len(wanted) or table < 32 or table + 16 * streams > len(data):
        raise ValueError("its table of contents does not fit")
    columns, start = [b""] * len(sizes), table + 16 * streams
    for entry, i in enumerate(wanted):
        packed, size = struct.unpack_from("<QQ", data, table + 16 * entry)
        if size != sizes[i] or start + packed > len(data):
            raise ValueError(f"its column {i} has another size than its splats need")
        try:
            reader = zstandard.ZstdDecompressor(max_window_size=FEW).stream_reader(data[start : start + packed])
            columns[i] = reader.read(size)  # no more, whatever it holds
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from None
        if len(columns[i]) != size:
            raise ValueError(f"its column {i} is truncated")
        start += packed
    return columns
