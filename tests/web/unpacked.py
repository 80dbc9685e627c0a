"""The packed scene of a page read in Python, as walk/unpack.js does."""

from __future__ import annotations

import json
import zlib

import numpy as np
import torch

from dofnerf.models.splat.raster import Gaussians


def unpacked(data: bytes) -> Gaussians:
    length = int.from_bytes(data[:4], "little")
    header, body = json.loads(data[4 : 4 + length]), zlib.decompress(data[4 + length :])
    count, at, read = header["count"], 0, {}
    for entry in header["arrays"]:
        columns = []
        for low, step in zip(entry["low"], entry["step"], strict=True):
            planes = np.frombuffer(body, np.uint8, count * entry["bytes"], at).reshape(entry["bytes"], count)
            whole = sum(plane.astype(np.int64) << (8 * b) for b, plane in enumerate(planes))
            columns.append({"exp": np.exp, "sinh": np.sinh, "": lambda x: x}[entry["curve"]](low + step * whole))
            at += planes.size
        read[entry["name"]] = np.stack(columns, axis=-1)
    scene = header["scene"]
    means = np.array(scene["centre"]) + scene["unit"] * read["places"]
    parts = np.concatenate([read["base"], read.get("directional", np.zeros((count, 0)))], axis=1)
    green, red, blue = (parts[:, channel::3] for channel in range(3))
    harmonics = np.stack([green + red, green, green + blue], axis=-1)
    solid = read["opacities"][:, 0].clip(1e-4, 1 - 1e-4)
    arrays = means, np.log(read["scales"]), read["quaternions"], np.log(solid / (1 - solid)), harmonics
    return Gaussians(*(torch.from_numpy(np.ascontiguousarray(array)).float() for array in arrays))
