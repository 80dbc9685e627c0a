"""Gaussians as a page carries them: quantised, in byte planes along a Morton curve, deflated.

Layout: length of the header (4 bytes, little endian), the header as JSON, and a zlib stream of the arrays in the order
of the header. Each column of an array is stored as `bytes` planes, the lowest bytes of all Gaussians first. A stored
whole number k means low + step · k, put through `curve` (exp, sinh, or none). Colours are stored as (green, red −
green, blue − green), whose differences are small.

The steps are as coarse as the eye and the photos allow: on the scene in the package the picture of the stored Gaussians
is within 50 dB of that of the original ones, which costs less than 0.1 dB against photos (tests/web/test_pack.py).
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

PLACE = 2.0**-15  # step of positions, in units of the scene's spread (in arcsinh, so that far ones are coarser)
SCALE = 0.03  # of log scales
TURN = 1 / 120  # of quaternions
SOLID = 1 / 200  # of opacities
BASE = 1 / 128  # of the harmonics' constant part: 1/450 of display white
DIRECTIONAL = 1 / 80  # of the others


@dataclass(frozen=True)
class Packed:
    """What the page shows: `means` (N, 3), `quaternions` (N, 4) unit (w, x, y, z), `scales` (N, 3) standard deviations,
    `opacities` (N,) 0 … 1, `harmonics` (N, K, 3)."""

    means: np.ndarray
    quaternions: np.ndarray
    scales: np.ndarray
    opacities: np.ndarray
    harmonics: np.ndarray


def pack(splats: Packed, scene: dict[str, Any]) -> bytes:
    """`scene` is JSON that the page gets along with the Gaussians."""
    keep = np.isfinite(splats.means).all(1) & (splats.opacities > 1 / 255)
    means = splats.means[keep].astype(np.float64)
    centre, unit = np.median(means, axis=0), max(float(np.median(np.abs(means - np.median(means, axis=0)))), 1e-12)
    places = np.arcsinh((means - centre) / unit)  # fine steps near the middle, far ones far out
    order = np.argsort(_morton(places), kind="stable")
    count = len(order)
    quaternions = splats.quaternions[keep] * np.where(splats.quaternions[keep][:, :1] < 0, -1, 1)
    kinds = splats.harmonics.shape[1]
    rest = splats.harmonics[keep][:, 1:].reshape(count, 3 * (kinds - 1))
    arrays = [
        _Array("places", places, PLACE, 3, "sinh"),
        _Array("scales", np.log(np.maximum(splats.scales[keep], 1e-30)), SCALE, 2, "exp"),
        _Array("quaternions", quaternions, TURN, 1),
        _Array("opacities", splats.opacities[keep][:, None], SOLID, 1),
        _Array("base", _differences(splats.harmonics[keep][:, 0]), BASE, 2),
    ]
    if kinds > 1:
        arrays.append(_Array("directional", _differences(rest), DIRECTIONAL, 1))
    stored = [array.stored(order) for array in arrays]
    header = {
        "count": count,
        "scene": scene | {"degree": round(kinds**0.5) - 1, "centre": centre.tolist(), "unit": unit},
        "arrays": [entry for entry, _ in stored],
    }
    words = json.dumps(header, allow_nan=False).encode()
    return len(words).to_bytes(4, "little") + words + zlib.compress(b"".join(data for _, data in stored), 9)


@dataclass(frozen=True)
class _Array:
    name: str
    values: np.ndarray
    step: float
    width: int  # bytes
    curve: str = ""

    def stored(self, order: np.ndarray) -> tuple[dict[str, Any], bytes]:
        """Header entry and byte planes, the Gaussians in `order`. Where so many bytes do not hold the range of a column
        in these steps, its outermost values are clipped, or, beyond a thousandth of them, the steps are larger."""
        values, top = self.values[order].astype(np.float64), 256**self.width - 1
        low, high = (values.min(0), values.max(0)) if len(values) else np.zeros((2, values.shape[1]))
        if len(values) and self.width == 1:
            ends = np.quantile(values, [0.0005, 0.9995], axis=0)
            wide = high - low > top * self.step
            low, high = np.where(wide, ends[0], low), np.where(wide, ends[1], high)
        step = np.maximum((high - low) / top, self.step)
        whole = np.clip(np.rint((values - low) / step), 0, top).astype(np.uint64)
        planes = [
            ((whole[:, c] >> (8 * b)) & 255).astype(np.uint8) for c in range(whole.shape[1]) for b in range(self.width)
        ]
        entry = {"name": self.name, "columns": whole.shape[1], "bytes": self.width, "curve": self.curve}
        return entry | {"low": low.tolist(), "step": step.tolist()}, b"".join(p.tobytes() for p in planes)


def _differences(colours: np.ndarray) -> np.ndarray:
    """Colours (N, 3 K) → green, red − green, blue − green of each."""
    red, green, blue = (colours[:, channel::3] for channel in range(3))
    return np.stack([green, red - green, blue - green], axis=-1).reshape(colours.shape)


def _morton(places: np.ndarray) -> np.ndarray:
    """Morton codes (N,) of points (N, 3), 16 bits each way."""
    low, high = places.min(0), places.max(0)
    whole = ((places - low) / np.maximum(high - low, 1e-12) * 65535).astype(np.uint64)
    code = np.zeros(len(places), np.uint64)
    for bit in range(16):
        for axis in range(3):
            code |= ((whole[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return code
