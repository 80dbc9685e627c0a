"""SOG, PlayCanvas's compressed splats, version 2: a zip file of meta.json and lossless WebP pictures, a pixel a splat.

Positions have 16 bits of sign(x) · log(1 + |x|), sizes and colours a byte each that chooses from 256 values, rotations
three parts of a byte. Harmonics above degree 0 are chosen from a palette of at most 65 536.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf.files.guard import number, parse_json, read_bytes, shown
from dofnerf.files.outputs import atomic
from dofnerf.files.ply import BASES, Drawing, Splats
from dofnerf.files.splats import (
    SplatFormat,
    drawing_of,
    packed_quaternions,
    plain_drawing,
    register,
    rounded,
    to_logits,
    to_opacities,
    unpacked_quaternions,
)

META = "meta.json"
CHOICES = 256
PALETTE = 1 << 16
ACROSS = 64  # entries of the palette in a row
LARGEST_META = 1 << 20
_ROUNDS = 12


@register
class Sog(SplatFormat):
    """A .sog file; the same as a loose folder is not read."""

    name = "SOG"
    suffixes = (".sog",)

    def detects(self, head: bytes) -> bool:
        return head[:2] == b"PK"

    def read(self, path: Path) -> tuple[Splats, Drawing | None]:
        data = read_bytes(path)
        archive = zipfile.ZipFile(io.BytesIO(data))
        meta = parse_json(_member(archive, META, LARGEST_META), META)
        if not isinstance(meta, dict) or meta.get("version") != 2:
            raise ValueError("its meta.json is not of version 2; save it again by a newer tool")
        count = meta.get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= len(data):
            raise ValueError(f"it claims {shown(count)} splats in {len(data)} bytes")

        def files(part: str, how_many: int) -> list[str]:
            names = _part(meta, part).get("files")
            if not isinstance(names, list) or len(names) < how_many or not all(isinstance(n, str) for n in names):
                raise ValueError(f"the files of {part} are {shown(names)}")
            return names

        def picture(name: str) -> np.ndarray:
            pixels = _picture(_member(archive, name, len(data)), name, 2 * count + 4096)
            if len(pixels) < count:
                raise ValueError(f"{name} has fewer pixels than there are splats")
            return pixels[:count]

        low, high = (picture(name)[:, :3].astype(np.float64) for name in files("means", 2)[:2])
        ends = [_numbers(_part(meta, "means").get(end), 3) for end in ("mins", "maxs")]
        logs = ends[0] + (low + 256 * high) / 65535 * (ends[1] - ends[0])
        with np.errstate(over="ignore"):  # infinity is refused later
            means = (np.sign(logs) * np.expm1(np.abs(logs))).astype(np.float32)
        turn = picture(files("quats", 1)[0])
        tag = turn[:, 3].astype(np.int64) - 252
        rotations = unpacked_quaternions((turn[:, :3] / 255.0 - 0.5) * 2**0.5, np.maximum(tag, 0))
        rotations[tag < 0] = (1, 0, 0, 0)
        sizes = _codebook(meta, "scales")[picture(files("scales", 1)[0])[:, :3]]
        colour = picture(files("sh0", 1)[0])
        base = _codebook(meta, "sh0")[colour[:, :3]]
        harmonics = base[:, None]
        if "shN" in meta:
            bands, entries = _part(meta, "shN").get("bands"), _part(meta, "shN").get("count")
            if bands not in (1, 2, 3) or not isinstance(entries, int) or not 0 < entries <= PALETTE:
                raise ValueError(f"{shown(bands)} bands in a palette of {shown(entries)}")
            kinds = BASES[bands] - 1
            names = files("shN", 2)
            rows = -(-entries // ACROSS)
            palette = _picture(
                _member(archive, names[0], len(data)), names[0], 2 * ACROSS * kinds * rows, ACROSS * kinds
            )
            palette = palette[:, :3].reshape(-1, kinds, 3)
            labels = picture(names[1])
            chosen = labels[:, 0].astype(np.int64) + 256 * labels[:, 1].astype(np.int64)
            if chosen.max() >= len(palette):
                raise ValueError("a splat chooses what the palette does not have")
            harmonics = np.concatenate([harmonics, _codebook(meta, "shN")[palette][chosen]], axis=1)
        splats = Splats(means, sizes, rotations, to_logits(colour[:, 3] / 255.0), harmonics)
        asset = meta.get("asset")
        ours = asset.get("dofnerf") if isinstance(asset, dict) else None
        return splats, drawing_of(ours, Drawing(antialiased=meta.get("antialias") is True))


def write_sog(path: Path, splats: Splats, drawing: Drawing) -> None:
    """Write version 2. With more than 65 536 splats of a degree above 0, the palette holds those nearest to all."""
    count = len(splats)
    width = -(-int(np.ceil(count**0.5)) // 4) * 4
    height = -(-count // (4 * width)) * 4
    logs = np.sign(splats.means) * np.log1p(np.abs(splats.means.astype(np.float64)))
    low, high = logs.min(0), logs.max(0)
    fixed = rounded((logs - low) / np.maximum(high - low, 1e-30) * 65535, 65535)
    parts, largest = packed_quaternions(splats.rotations)
    turn = np.concatenate([rounded((parts / 2**0.5 + 0.5) * 255, 255), 252 + largest[:, None]], axis=1)
    sizes, size_codes = _chosen(splats.log_scales)
    colours, colour_codes = _chosen(splats.harmonics[:, 0])
    solid = rounded(to_opacities(splats.opacities) * 255, 255)
    full = np.full((count, 1), 255)
    pictures = {
        "means_l.webp": np.concatenate([fixed & 255, full], axis=1),
        "means_u.webp": np.concatenate([fixed >> 8, full], axis=1),
        "quats.webp": turn,
        "scales.webp": np.concatenate([sizes, full], axis=1),
        "sh0.webp": np.concatenate([colours, solid[:, None]], axis=1),
    }
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": "dofnerf", "dofnerf": plain_drawing(drawing)},
        "count": count,
        "means": {"mins": low.tolist(), "maxs": high.tolist(), "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": size_codes.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colour_codes.tolist(), "files": ["sh0.webp"]},
    }
    shapes = dict.fromkeys(pictures, (height, width))
    kinds = splats.harmonics.shape[1] - 1
    if kinds:
        palette, labels = _palette(splats.harmonics[:, 1:].reshape(count, 3 * kinds))
        chosen, codes = _chosen(palette)
        meta["shN"] = {
            "count": len(palette), "bands": splats.degree, "codebook": codes.tolist(),
            "files": ["shN_centroids.webp", "shN_labels.webp"],
        }  # fmt: skip
        pixels = chosen.reshape(-1, 3)
        pictures["shN_centroids.webp"] = np.concatenate([pixels, np.full((len(pixels), 1), 255)], axis=1)
        pictures["shN_labels.webp"] = np.stack([labels & 255, labels >> 8, 0 * labels, 0 * labels + 255], axis=1)
        shapes |= {
            "shN_centroids.webp": (-(-len(palette) // ACROSS), ACROSS * kinds),
            "shN_labels.webp": (height, width),
        }
    with atomic(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(META, json.dumps(meta, allow_nan=False))
        for name, pixels in pictures.items():
            archive.writestr(name, _webp(pixels, *shapes[name]))


def _palette(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 65 536 rows, and for each row of `values` the number of the nearest."""
    if len(values) <= PALETTE:
        return values, np.arange(len(values))
    from scipy.spatial import cKDTree

    dice = np.random.default_rng(0)
    palette = values[dice.choice(len(values), PALETTE, replace=False)]
    for last in (False, True):
        _, labels = cKDTree(palette).query(values, workers=-1)
        if not last:
            sums = np.stack([np.bincount(labels, column, PALETTE) for column in values.T], axis=1)
            sizes = np.bincount(labels, minlength=PALETTE)[:, None]
            palette = np.where(sizes > 0, sums / np.maximum(sizes, 1), palette).astype(np.float32)
    return palette, labels


