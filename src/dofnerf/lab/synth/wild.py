"""`synth wild`: a scene such as people bring: exposure and white balance drift, poses are a little off, no depth range.

A training photo's linear light is multiplied by a gain per channel, exp(exposure · n₀ + white_balance · n_c) with
normal n, whose mean logarithm over the photos is 0: so the common exposure is that of the held-out views. Its camera
turns by a rotation vector and moves by an offset, both normal in each axis. With `breathing`, the focal lengths that
the file gives are wrong as one for all photos would be, though that of the lens changes with its focus. Held-out views
stay as they are. `wild.json` beside transforms.json holds the truth.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.camera import moved, zoomed
from dofnerf.files import write_json
from dofnerf.files.outputs import claim
from dofnerf.files.progress import track
from dofnerf.lab.synth import RECORD, fingerprint
from dofnerf.lab.synth.blur import ReadingConfig
from dofnerf.process import alone
from dofnerf.scenes import Frame, Scene
from dofnerf.scenes.source import Derived, to_display, to_linear

TRUTH = "wild.json"  # in the folder of the scene


@dataclass(frozen=True)
class Wildness:
    """Standard deviations, and the seed of the random numbers."""

    exposure: float = 0.15
    """Of the logarithm of each photo's exposure: 0.15 is about 15 %."""
    white_balance: float = 0.03
    """Of the logarithm of each channel beside it."""
    turn: float = 0.12
    """Of each camera's rotation about each axis, in degrees."""
    shift: float = 0.008
    """Of each camera's offset along each axis, as a share of the cameras' spread: the root mean square distance of
    their centres from the mean."""
    breathing: float = 0.0
    """Share by which a focal length changes when the focus goes from the far end of the scene to the near end. For
    scenes whose lenses are known."""
    seed: int = 0
    """Of the random numbers."""

    def check(self) -> None:
        """Raise ValueError on the first setting out of range."""
        for name in ("exposure", "white_balance", "turn", "shift", "breathing"):
            if not 0 <= getattr(self, name) <= 10:
                raise ValueError(f"--{name.replace('_', '-')} must be from 0 to 10, not {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"--seed must not be negative, not {self.seed}")


@dataclass(frozen=True)
class WildConfig:
    """Make a scene such as people bring: other exposures, white balances and poses, no depth range, no points.

    For example:
      dofnerf synth wild demo --out wild
      dofnerf synth wild demo --breathing 0.02 --out breathing
      dofnerf synth wild SCENE --exposure 0.3 --turn 0 --shift 0 --out drift
    """

    scene: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SCENE")]
    """The scene, in any format that dofnerf reads. Stays as it is."""
    out: Path
    """The new scene's folder. Stopped work goes on where it was if the flags are the same."""
    wild: Wildness = field(default_factory=Wildness)
    reading: ReadingConfig = field(default_factory=ReadingConfig)


@dataclass(frozen=True)
class Gained(Derived):
    """A photo whose linear light is multiplied by a gain per channel, clipped at white."""

    gain: tuple[float, float, float]
    as_taken = False

    def load(self) -> np.ndarray:
        return to_display(np.clip(to_linear(self.source.load()) * np.array(self.gain, np.float32), 0, 1))


@alone
def run(config: WildConfig) -> Path:
    """Make the scene; returns the path of its transforms.json."""
    config.wild.check()
    source = scenes.load(config.scene, **asdict(config.reading))
    settings = asdict(config.wild) | {"scene": fingerprint(source)}
    claim(config.out, RECORD, config.scene, "dofnerf synth wild", settings)
    made, gains = make_wild(source, config.wild)
    target = scenes.write_transforms(
        made, config.out, resume=True, track=partial(track, label="photos"), with_bounds=False
    )
    names = scenes.plain_stems([frame.name for frame in made.frames])
    truth = {
        names[i]: {"gain": gain, "transform_matrix": camera.camera_to_world.tolist(), "fl_x": camera.fx}
        for i, gain in gains.items()
        for camera in [source.camera(i)]
    }
    write_json(config.out / TRUTH, {"near": source.near, "far": source.far, "photos": truth})
    low, high = (f"{value:.2f}" for value in (min(map(min, gains.values())), max(map(max, gains.values()))))
    print(f"wrote    {config.out}: {len(gains)} photos with gains from {low} to {high}, {len(source.test)} untouched")
    return target


def make_wild(scene: Scene, wild: Wildness) -> tuple[Scene, dict[int, tuple[float, float, float]]]:
    """The scene with changed training photos and cameras, and the gain per channel of each training photo."""
    rng = np.random.default_rng(wild.seed)
    count = len(scene.train)
    log_gains = wild.exposure * rng.standard_normal((count, 1)) + wild.white_balance * rng.standard_normal((count, 3))
    log_gains -= log_gains.mean(axis=0)
    turns = np.deg2rad(wild.turn) * rng.standard_normal((count, 3))
    places = np.stack([frame.camera.position for frame in scene.frames])
    spread = np.sqrt(((places - places.mean(0)) ** 2).sum(axis=1).mean())
    shifts = wild.shift * spread * rng.standard_normal((count, 3))
    frames, gains = [replace(frame, bounds=None, seen=None, seen_error=None) for frame in scene.frames], {}
    zooms = _breathing(scene, wild.breathing)
    for i, log_gain, turn, shift, zoom in zip(scene.train, log_gains, turns, shifts, zooms, strict=True):
        gains[i] = tuple(np.exp(log_gain).tolist())
        camera = zoomed(moved(frames[i].camera, turn, shift), 1 / zoom)
        frames[i] = replace(_gained(frames[i], gains[i]), camera=camera)
    return replace(scene, frames=tuple(frames), points=None), gains


def _breathing(scene: Scene, most: float) -> list[float]:
    """Each training photo's focal length over the mean one, by its focus."""
    lenses = [scene.lens(i) for i in scene.train]
    if not most:
        return [1.0] * len(lenses)
    focuses = [lens.focus_disparity for lens in lenses if lens is not None]
    if len(focuses) < len(lenses):
        raise ValueError(f"{scene.name}: --breathing needs the lens of every photo, which only synthetic scenes know")
    share = np.array(focuses) / (1 / scene.near - 1 / scene.far)
    return np.exp(most * (share - share.mean())).tolist()


def _gained(frame: Frame, gain: tuple[float, float, float]) -> Frame:
    return replace(frame, depth=None).converted(frame.camera, lambda source: Gained(source, gain), 1.0)
