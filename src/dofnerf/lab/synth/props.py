"""Objects that layouts are furnished with: plants, lanterns, lights, a trellis; chess pieces, turned on a lathe.

Positions are (x, z) on the ground, or as said. Chess pieces stand on y = 0 with a base radius near 0.09.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dofnerf.lab.synth import textures
from dofnerf.lab.synth.geometry import Mesh, box, join, lathe, leaf, loft, smooth_curve, sphere, tube
from dofnerf.lab.synth.layout import Material, Part

_POT = [(0.0, 0.0), (0.17, 0.0), (0.19, 0.04), (0.25, 0.34), (0.27, 0.36)]
_POT += [(0.27, 0.40), (0.24, 0.40), (0.22, 0.36), (0.0, 0.35)]
_GLOW = ((6.0, 2.7, 0.45), (5.0, 3.7, 2.1), (6.0, 2.7, 0.45), (0.5, 3.0, 3.2), (6.0, 2.7, 0.45), (5.0, 0.9, 1.3))


def potted_plant(rng: np.random.Generator, x: float, z: float, ground: float = 0.0) -> list[Part]:
    """A clay pot with 42 long thin leaves, about 1.3 high."""
    clay = textures.blend((0.72, 0.40, 0.26), (0.55, 0.28, 0.18), textures.noise(rng, 128, 256, (8, 16)) * 2 - 0.5)
    parts = [Part(lathe(_POT).placed(x, ground, z), Material(clay))]
    for tone in range(3):
        green = textures.foliage(rng, (256, 96), (0.50 + 0.08 * tone, 0.70, 0.26), (0.16, 0.40 + 0.05 * tone, 0.14))
        blades = []
        for _ in range(14):
            blade = leaf(rng.uniform(0.7, 1.1), rng.uniform(0.07, 0.13), rng.uniform(0.6, 2.2))
            at_x, at_z = x + rng.normal(0, 0.06), z + rng.normal(0, 0.06)
            blades.append(blade.placed(at_x, ground + 0.34, at_z, turn=rng.uniform(0, 360), tilt=rng.uniform(0, 18)))
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
            path = np.stack([radius * np.cos(angle), 0.06 + 0.72 * height, radius * np.sin(angle)], axis=-1)
            wires.append(tube(path, 0.009, 6))
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
    lit = [(group, colour) for group, colour in zip(bulbs, _GLOW, strict=True) if group]
    return parts + [Part(join(group), Material(colour, "light")) for group, colour in lit]


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


_BASE = [(0.0, 0.0), (0.095, 0.0), (0.1, 0.012), (0.098, 0.03), (0.088, 0.036), (0.084, 0.05), (0.062, 0.066)]


def pawn() -> Mesh:
    """0.27 high."""
    neck = [(0.040, 0.10), (0.032, 0.15), (0.034, 0.165), (0.058, 0.172), (0.058, 0.180), (0.034, 0.186)]
    return lathe([*_BASE, *neck, (0.050, 0.205), (0.055, 0.228), (0.045, 0.252), (0.022, 0.268), (0.0, 0.272)])


def rook() -> Mesh:
    """0.31 high, with a notched crown."""
    body = [(0.052, 0.11), (0.046, 0.19), (0.05, 0.21), (0.072, 0.222), (0.074, 0.24), (0.074, 0.27), (0.045, 0.272)]
    merlon = box(0.03, 0.04, 0.024).placed(y=0.268, z=0.06)
    return join([lathe([*_BASE, *body, (0.0, 0.262)]), *(merlon.placed(turn=60.0 * k) for k in range(6))])


def bishop() -> Mesh:
    """0.40 high."""
    body = [
        (0.042, 0.12),
        (0.030, 0.20),
        (0.032, 0.225),
        (0.060, 0.235),
        (0.060, 0.246),
        (0.034, 0.254),
        (0.048, 0.285),
    ]
    head = [(0.053, 0.31), (0.046, 0.34), (0.026, 0.37), (0.010, 0.378), (0.018, 0.388), (0.014, 0.402), (0.0, 0.406)]
    return lathe([*_BASE, *body, *head])


def queen() -> Mesh:
    """0.49 high, with a beaded crown."""
    body = [(0.046, 0.13), (0.034, 0.24), (0.036, 0.275), (0.066, 0.285), (0.066, 0.297), (0.040, 0.306), (0.044, 0.34)]
    crown = [(0.070, 0.415), (0.074, 0.425), (0.050, 0.425), (0.032, 0.445), (0.012, 0.456), (0.0, 0.458)]
    beads = [sphere(0.014, 12).placed(y=0.43, z=0.066).placed(turn=40.0 * k) for k in range(9)]
    return join([lathe([*_BASE, *body, *crown]), *beads, sphere(0.02, 12).placed(y=0.47)])


def king() -> Mesh:
    """0.56 high, with a cross."""
    body = [(0.048, 0.13), (0.036, 0.26), (0.038, 0.295), (0.070, 0.305), (0.070, 0.318), (0.042, 0.327), (0.046, 0.36)]
    crown = [(0.068, 0.435), (0.066, 0.448), (0.036, 0.462), (0.012, 0.470), (0.0, 0.472)]
    cross = [box(0.024, 0.095, 0.02).placed(y=0.465), box(0.07, 0.024, 0.02).placed(y=0.51)]
    return join([lathe([*_BASE, *body, *crown]), *cross])


def knight() -> Mesh:
    """0.38 high: a lathed foot under a lofted head that looks towards +x."""
    foot = lathe([*_BASE, (0.05, 0.08), (0.066, 0.088), (0.066, 0.1), (0.0, 0.104)])
    # height, back of the head, front of the head, half thickness
    profile = [(0.10, -0.055, 0.050, 0.054), (0.16, -0.075, 0.030, 0.052), (0.21, -0.080, 0.030, 0.048)]
    profile += [(0.235, -0.078, 0.070, 0.046), (0.255, -0.074, 0.105, 0.042), (0.285, -0.066, 0.105, 0.042)]
    profile += [(0.31, -0.056, 0.070, 0.036), (0.335, -0.045, 0.032, 0.03), (0.36, -0.035, 0.005, 0.016)]
    profile += [(0.385, -0.026, -0.014, 0.004)]
    height, back, front, thick = smooth_curve(np.array(profile), 4).T
    head = loft(height, np.stack([(front - back) / 2, thick], axis=-1), (front + back) / 2)
    return join([foot, head])
