"""Things that several layouts use. Positions are (x, z) on the ground, or as said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dofnerf.lab.synth import textures
from dofnerf.lab.synth.geometry import Mesh, box, join, lathe, leaf, sphere, tube
from dofnerf.lab.synth.materials import Material, Part

_POT = (
    (0.0, 0.0),
    (0.17, 0.0),
    (0.19, 0.04),
    (0.25, 0.34),
    (0.27, 0.36),
    (0.27, 0.40),
    (0.24, 0.40),
    (0.22, 0.36),
    (0.0, 0.35),
)
_GLOW = ((6.0, 2.7, 0.45), (5.0, 3.7, 2.1), (6.0, 2.7, 0.45), (0.5, 3.0, 3.2), (6.0, 2.7, 0.45), (5.0, 0.9, 1.3))


def potted_plant(rng: np.random.Generator, x: float, z: float, ground: float = 0.0) -> list[Part]:
    """A clay pot with 42 long thin leaves, about 1.3 high."""
    clay = Material(
        textures.blend((0.72, 0.40, 0.26), (0.55, 0.28, 0.18), textures.noise(rng, 128, 256, (8, 16)) * 2 - 0.5)
    )
    parts = [Part(lathe(_POT).placed(x, ground, z), clay)]
    for tone in range(3):
        green = textures.foliage(rng, (256, 96), (0.50 + 0.08 * tone, 0.70, 0.26), (0.16, 0.40 + 0.05 * tone, 0.14))
        blades = [
            leaf(rng.uniform(0.7, 1.1), rng.uniform(0.07, 0.13), rng.uniform(0.6, 2.2)).placed(
                x + rng.normal(0, 0.06),
                ground + 0.34,
                z + rng.normal(0, 0.06),
                turn=rng.uniform(0, 360),
                tilt=rng.uniform(0, 18),
            )
            for _ in range(14)
        ]
        parts.append(Part(join(blades), Material(green, "gloss", 0.3)))
    return parts


def wire_lantern(x: float, z: float, ground: float = 0.0) -> list[Part]:
    """A wire cage around a glowing bulb, 0.8 high: thin structure in front of light."""
    iron = Material((0.20, 0.19, 0.18), "metal", 0.3)
    height = np.linspace(0.0, 1.0, 40)
    radius = 0.06 + 0.22 * np.sin(np.pi * np.clip(0.1 + 0.86 * height, 0, 1)) ** 0.7
    wires = []
    for k in range(12):
        for twist in (-1.0, 1.0):
            angle = 2 * np.pi * k / 12 + twist * 2.2 * height
            wires.append(
                tube(
                    np.stack([radius * np.cos(angle), 0.06 + 0.72 * height, radius * np.sin(angle)], axis=-1), 0.009, 6
                )
            )
    base = lathe([(0.0, 0.0), (0.16, 0.0), (0.16, 0.05), (0.05, 0.07), (0.0, 0.07)])
    return [
        Part(join(wires).placed(x, ground, z), iron),
        Part(base.placed(x, ground, z), iron),
        Part(sphere(0.075, 24).placed(x, ground + 0.42, z), Material((4.0, 2.2, 0.8), "light")),
    ]


def fairy_lights(
    rng: np.random.Generator, strings: Sequence[tuple[tuple[float, float], tuple[float, float], float]], z: float
) -> list[Part]:
    """Strings of coloured bulbs in the plane `z`; each string is (left end (x, y), right end (x, y), sag)."""
    wire = Material((0.08, 0.12, 0.08))
    parts: list[Part] = []
    bulbs: list[list[Mesh]] = [[] for _ in _GLOW]
    for start, end, sag in strings:
        t = np.linspace(0.0, 1.0, 60)
        x = start[0] + (end[0] - start[0]) * t
        y = start[1] + (end[1] - start[1]) * t - sag * 4 * t * (1 - t)
        path = np.stack([x, y, np.full_like(x, z)], axis=-1)
        parts.append(Part(tube(path, 0.012, 6), wire))
        for number, point in enumerate(path[3::6]):
            bulbs[number % len(_GLOW)].append(sphere(0.06, 16).placed(*(point + rng.normal(0, 0.01, 3) - [0, 0.07, 0])))
    return parts + [
        Part(join(group), Material(colour, "light")) for group, colour in zip(bulbs, _GLOW, strict=True) if group
    ]


def lattice(width: float, height: float, pitch: float, bar: float) -> Mesh:
    """A diagonal wooden trellis, upright, centred in x, with a frame; bars `bar` wide, `pitch` apart."""
    slats = []
    for side in (-1.0, 1.0):
        for offset in np.arange(-height - width / 2, width / 2 + height, pitch):
            # The line x = offset + side·y (mirrored for the other direction), cut to the frame.
            low, high = sorted(np.clip(np.array([-width / 2, width / 2]) * side - offset, 0.0, height))
            if high - low > 0.02:
                length = float(high - low) * np.sqrt(2.0)
                slat = box(bar, length, bar * 0.6).placed(roll=-45.0 * side)
                slats.append(slat.placed(side * (offset + low), low, 0.01 * side))
    frame = [box(bar * 2, height, bar * 1.5).placed(x=x) for x in (-width / 2, width / 2)]
    frame += [box(width, bar * 2, bar * 1.5).placed(y=y) for y in (0.0, height)]
    return join([*slats, *frame])
