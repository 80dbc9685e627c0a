"""Focus brackets: photos that were taken from one place. Run in pycolmap's process; imports nothing of ours.

Two photos are of one place if a similarity close to the identity (a lens breathes as it focuses) maps the features of
one to those of the other: from two places, near things would move against far ones. Where EXIF has both times, they
were also taken by one body within `_SECONDS`. Photos of one sub-folder are of one place without further ado.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

_SECONDS = 30.0  # between one photo of a bracket and the next
_FEWEST = 20  # matches
_BREATHES, _SHIFT, _TURN = 0.12, 0.03, 0.01  # change of scale; shift as a share of the width; radians
_OFF = 8e-4  # of the width: how far off the similarity a match is, in the median; 4 in 5 within 3 times that


def is_one_place(one: np.ndarray, other: np.ndarray, width: float) -> bool:
    """Whether matched features (N, 2) of two photos, from their middles and in pixels, say so."""
    if len(one) < _FEWEST:
        return False
    a, b = one[:, 0] + 1j * one[:, 1], other[:, 0] + 1j * other[:, 1]
    weight, off = np.ones(len(a)), np.zeros(len(a))
    factor, shift = 1 + 0j, 0j
    for _ in range(5):  # reweighted, since some matches are wrong
        total = weight.sum()
        mean_a, mean_b = (weight * a).sum() / total, (weight * b).sum() / total
        spread = (weight * np.abs(a - mean_a) ** 2).sum()
        if not spread > 0:
            return False
        factor = (weight * np.conj(a - mean_a) * (b - mean_b)).sum() / spread
        shift = mean_b - factor * mean_a
        off = np.abs(factor * a + shift - b)
        weight = 1 / (1 + (off / (_OFF * width)) ** 2)
    middle, most = np.quantile(off, [0.5, 0.8])
    near_identity = abs(abs(factor) - 1) < _BREATHES and abs(np.angle(factor)) < _TURN and abs(shift) < _SHIFT * width
    return bool(near_identity and middle < _OFF * width and most < 3 * _OFF * width)


def find_brackets(
    names: list[str], pairs: Iterable[tuple[str, str]], places: dict[str, str], same: Callable[[str, str], bool]
) -> list[list[str]]:
    """Names of photos in sets of two or more: those of one entry in `places`, and those linked by pairs of which `same`
    is true."""
    first = {name: name for name in names}

    def root(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    known: dict[str, str] = {}
    for name in names:
        if name in places:
            first[root(name)] = root(known.setdefault(places[name], name))
    for one, other in pairs:
        if one in first and other in first and one not in places and other not in places and same(one, other):
            first[root(other)] = root(one)
    sets: dict[str, list[str]] = {}
    for name in names:
        sets.setdefault(root(name), []).append(name)
    return [members for members in sets.values() if len(members) > 1]


def is_one_burst(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether EXIF (`camera`, `taken` in seconds) does not speak against it."""
    if None in (one["taken"], other["taken"]):
        return True
    return one["camera"] == other["camera"] and abs(one["taken"] - other["taken"]) <= _SECONDS


def write_rigs(folder: Path, brackets: list[list[str]]) -> int:
    """Change the text model in `folder`, in which each image has a camera of its own number: the images of a bracket
    become one rig whose cameras stand in one place. Those without a pose get the others'. Returns how many got one."""
    images = rows_of(folder / "images.txt")
    posed = {words[9]: words for words in (line.split(maxsplit=9) for line in images[::2])}
    cameras = {line.split()[0]: line.split()[1:] for line in rows_of(folder / "cameras.txt")}
    number, added = max(int(words[0]) for words in posed.values()), 0
    rigs, frames, grouped = [], [], set()
    for members in brackets:
        known = [posed[name] for name in members if name in posed]
        if not known:
            continue
        chosen = max(known, key=lambda words: len(images[2 * list(posed).index(words[9]) + 1].split()))
        for name in members:
            if name not in posed:
                number, added = number + 1, added + 1
                cameras[str(number)] = cameras[chosen[8]]
                posed[name] = [str(number), *chosen[1:8], str(number), name]
                images += [" ".join(posed[name]), ""]
        own = [posed[name] for name in members]
        grouped |= set(members)
        still = " ".join(f"CAMERA {words[8]} 1 1 0 0 0 0 0 0" for words in own[1:])
        rigs.append(f"{chosen[0]} {len(own)} CAMERA {own[0][8]} {still}")
        data = " ".join(f"CAMERA {words[8]} {words[0]}" for words in own)
        frames.append(f"{chosen[0]} {chosen[0]} {' '.join(chosen[1:8])} {len(own)} {data}")
    for name, words in posed.items():
        if name not in grouped:
            rigs.append(f"{words[0]} 1 CAMERA {words[8]}")
            frames.append(f"{words[0]} {words[0]} {' '.join(words[1:8])} 1 CAMERA {words[8]} {words[0]}")
    listed = {"images.txt": images, "rigs.txt": rigs, "frames.txt": frames}
    listed["cameras.txt"] = [" ".join([key, *rest]) for key, rest in cameras.items()]
    for file, lines in listed.items():
        (folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return added


def rows_of(path: Path) -> list[str]:
    """The lines of a text model's file, without comments."""
    return [line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("#")][:-1]
