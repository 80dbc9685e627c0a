"""`synth lens` on the command line: where to write, and the maker's own settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dofnerf.lab.synth.lens import LensSceneConfig, make_lens_scene


@dataclass(frozen=True)
class LensCommandConfig:
    """Photograph a built-in place through a true thin lens, with Mitsuba 3: sharp, near- and far-focused photos, depth,
    lens.

    For example:
      dofnerf synth lens --out tabletop
      dofnerf synth lens --layout garden --views 40 --size 504 336 --out garden
      dofnerf synth lens --mixed --blur 1.5 --seed 3 --out mixed
    """

    out: Path
    """The new scene's folder. Stopped work goes on where it was if the flags are the same."""
    scene: LensSceneConfig = field(default_factory=LensSceneConfig)


def run(config: LensCommandConfig) -> Path:
    """Render the scene; returns the path of its transforms.json."""
    target = make_lens_scene(config.out, config.scene)
    print(f"wrote    {config.out}")
    return target
