"""Damage files at random, reproducibly, and see what their readers make of them.

A reader may accept what it is given, or raise ValueError or OSError with one line that names the file. Anything else is
a finding, and so are two seconds of work or a gigabyte of memory for one small file.
"""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCALE = float(os.environ.get("DOFNERF_FUZZ", "1"))  # `make fuzz` has 10: 100 000 inputs
SECONDS, HANG, MEGABYTES = 2.0, 60, 1024

ODD_INTEGERS = (0, 1, 2, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63)
ODD_WORDS = (
    "0", "-1", "1e308", "-1e308", "1e-300", "nan", "inf", "-inf", "NaN", "Infinity", "9" * 25, "9" * 400,
    "-" + "9" * 400,
    "", " ", "\n", "\n\n\n", "\0", "null", "true", "[]", "{}", '"', "x" * 300, "é", "0x10", "1_000", "1,5", "-0.0",
    "..", "#",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    0, -1, 1, 1e308, -1e308, 10**400, -(10**400), 1e-300, 2**63, 2**31, float("nan"), float("inf"), -float("inf"), True,
    None,
    "", "x", "..", ".", "/etc/passwd", "../a.png", "a\0b", "a\nb", "x" * 2000, "\ud800", [], {}, [[]], [0], [None],
    ["x"],
    {"x": 1}, [1e308] * 3, [[0] * 4] * 4, [[float("nan")] * 4] * 3, {"aperture": 0, "focus_depth": 0},
    {"aperture": 10**400},
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """`seeds` are whole files, all called `file`, which `read(path)` reads; `share` of the inputs go to this one."""

    name: str
    file: str
    seeds: Sequence[bytes]
    read: Callable[[Path], object]
    share: int = 1
    named: str = ""  # what else an error may name instead: the folder of a scene
    whole: bool = True  # whether the seeds are accepted


def mutate(data: bytes, dice: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """One to four changes; JSON also by its values."""
    if data[:1] in (b"{", b"[") and dice.random() < 0.6:
        changed = _other_values(data, dice)
        if changed is not None:
            return changed
    if data[:4] == b"\x89PNG" and dice.random() < 0.7:
        return _other_chunks(data, dice)
    result = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        _change(result, dice, others)
    return bytes(result)


def _other_chunks(data: bytes, dice: random.Random) -> bytes:
    """A PNG with changes in one of its chunks, and checksums that fit."""
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    which, result = dice.randrange(len(chunks)), data[:8]
    for i, (name, content) in enumerate(chunks):
        if i == which:
            changed = bytearray(content)
            if name == b"IDAT" and dice.random() < 0.5:
                changed = bytearray(zlib.decompress(content))
            _change(changed, dice, ())
            content = zlib.compress(bytes(changed)) if name == b"IDAT" and dice.random() < 0.5 else bytes(changed)
        result += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return result


def _change(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> None:
    size = len(data)
    # Headers decide most, so half of all changes are made in the first 256 bytes.
    at = dice.randrange(min(size, 256) if dice.random() < 0.5 else size) if size else 0
    kind = dice.randrange(11)
    if kind == 0 and size:
        data[at] ^= 1 << dice.randrange(8)
    elif kind == 1 and size:
        data[at] = dice.randrange(256)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + dice.choice((1, 2, 4, 8, 64))]
    elif kind == 4:
        data[at:at] = bytes(dice.choice((0, 10, 0x20, 0x7F, 0xFF)) for _ in range(dice.choice((1, 4, 8, 100))))
    elif kind == 5:
        data[at : at + 8] = bytes([dice.choice((0, 0x7F, 0x80, 0xFF))] * 8)
    elif kind in (6, 7):
        form = dice.choice("<>") + dice.choice("BHIQ")
        value = dice.choice(ODD_INTEGERS) & ((1 << 8 * struct.calcsize(form)) - 1)
        data[at : at + struct.calcsize(form)] = struct.pack(form, value)
    elif kind == 8:
        form = dice.choice("<>") + dice.choice("fd")
        value = dice.choice((float("nan"), float("inf"), 1e30, -1e30, 0.0, 1e-40))
        data[at : at + struct.calcsize(form)] = struct.pack(form, value)
    elif kind == 9:
        data[at:at] = data[at : at + dice.choice((1, 8, 64, 1000))]  # twice
    elif others and dice.random() < 0.3:
        other = dice.choice(others)
        data[at:] = other[dice.randrange(len(other) + 1) :]
    else:
        _other_word(data, at, dice)


def _other_word(data: bytearray, at: int, dice: random.Random) -> None:
    """Replace the number or word around a place by an odd one."""
    inner = b" \t\r\n,:[]{}()\"'="
    first = last = at
    while first > 0 and data[first - 1] not in inner and at - first < 40:
        first -= 1
    while last < len(data) and data[last] not in inner and last - at < 40:
        last += 1
    data[first:last] = dice.choice(ODD_WORDS).encode()


def _other_values(data: bytes, dice: random.Random) -> bytes | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    for _ in range(dice.choice((1, 1, 2, 3))):
        spots = list(_spots(value))
        if not spots:
            break
        holder, key = dice.choice(spots)
        if isinstance(holder, dict) and dice.random() < 0.15:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(dice.choice(ODD_VALUES))  # the next change may be in it
    return json.dumps(value).encode()


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from _spots(inner)


def try_reader(reader: Reader, path: Path) -> bool:
    """Read one file: whether it was accepted; AssertionError for a finding."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(path)
        accepted = True
    except (ValueError, OSError) as error:
        text = str(error)
        assert type(error) is not UnicodeDecodeError, f"UnicodeDecodeError: {text}"
        assert len(text.splitlines()) == 1, f"not one line: {text!r}"
        assert reader.file.rpartition("/")[2] in text or (reader.named and reader.named in text), (
            f"names no file: {text}"
        )
        accepted = False
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    assert time.process_time() - start < SECONDS, f"took {time.process_time() - start:.1f} s"
    return accepted


def hammer(reader: Reader, folder: Path, count: int, seed: int = 0) -> int:
    """`count` mutated inputs; how many were accepted. AssertionError at the first finding, whose file is kept."""
    path = folder / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    for whole in reader.seeds:
        path.write_bytes(whole)
        assert try_reader(reader, path) or not reader.whole, f"{reader.name}: a seed is not accepted"
    accepted = 0
    with _limits(reader.name) as again:
        for i in range(count):
            again()
            dice = random.Random(f"{reader.name} {seed} {i}")
            path.write_bytes(mutate(dice.choice(reader.seeds), dice, reader.seeds))
            try:
                accepted += try_reader(reader, path)
            except AssertionError as finding:
                kept = path.read_bytes()
                raise AssertionError(f"{reader.name}, input {i}: {finding} (first bytes {kept[:60]!r})") from finding
    return accepted


@contextmanager
def _limits(name: str) -> Iterator[Callable[[], None]]:
    """Memory may not grow by a gigabyte, and nothing may wait for ever; call what this gives before each input."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"{name}: hangs")

    before, start = signal.signal(signal.SIGALRM, stop), _peak(reset=True)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, HANG) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    grown = _peak() - start
    assert grown < MEGABYTES, f"{name}: memory grew by {grown:.0f} MB"


def _peak(reset: bool = False) -> float:
    """The largest amount of memory that this process had, in MB; where Linux counts it, since the last reset."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        words = Path("/proc/self/status").read_text()
        return int(words.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
