"""A clockmaker's bench: gears, springs, tins with labels, a ruler; a pegboard with tools and little lamps behind."""

from __future__ import annotations

import numpy as np

from dofnerf.lab.synth import textures
from dofnerf.lab.synth.geometry import box, floor, gear, join, lathe, rectangle, sphere, tube
from dofnerf.lab.synth.layout import Layout, Material, Part
from dofnerf.lab.synth.props import wire_lantern

_WALL = -6.8
_LABELS = "OIL\nNo 3", "BRASS\nSCREWS", "WAX", "SPRINGS", "TEA", "PINS\n0.7 mm", "LENSES", "SHELLAC", "RIVETS", "POLISH"
_INKS = ((0.70, 0.18, 0.14), (0.14, 0.32, 0.48), (0.20, 0.44, 0.32), (0.84, 0.58, 0.20), (0.30, 0.24, 0.38))


def layout(rng: np.random.Generator) -> Layout:
    """Depth from 1.4 (a spring close by) to 7.9 (the board)."""
    parts = [*_room(rng), *_gears(rng), *_springs(), *_tins(rng), *_tools(rng), *_lamps(rng), *wire_lantern(-1.5, -4.6)]
    return Layout(
        parts=parts,
        sky=np.full((8, 16, 3), (0.42, 0.44, 0.50), dtype=np.float32),
        eye=(0.0, 1.1, 0.0),
        target=(0.0, 0.5, -3.3),
        spread=(0.42, 0.20, 0.12),
        near_focus=1.8,
        far_focus=6.0,
        lens_radius=0.064,
        near=1.1,
        far=8.8,
    )


def _room(rng: np.random.Generator) -> list[Part]:
    bench = Material(textures.planks(rng, (1024, 1024), 6, (0.78, 0.60, 0.38), (0.50, 0.33, 0.18)), "gloss", 0.3)
    y, x = np.mgrid[0:48, 0:48] - 23.5
    hole = np.tile((np.hypot(x, y) < 7).astype(float), (12, 20))
    board = textures.blend((0.74, 0.64, 0.48), (0.60, 0.50, 0.36), textures.noise(rng, 576, 960, (20, 40)))
    board = textures.blend(board, (0.10, 0.08, 0.06), hole)
    mat = textures.blend((0.14, 0.36, 0.30), (0.18, 0.42, 0.36), textures.noise(rng, 512, 512, (40, 40)))
    mat[::32] = mat[:, ::32] = (0.72, 0.80, 0.62)
    ruler = np.full((64, 1024, 3), (0.93, 0.84, 0.52))
    for tick in range(0, 1024, 8):
        ruler[: 40 if tick % 80 == 0 else 28 if tick % 40 == 0 else 16, tick : tick + 2] = 0.12
    return [
        Part(floor(7.0, 7.4).placed(z=-2.9), bench),
        Part(rectangle(10.0, 5.0, (1.6, 1.4)).placed(y=-0.8, z=_WALL), Material(board)),
        Part(floor(2.0, 1.5).placed(0.1, 0.004, -2.75, turn=6.0), Material(mat)),
        Part(box(1.6, 0.02, 0.1).placed(0.1, 0.0, -2.14, turn=-9.0), Material(ruler, "gloss", 0.3)),
        Part(rectangle(2.2, 2.2).placed(x=3.6, y=1.4, z=-0.6, turn=-62.0), Material((85.0, 74.0, 60.0), "light")),
    ]


def _gears(rng: np.random.Generator) -> list[Part]:
    """Brass, steel and painted wheels, flat and upright."""
    brushed = textures.noise(rng, 256, 256, (4, 128), 2)
    metals = [
        Material(textures.blend((0.95, 0.78, 0.42), (0.70, 0.50, 0.22), brushed), "metal", 0.22),
        Material(textures.blend((0.80, 0.80, 0.82), (0.50, 0.50, 0.54), brushed), "metal", 0.25),
        Material(textures.blend((0.88, 0.52, 0.36), (0.60, 0.30, 0.20), brushed), "metal", 0.22),
        Material(textures.blend((0.72, 0.20, 0.16), (0.58, 0.14, 0.12), brushed), "gloss", 0.2),
    ]
    parts = []
    upright = [(-0.62, -1.9, 0.2), (0.1, -2.6, 0.22), (0.62, -2.2, 0.17)]
    upright += [(-0.75, -3.1, 0.28), (1.0, -3.4, 0.34), (0.35, -4.2, 0.36)]
    for number, (x, z, radius) in enumerate(upright):
        wheel = gear(radius, 0.06, int(28 * radius / 0.3)).placed(roll=rng.uniform(0, 30), turn=rng.uniform(-30, 30))
        parts.append(Part(wheel.placed(x, radius, z), metals[number % 4]))
        parts.append(Part(box(0.1, 0.05, 0.22).placed(x, 0.0, z), metals[3]))
    for number in range(12):
        radius = rng.uniform(0.07, 0.16)
        wheel = gear(radius, 0.03, int(rng.integers(10, 22))).placed(tilt=-90.0, turn=rng.uniform(0, 360))
        parts.append(Part(wheel.placed(rng.uniform(-1.0, 1.1), 0.02, rng.uniform(-3.4, -1.8)), metals[number % 4]))
    return parts


