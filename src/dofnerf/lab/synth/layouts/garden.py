"""A terrace by day: patterned tiles, pots and flowers, a mirror ball, a trellis with climbing leaves, a hedge wall
behind."""

from __future__ import annotations

import numpy as np

from dofnerf.lab.synth import textures
from dofnerf.lab.synth.geometry import box, floor, join, lathe, leaf, rectangle, sphere, tube
from dofnerf.lab.synth.layout import Layout, Material, Part
from dofnerf.lab.synth.props import fairy_lights, lattice, potted_plant, wire_lantern

_WALL = -8.6
_STRINGS = (((-3.6, 2.5), (0.3, 2.4), 0.4), ((0.3, 2.4), (3.8, 2.6), 0.45))


def layout(rng: np.random.Generator) -> Layout:
    """Depth from 1.4 (flowers close by) to 9.6 (the wall)."""
    parts = [*_ground(rng), *_trellis(rng), *_flowers(rng), *_centre(rng)]
    for x, z in ((-1.7, -3.6), (1.9, -4.6), (-2.3, -6.2), (2.6, -6.6)):
        parts += potted_plant(rng, x, z)
    parts += [*wire_lantern(1.15, -3.1), *fairy_lights(rng, _STRINGS, -6.9)]
    return Layout(
        parts=parts,
        sky=_sky(),
        eye=(0.0, 1.15, 0.0),
        target=(0.0, 0.55, -3.6),
        spread=(0.42, 0.20, 0.12),
        near_focus=1.9,
        far_focus=6.8,
        lens_radius=0.066,
        near=1.1,
        far=11.0,
    )


def _sky() -> np.ndarray:
    """Late sun from the upper left behind the camera, blue above, warm near the horizon."""
    row, column = np.mgrid[0:128, 0:256]
    up = np.cos(np.pi * (row + 0.5) / 128)
    sky = textures.blend((0.75, 0.70, 0.62), (0.32, 0.48, 0.80), np.clip(up * 1.6, 0, 1))
    sky = sky * np.where(up > 0, 1.0, 0.25)[..., None]
    sun = np.exp(-(((row - 36) / 7.0) ** 2) - ((column - 40) / 7.0) ** 2)
    return (0.9 * sky + sun[..., None] * np.array([85.0, 70.0, 50.0])).astype(np.float32)


def _ground(rng: np.random.Generator) -> list[Part]:
    paving = Material(textures.tiles(rng, 768, 6, (0.16, 0.36, 0.52), (0.90, 0.85, 0.74)), "gloss", 0.3)
    leaves = textures.noise(rng, 512, 1024, (60, 120), 3) * 2.2 - 0.6
    hedge = textures.blend((0.12, 0.26, 0.08), (0.48, 0.62, 0.22), leaves)
    stone = Material(textures.bricks(rng, (256, 512), 6, (0.66, 0.60, 0.50), (0.45, 0.42, 0.38)))
    return [
        Part(floor(9.6, 9.6, (5.0, 5.0)).placed(z=-4.0), paving),
        Part(rectangle(14.0, 6.0, (3.0, 2.0)).placed(y=-0.5, z=_WALL), Material(np.clip(hedge, 0, 1))),
        Part(box(9.0, 0.55, 0.4).placed(z=-7.6), stone),
    ]


def _trellis(rng: np.random.Generator) -> list[Part]:
    paint = Material(textures.wood(rng, (256, 64), (0.88, 0.86, 0.80), (0.66, 0.64, 0.58), 3))
    parts = [Part(lattice(2.6, 2.3, 0.3, 0.03).placed(x, 0.0, -7.0), paint) for x in (-1.4, 1.5)]
    for tone in range(2):
        green = textures.foliage(rng, (96, 64), (0.56, 0.72, 0.28 + 0.1 * tone), (0.20, 0.42, 0.16))
        leaves = []
        for _ in range(130):
            x, y = rng.uniform(-2.7, 2.8), 2.3 * rng.beta(1.2, 1.6)
            blade = leaf(rng.uniform(0.12, 0.22), rng.uniform(0.09, 0.15), rng.uniform(0.3, 1.4), steps=4)
            leaves.append(blade.placed(x, y, -6.93, turn=rng.uniform(-50, 50), roll=rng.uniform(0, 360)))
        parts.append(Part(join(leaves), Material(green, "gloss", 0.35)))
    return parts


