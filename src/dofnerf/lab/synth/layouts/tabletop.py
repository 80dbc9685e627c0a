"""A game of chess on a wooden table, in window light; books, a globe and fairy lights on a brick wall behind."""

from __future__ import annotations

import numpy as np

from dofnerf.lab.synth import props, textures
from dofnerf.lab.synth.geometry import Mesh, box, floor, join, lathe, rectangle, sphere, tube
from dofnerf.lab.synth.layout import Layout, Material, Part
from dofnerf.lab.synth.props import fairy_lights, potted_plant, wire_lantern

_WALL = -7.4
_SQUARE = 0.235
_BOARD_CENTRE = (0.0, -2.75)
# Each string: left end (x, y), right end, and how far it sags.
_STRINGS = (((-4.0, 2.3), (0.2, 2.25), 0.55), ((0.2, 2.25), (4.2, 2.35), 0.6), ((-3.2, 2.0), (3.4, 1.9), 0.35))
_TITLES = (
    "THIN LENSES", "BOKEH", "RAYS & WAVES", "ENDGAMES", "A SHARP EYE", "DEPTH", "LIGHT FIELDS", "GLASS", "APERTURES",
    "THE FOCAL PLANE", "CIRCLES OF\nCONFUSION", "PINHOLES", "OPENINGS", "PRISMS", "ATLAS", "GAUSS", "PARALLAX",
    "SNELL'S LAW",
    "NEAR & FAR", "MIDGAME",
)  # fmt: skip
_COVERS = (
    (0.62, 0.16, 0.14), (0.13, 0.27, 0.42), (0.85, 0.68, 0.30), (0.16, 0.38, 0.30), (0.87, 0.82, 0.72),
    (0.33, 0.17, 0.29), (0.80, 0.42, 0.18), (0.22, 0.22, 0.25), (0.36, 0.56, 0.62), (0.55, 0.60, 0.32),
)  # fmt: skip


def layout(rng: np.random.Generator) -> Layout:
    """Depth from 1.4 (chessmen close by) to 8.5 (the wall)."""
    parts = [*_room(rng), *_board(rng), *_foreground(rng), *_grasses(rng), *_books(rng), *_globe(rng)]
    parts += [*potted_plant(rng, -1.45, -4.0), *wire_lantern(1.62, -4.1)]
    parts += fairy_lights(rng, _STRINGS, _WALL + 0.12)
    return Layout(
        parts=parts,
        sky=_sky(),
        eye=(0.0, 1.05, 0.0),
        target=(0.0, 0.42, -3.4),
        spread=(0.42, 0.20, 0.12),
        near_focus=1.9,
        far_focus=6.2,
        lens_radius=0.066,
        near=1.2,
        far=9.0,
    )


def _sky() -> np.ndarray:
    """Soft room light: warm from above, cooler at the sides; one broad glow behind the camera for reflections."""
    up = np.linspace(1.0, -1.0, 64)[:, None, None]
    sky = np.array([0.50, 0.55, 0.66]) * (0.55 + 0.45 * up) * np.ones((64, 128, 1))
    return sky.astype(np.float32)


def _room(rng: np.random.Generator) -> list[Part]:
    table = Material(textures.planks(rng, (1536, 1024), 7, (0.66, 0.44, 0.26), (0.34, 0.19, 0.10)), "gloss", 0.25)
    wall = Material(textures.bricks(rng, (768, 1024), 20, (0.60, 0.36, 0.28), (0.74, 0.70, 0.64)))
    runner_colours = [(0.78, 0.72, 0.60), (0.16, 0.30, 0.40), (0.70, 0.26, 0.18), (0.86, 0.66, 0.30)]
    runner = Material(textures.weave(rng, (512, 1024), 128, runner_colours))
    window = Material((50.0, 40.5, 30.0), "light")
    return [
        Part(floor(6.6, 7.6).placed(z=-2.7), table),
        Part(rectangle(11.0, 6.0, (2.0, 1.5)).placed(y=-1.5, z=_WALL), wall),
        Part(floor(5.4, 0.9).placed(y=0.004, z=-4.75, turn=3.0), runner),
        Part(rectangle(2.4, 2.6).placed(x=-4.2, y=1.2, z=-0.4, turn=68.0), window),
    ]