def _springs() -> list[Part]:
    """Coils of thin wire, the closest one at the left edge of the picture."""
    steel, copper = Material((0.75, 0.76, 0.80), "metal", 0.2), Material((0.90, 0.55, 0.38), "metal", 0.2)
    coils = [(-0.62, -1.62, 0.09, 0.62, copper), (0.66, -1.7, 0.07, 0.4, steel), (-0.2, -3.3, 0.12, 0.8, steel)]
    parts = []
    for x, z, radius, tall, metal in coils:
        t = np.linspace(0.0, 1.0, 240)
        angle = 2 * np.pi * 9 * t
        path = np.stack([x + radius * np.cos(angle), tall * t + 0.01, z + radius * np.sin(angle)], axis=-1)
        parts.append(Part(tube(path, 0.009, 6), metal))
    return parts


def _tins(rng: np.random.Generator) -> list[Part]:
    parts = []
    tin = Material((0.80, 0.80, 0.78), "metal", 0.25)
    x = -2.7
    for number, label in enumerate(_LABELS):
        radius, tall = rng.uniform(0.19, 0.27), rng.uniform(0.5, 0.85)
        ink = _INKS[number % len(_INKS)]
        print_ = textures.printed((256, 300), label, (0.92, 0.87, 0.74), ink)
        print_[:22] = print_[-22:] = ink
        wrap = np.concatenate([print_, print_, print_], axis=1)
        z, turn = -5.6 + rng.normal(0, 0.1), rng.uniform(-80, -40)
        side = lathe([(radius, 0.0), (radius, tall)], 48)
        lid = lathe([(radius, tall), (radius * 0.96, tall + 0.02), (0.0, tall + 0.02)])
        parts.append(Part(side.placed(x + radius, 0.0, z, turn=turn), Material(wrap, "gloss", 0.2)))
        parts.append(Part(lid.placed(x + radius, 0.0, z), tin))
        x += 2 * radius + 0.08
    return parts


def _tools(rng: np.random.Generator) -> list[Part]:
    """Screwdrivers and files on the board, each in its loop."""
    steel = Material((0.70, 0.70, 0.72), "metal", 0.25)
    parts = []
    for number, x in enumerate(np.arange(-3.0, 3.1, 0.36)):
        handle = lathe([(0.0, 0.0), (0.05, 0.01), (0.07, 0.1), (0.055, 0.25), (0.065, 0.36), (0.03, 0.4), (0.0, 0.4)])
        y = 1.55 + 0.12 * float(np.sin(1.7 * number))
        grain = textures.wood(rng, (96, 96), _INKS[number % len(_INKS)], (0.16, 0.10, 0.08), 6)
        parts.append(Part(handle.placed(x, y, _WALL + 0.12), Material(grain, "gloss", 0.15)))
        parts.append(Part(join([box(0.03, 0.5, 0.03).placed(x, y - 0.5, _WALL + 0.12)]), steel))
    return parts


def _lamps(rng: np.random.Generator) -> list[Part]:
    """Pilot lights in a row on the board, below the tools, green, amber and red."""
    colours = ((0.6, 5.0, 1.0), (6.0, 3.0, 0.5), (6.0, 0.7, 0.5))
    bulbs = [
        [sphere(0.05, 12).placed(x, 1.12, _WALL + 0.1) for x in np.arange(-2.9 + 0.4 * k, 3.2, 1.2)] for k in range(3)
    ]
    return [Part(join(group), Material(colour, "light")) for group, colour in zip(bulbs, colours, strict=True)]