def _flowers(rng: np.random.Generator) -> list[Part]:
    """Daisies and poppies on thin stems, close to the camera on both sides."""
    stem = Material((0.30, 0.48, 0.18))
    eye = Material((0.95, 0.72, 0.14))
    petals = (Material((0.95, 0.94, 0.90)), Material((0.84, 0.20, 0.14)), Material((0.62, 0.40, 0.74)))
    parts: list[Part] = []
    for number in range(16):
        side = -1.0 if number % 2 else 1.0
        x, z = side * rng.uniform(0.42, 1.15), -rng.uniform(1.6, 2.5)
        tall, lean = rng.uniform(0.35, 0.85), rng.normal(0.0, 0.08, 2)
        t = np.linspace(0.0, 1.0, 12)[:, None]
        path = np.array([x, 0.0, z]) + t * np.array([0.0, tall, 0.0]) + t**2 * np.array([lean[0], 0.0, lean[1]])
        parts.append(Part(tube(path, 0.006, 6), stem))
        tilt = rng.uniform(20, 75)
        ring = [leaf(0.085, 0.045, 0.5, steps=4).placed(tilt=70.0).placed(turn=30.0 * k) for k in range(12)]
        parts.append(Part(join(ring).placed(tilt=tilt).placed(*path[-1]), petals[int(rng.integers(len(petals)))]))
        parts.append(Part(sphere(0.024, 12).scaled(1.0, 0.6, 1.0).placed(tilt=tilt).placed(*path[-1]), eye))
        parts.append(Part(leaf(0.26, 0.05, 1.3).placed(x, 0.0, z, turn=rng.uniform(0, 360)), stem))
    return parts


def _centre(rng: np.random.Generator) -> list[Part]:
    """A mirror ball on a turned pedestal, and a printed watering can of tin."""
    veins = (textures.noise(rng, 256, 256, (5, 5), 5) - 0.45) * 4
    marble = textures.blend((0.90, 0.88, 0.84), (0.55, 0.54, 0.54), veins)
    profile = [(0.0, 0.0), (0.3, 0.0), (0.3, 0.06), (0.22, 0.1), (0.13, 0.2)]
    profile += [(0.11, 0.5), (0.16, 0.6), (0.24, 0.64), (0.24, 0.68), (0.0, 0.68)]
    label = textures.printed((192, 768), "GARDEN  No 7  GARDEN  No 7", (0.16, 0.42, 0.36), (0.92, 0.86, 0.66))
    can, lid = lathe([(0.17, 0.0), (0.17, 0.3)]), lathe([(0.17, 0.3), (0.14, 0.34), (0.0, 0.34)])
    enamel = Material((0.16, 0.42, 0.36), "gloss", 0.2)
    spout = tube(np.array([[-0.4, 0.08, -2.7], [-0.2, 0.25, -2.68], [-0.02, 0.42, -2.64]]), 0.022, 10)
    return [
        Part(lathe(profile).placed(0.1, 0.0, -4.3), Material(marble, "gloss", 0.2)),
        Part(sphere(0.3, 64).placed(0.1, 0.97, -4.3), Material((0.92, 0.93, 0.95), "metal", 0.06)),
        Part(can.placed(-0.55, 0.0, -2.7, turn=-60.0), Material(label, "gloss", 0.2)),
        Part(lid.placed(-0.55, 0.0, -2.7), enamel),
        Part(spout, enamel),
    ]