def _board(rng: np.random.Generator) -> list[Part]:
    size = 9 * _SQUARE
    x0, z0 = _BOARD_CENTRE
    board = Material(textures.chessboard(rng), "gloss", 0.12)
    edge = Material((0.25, 0.12, 0.07), "gloss", 0.2)
    box_wood = Material(textures.wood(rng, (256, 256), (0.96, 0.83, 0.60), (0.80, 0.58, 0.34), 5), "gloss", 0.12)
    rose_wood = Material(textures.wood(rng, (256, 256), (0.42, 0.15, 0.09), (0.16, 0.05, 0.04), 12), "gloss", 0.14)
    turn = 8.0
    white = {"a1": props.rook, "d1": props.queen, "g1": props.king, "f1": props.rook, "f3": props.knight,
    "c4": props.bishop,
             "c3": props.knight, "a2": props.pawn, "b2": props.pawn, "e4": props.pawn, "d3": props.pawn,
             "g2": props.pawn,
             "h2": props.pawn, "f2": props.pawn}  # fmt: skip
    black = {"a8": props.rook, "d7": props.queen, "g8": props.king, "f8": props.rook, "f6": props.knight,
    "c5": props.bishop,
             "b6": props.pawn, "a7": props.pawn, "e5": props.pawn, "d6": props.pawn, "h6": props.pawn, "g7": props.pawn,
             "c7": props.knight}  # fmt: skip
    parts = [
        Part(floor(size, size).placed(x0, 0.062, z0, turn=turn), board),
        Part(box(size, 0.06, size).placed(x0, 0.0, z0, turn=turn), edge),
    ]
    for men, material, facing in ((white, box_wood, 90.0), (black, rose_wood, -90.0)):
        for square, make in men.items():
            x = (ord(square[0]) - ord("a") - 3.5) * _SQUARE + rng.normal(0.0, 0.012)
            z = -(int(square[1]) - 4.5) * _SQUARE + rng.normal(0.0, 0.012)
            aside = 65.0 if make is props.knight else 0.0  # a knight is a knight in profile
            man = make().placed(x, 0.063, z, turn=facing + aside + rng.normal(0.0, 14.0))
            parts.append(Part(_on_board(man, turn), material))
    return parts


def _on_board(mesh: Mesh, turn: float) -> Mesh:
    x0, z0 = _BOARD_CENTRE
    return mesh.placed(turn=turn).placed(x=x0, z=z0)


def _foreground(rng: np.random.Generator) -> list[Part]:
    """A painted cup, pieces taken, a hand of cards."""
    glaze = textures.tiles(rng, 512, 4, (0.10, 0.22, 0.50), (0.93, 0.92, 0.87))
    glaze = np.concatenate([glaze, glaze, glaze], axis=1)
    cup = [(0.0, 0.0), (0.1, 0.0), (0.12, 0.02), (0.17, 0.1), (0.19, 0.2)]
    cup += [(0.2, 0.29), (0.192, 0.3), (0.182, 0.29), (0.17, 0.2), (0.0, 0.19)]
    angle = np.linspace(-1.9, 1.9, 24)
    handle = np.stack([0.17 + 0.1 * np.cos(angle), 0.17 + 0.09 * np.sin(angle), 0 * angle], axis=-1)
    rose_wood = Material(textures.wood(rng, (256, 256), (0.42, 0.15, 0.09), (0.16, 0.05, 0.04), 12), "gloss", 0.14)
    porcelain = Material(glaze, "gloss", 0.12)
    parts = [
        Part(lathe(cup, 48).placed(0.92, 0.0, -2.0, turn=40.0), porcelain),
        Part(tube(handle, 0.02, 10).placed(0.92, 0.0, -2.0, turn=-20.0), Material((0.93, 0.92, 0.87), "gloss", 0.12)),
        Part(props.pawn().placed(1.2, 0.0, -2.62), rose_wood),
        Part(props.bishop().placed(-1.24, 0.0, -2.75), rose_wood),
        Part(props.pawn().placed(-1.2, 0.0, -2.42), rose_wood),
    ]
    hand = [("A", "spade"), ("Q", "heart"), ("7", "diamond"), ("K", "spade")]
    for number, (rank, suit) in enumerate(hand):
        card = Material(textures.playing_card(rank, suit), "gloss", 0.25)
        fan = floor(0.3, 0.42).placed(z=-0.2).placed(turn=34.0 - 17.0 * number)
        parts.append(Part(fan.placed(1.36, 0.004 + 0.003 * number, -3.5), card))
    return parts