def _chosen(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """256 values that stand for all by least squares (Lloyd's algorithm), and the number of the nearest for each."""
    ordered = np.sort(values.ravel().astype(np.float64))
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    spread = np.linspace(ordered[0], ordered[-1], CHOICES)
    codes = np.sort(0.5 * spread + 0.5 * np.quantile(ordered, np.linspace(0, 1, CHOICES)))
    for _ in range(_ROUNDS):
        ends = np.concatenate([[0], np.searchsorted(ordered, (codes[1:] + codes[:-1]) / 2), [len(ordered)]])
        many = np.diff(ends)
        codes = np.sort(np.where(many > 0, np.diff(sums[ends]) / np.maximum(many, 1), codes))
    labels = np.searchsorted((codes[1:] + codes[:-1]) / 2, values.astype(np.float64))
    return labels, codes.astype(np.float32)


def _webp(pixels: np.ndarray, height: int, width: int) -> bytes:
    whole = np.zeros((height * width, 4), np.uint8)
    whole[: len(pixels)] = pixels
    file = io.BytesIO()
    Image.fromarray(whole.reshape(height, width, 4)).save(
        file, "WEBP", lossless=True, exact=True, quality=100, method=4
    )
    return file.getvalue()


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise ValueError(f"{shown(name)} is missing in it") from None
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile unpacks bzip2 and LZMA as a whole, however little is asked for
        raise ValueError(f"{shown(name)} in it is packed in a way that SOG does not know")
    with archive.open(entry) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{shown(name)} in it unpacks to more than {most} bytes")
    return data


def _picture(data: bytes, name: str, most: int, width: int | None = None) -> np.ndarray:
    """The pixels (P, 4) of a WebP of at most so many, row by row."""
    with Image.open(io.BytesIO(data), formats=["WEBP"]) as picture:
        if picture.width * picture.height > most or (width is not None and picture.width != width):
            raise ValueError(f"{shown(name)} has {picture.width} × {picture.height} pixels")
        return np.asarray(picture.convert("RGBA")).reshape(-1, 4)


def _part(meta: dict[str, Any], name: str) -> dict[str, Any]:
    part = meta.get(name)
    if not isinstance(part, dict):
        raise ValueError(f"{name} of its meta.json is {shown(part)}")
    return part


def _numbers(values: Any, count: int) -> np.ndarray:
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"expected {count} numbers, found {shown(values)}")
    return np.array([number(value, META) for value in values])


def _codebook(meta: dict[str, Any], name: str) -> np.ndarray:
    return _numbers(_part(meta, name).get("codebook"), CHOICES).astype(np.float32)
