"""What to expect of a scene before it is trained, in words: too few photos or points, too little parallax, blur
everywhere, jumps of exposure. Only photos and poses are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dofnerf.scenes import Scene

FEWEST, FEW = 3, 8  # training photos: hopeless with less, poor with less
_POINTS = 100  # sparse points
_NO_PARALLAX, _LITTLE = 0.5, 6.0  # pixels between the two photos farthest from each other
_SOFT = 0.4  # contrast over 1 pixel as a share of that over 4 pixels: a blurred edge has less
_STOPS = 0.6  # between neighbouring photos
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_LOOKED_AT = 24  # photos at most


@dataclass(frozen=True)
class Expectation:
    """One sentence; `hopeless`: training would waste its time."""

    words: str
    hopeless: bool = False


def expectations(scene: Scene) -> list[Expectation]:
    """What is known beforehand to go badly; empty if nothing is."""
    count, found = len(scene.train), []
    if count < FEWEST:
        found.append(Expectation(f"{count} photo{'s' * (count != 1)} to train on: at least {FEWEST} are needed", True))
    elif count < FEW:
        words = f"only {count} photos to train on: expect holes and floating specks; 20 or more work well"
        found.append(Expectation(words))
    if scene.points is not None and len(scene.points) < _POINTS:
        words = f"only {len(scene.points)} sparse points: poses may be wrong, and depth will be rough"
        found.append(Expectation(words))
    pixels = parallax(scene)
    if count > 1 and pixels < _NO_PARALLAX:
        found.append(Expectation(f"the photos have no parallax ({pixels:.2g} pixels): depth cannot be known", True))
    elif count > 1 and pixels < _LITTLE:
        found.append(Expectation(f"little parallax ({pixels:.1f} pixels at most): expect flat, uncertain depth"))
    found += _looked_at(scene)
    if not scene.test:
        found.append(Expectation("no photo is held out: nothing will tell how good new views are (--hold-every)"))
    return found


def expect(scene: Scene, force: bool) -> None:
    """Print what to expect; ValueError where it is hopeless, unless `force`."""
    known = expectations(scene)
    for one in known:
        print(f"expect   {one.words}", flush=True)
    hopeless = [one.words for one in known if one.hopeless]
    if hopeless and not force:
        raise ValueError(f"{scene.name}: {hopeless[0]}; --force goes on all the same")


def parallax(scene: Scene) -> float:
    """Pixels by which the nearest things move against the farthest between the two training photos farthest apart."""
    if len(scene.train) < 2:
        return 0.0
    cameras = [scene.camera(i) for i in scene.train]
    places = np.stack([camera.position for camera in cameras])
    farthest = max(float(np.linalg.norm(places - place, axis=1).max()) for place in places)
    return farthest * max(camera.fx for camera in cameras) * (1 / scene.near - 1 / scene.far)


def _looked_at(scene: Scene) -> list[Expectation]:
    """What the photos themselves say."""
    chosen = scene.train[:: max(1, -(-len(scene.train) // _LOOKED_AT))]
    contrast, levels = [], []
    for i in chosen:
        grey = scene.photo(i) @ _GREY
        steps = [[np.abs(grey[:, n:] - grey[:, :-n]), np.abs(grey[n:] - grey[:-n])] for n in (1, 4)]
        fine, coarse = (max(float(np.percentile(way, 99.5)) for way in ways if way.size) for ways in steps)
        contrast.append(fine / coarse if coarse > 0.02 else 0.0)
        levels.append(float(np.log2(np.mean(np.clip(grey, 1 / 255, 1) ** 2.2))))
    found = []
    if max(contrast) < _SOFT:
        found.append(Expectation("every photo is blurred everywhere: expect a soft scene, and a lens that is a guess"))
    places = np.stack([scene.camera(i).position for i in chosen])
    jumps = [0.0]
    for k, place in enumerate(places if len(chosen) > 1 else ()):
        distance = np.linalg.norm(places - place, axis=1)
        distance[k] = np.inf
        jumps.append(abs(levels[k] - levels[int(distance.argmin())]))
    if max(jumps) > _STOPS:
        words = f"exposure jumps by up to {max(jumps):.1f} stops between neighbouring photos"
        found.append(Expectation(f"{words}: splats even it out, other fields with --exposure"))
    return found