def _grasses(rng: np.random.Generator) -> list[Part]:
    """Dried grass in a bottle, close to the camera: hair-thin stems in front of everything."""
    bottle = [(0.0, 0.0), (0.1, 0.0), (0.115, 0.02), (0.12, 0.15), (0.1, 0.22)]
    bottle += [(0.04, 0.28), (0.036, 0.36), (0.046, 0.37), (0.03, 0.37), (0.0, 0.3)]
    x, z = -0.80, -1.85
    stems, ears = [], []
    for _ in range(11):
        reach, angle, tall = rng.uniform(0.02, 0.34), rng.uniform(0, 2 * np.pi), rng.uniform(0.72, 1.02)
        t = np.linspace(0.0, 1.0, 16)[:, None]
        path = np.array([0.0, 0.3, 0.0]) + t * np.array([0.0, tall - 0.3, 0.0])
        path = path + t**2 * reach * np.array([np.cos(angle), -0.25, 0.6 * np.sin(angle)])
        stems.append(tube(path, 0.0045, 6))
        lean, head = path[-1] - path[-3], path[-1]
        lean = lean / np.linalg.norm(lean)
        for k in range(12):
            seed = sphere(0.011, 8).scaled(0.8, 1.9, 0.8).placed(turn=rng.uniform(0, 360), tilt=rng.uniform(10, 45))
            ears.append(seed.placed(*(head + lean * (0.013 * k - 0.1) + rng.normal(0, 0.006, 3))))
    straw = Material(textures.blend((0.86, 0.72, 0.42), (0.68, 0.50, 0.26), textures.noise(rng, 64, 64, (8, 8))))
    glass = textures.blend((0.10, 0.34, 0.36), (0.18, 0.52, 0.50), textures.noise(rng, 128, 128, (10, 10)) * 2 - 0.5)
    return [
        Part(lathe(bottle).placed(x, 0.0, z), Material(glass, "gloss", 0.12)),
        Part(join(stems).placed(x, 0.0, z), straw),
        Part(join(ears).placed(x, 0.0, z), straw),
    ]


def _books(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = []
    paper = Material((0.88, 0.83, 0.72))
    x = -2.9
    for number in range(24):
        width, height, deep = rng.uniform(0.13, 0.26), rng.uniform(0.72, 1.1), rng.uniform(0.55, 0.7)
        if -0.35 < x < 0.45:  # a gap for the globe
            x = 0.5
        cover = _COVERS[(number * 7 + int(rng.integers(3))) % len(_COVERS)]
        ink = (0.93, 0.82, 0.50) if sum(cover) < 1.5 else (0.16, 0.10, 0.08)
        title = _TITLES[number % len(_TITLES)]
        spine = textures.printed((384, int(384 * width / height)), title, cover, ink, sideways=True)
        for band in (0.06, 0.09, 0.90, 0.93):
            spine[int(band * 384) : int(band * 384) + 5] = ink
        spine = spine * (0.85 + 0.3 * textures.noise(rng, spine.shape[0], spine.shape[1], (40, 8), 2))[..., None]
        z = -6.0 + rng.normal(0.0, 0.03)
        lean = rng.normal(0.0, 1.5)
        book = box(width * 0.96, height, deep).placed(x + width / 2, 0.0, z - deep / 2, roll=lean)
        front = rectangle(width * 0.98, height).placed(x + width / 2, 0.0, z + 0.004, roll=lean)
        parts += [Part(book, paper), Part(front, Material(np.clip(spine, 0, 1), "gloss", 0.3))]
        x += width + 0.012
    return parts


def _globe(rng: np.random.Generator) -> list[Part]:
    brass = Material((0.92, 0.72, 0.38), "metal", 0.18)
    ring_angle = np.linspace(-2.4, 1.0, 40)
    ring = np.stack([0.41 * np.cos(ring_angle), 0.41 * np.sin(ring_angle), 0 * ring_angle], axis=-1)
    foot = lathe([(0.0, 0.0), (0.24, 0.0), (0.24, 0.03), (0.1, 0.06), (0.03, 0.1), (0.03, 0.2), (0.0, 0.2)])
    x, z = 0.06, -5.5
    ball = sphere(0.38, 64).placed(roll=-23.0, turn=130.0).placed(x, 0.62, z)
    return [
        Part(ball, Material(textures.globe(rng, (512, 1024)), "gloss", 0.12)),
        Part(tube(ring, 0.022, 10).placed(roll=-23.0).placed(x, 0.62, z), brass),
        Part(foot.placed(x, 0.0, z), brass),
    ]
