"""Photos as few programs write them: 16-bit TIFF, Radiance HDR, a camera's RAW (DNG), and colour profiles."""

import struct
from pathlib import Path

import numpy as np

ADOBE = (2.19921875, [[0.60974, 0.20528, 0.14919], [0.31111, 0.62567, 0.06322], [0.01947, 0.06087, 0.74457]])


def tiff(entries, strips, order="<"):
    """A TIFF: `entries` are (tag, kind, values), kind 2 text, 3 short, 4 long, 5 rational, 10 signed rational."""
    letters = {1: "B", 2: "s", 3: "H", 4: "I", 5: "II", 10: "ii"}
    entries = sorted([*entries, (273, 4, [0]), (279, 4, [len(strips)])])
    offset = 8 + 2 + 12 * len(entries) + 4
    table, beside = b"", b""
    places = {}
    for tag, kind, values in entries:
        if kind == 2:
            data, count = values.encode() + b"\0", len(values) + 1
        elif kind in (5, 10):
            pairs = [n for v in values for n in (round(v * 10_000), 10_000)]
            data, count = struct.pack(order + letters[kind][0] * len(pairs), *pairs), len(values)
        else:
            data, count = struct.pack(order + letters[kind] * len(values), *values), len(values)
        places[tag] = len(table)
        if len(data) > 4:
            place = struct.pack(order + "I", offset + len(beside))
            beside += data + b"\0" * (len(data) % 2)
            data = place
        table += struct.pack(order + "HHI", tag, kind, count) + data.ljust(4, b"\0")
    start = offset + len(beside)
    at = places[273] + 8
    table = table[:at] + struct.pack(order + "I", start) + table[at + 4 :]
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return head + struct.pack(order + "H", len(entries)) + table + struct.pack(order + "I", 0) + beside + strips


def deep_tiff(path: Path, values: np.ndarray, order="<", profile: bytes = b""):
    """(H, W, 3) uint16, uncompressed."""
    height, width = values.shape[:2]
    entries = [(256, 4, [width]), (257, 4, [height]), (258, 3, [16] * 3), (259, 3, [1]), (262, 3, [2]), (277, 3, [3])]
    if profile:
        entries.append((34675, 1, list(profile)))
    path.write_bytes(tiff([*entries, (278, 4, [height])], values.astype(f"{order}u2").tobytes(), order))


def dng(path: Path, linear: np.ndarray, neutral=(1.0, 1.0, 1.0), orientation=1):
    """A "linear DNG" of (H, W, 3) light 0..1 by a camera whose primaries are sRGB's, whose neutral grey is
    `neutral`."""
    height, width = linear.shape[:2]
    to_camera = np.linalg.inv([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    entries = [
        (254, 4, [0]), (256, 4, [width]), (257, 4, [height]), (258, 3, [16] * 3), (259, 3, [1]), (262, 3, [34892]),
        (271, 2, "Maker"), (272, 2, "Model 1"), (274, 3, [orientation]), (277, 3, [3]), (278, 4, [height]),
        (284, 3, [1]), (50706, 1, [1, 4, 0, 0]), (50707, 1, [1, 1, 0, 0]), (50708, 2, "Maker Model 1"),
        (50717, 4, [65535] * 3), (50721, 10, to_camera.ravel().tolist()), (50728, 5, list(neutral)), (50778, 3, [21]),
    ]  # fmt: skip
    values = np.round(np.clip(linear * neutral, 0, 1) * 65535).astype("<u2")
    path.write_bytes(tiff(entries, values.tobytes()))


def radiance(path: Path, linear: np.ndarray, coded=True):
    """Radiance RGBE of (H, W, 3) light, run-length coded or plain."""
    largest = linear.max(axis=-1)
    mantissa, exponent = np.frexp(largest)
    scale = np.where(largest > 1e-32, mantissa * 256 / np.maximum(largest, 1e-32), 0)
    lines = np.concatenate([linear * scale[..., None], (exponent + 128)[..., None] * (largest[..., None] > 1e-32)], -1)
    lines = lines.astype(np.uint8)
    height, width = largest.shape
    data = b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n" + f"-Y {height} +X {width}\n".encode()
    for row in lines:
        if not coded:
            data += row.tobytes()
            continue
        data += bytes([2, 2, width >> 8, width & 255])
        for channel in row.T:
            at = 0
            while at < width:
                run = next((k for k in range(1, min(127, width - at)) if channel[at + k] != channel[at]), 1)
                if run > 2:
                    data, at = data + bytes([128 + run, channel[at]]), at + run
                else:
                    data, at = data + bytes([1, channel[at]]), at + 1
    path.write_bytes(data)


def profile_of(gamma: float, primaries) -> bytes:
    """An ICC profile of three primaries (columns XYZ at D50) and a gamma."""

    def xyz(values):
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(v * 65536) for v in values))

    name = b"An RGB space"
    said = b"desc\0\0\0\0" + struct.pack(">I", len(name) + 1) + name + b"\0" + bytes(78)
    tags = {b"desc": said, b"wtpt": xyz([0.9642, 1.0, 0.8249]), b"cprt": b"text\0\0\0\0none\0"}
    for i, c in enumerate((b"r", b"g", b"b")):
        tags[c + b"XYZ"] = xyz([row[i] for row in primaries])
        tags[c + b"TRC"] = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    table, body, at = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += struct.pack(">4sII", name, at + len(body), len(data))
        body += data
    head = struct.pack(">I4sI4s4s4s", at + len(body), b"lcms", 0x02400000, b"mntr", b"RGB ", b"XYZ ")
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + table + body
