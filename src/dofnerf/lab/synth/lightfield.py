"""`synth lightfield`: a grid of real photos → a scene with real near- and far-focused photos and an exactly known lens.

The reader (`dofnerf.scenes.formats.lightfield`, which explains the geometry) makes the photos on demand;
here they are written down, so that other tools and later runs read plain files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from dofnerf import scenes
from dofnerf.files.outputs import claim
from dofnerf.files.progress import track
from dofnerf.lab.synth import RECORD, fingerprint
from dofnerf.process import alone


@dataclass(frozen=True)
class LightfieldConfig:
    """Make a scene with near- and far-focused photos from a light field, by averaging neighbouring views.

    For example:
      dofnerf synth lightfield tarot --width 256 --out tarot-scene
      dofnerf synth lightfield grid --lens-views 3 --disparities -2.8 2.2 --out grid-scene
    """

    grid: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="GRID")]
    """A folder of photos view_RR_CC.jpg on a full, rectified grid. Stays as it is."""
    out: Path
    """The new scene's folder. Stopped work goes on where it was if the flags are the same."""
    width: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: full size)")] = None
    """Shrink the photos to this many pixels across. A third of the full size hides the separate spots that few views
    leave."""
    lens: scenes.GridOptions = field(default_factory=scenes.GridOptions)


@alone
def run(config: LightfieldConfig) -> Path:
    """Make the scene; returns the path of its transforms.json."""
    scene = scenes.load(config.grid, format="lightfield", width=config.width, mix="near-far", grid=config.lens)
    settings = {"width": config.width, **asdict(config.lens), "grid": fingerprint(scene)}
    claim(config.out, RECORD, config.grid, "dofnerf synth lightfield", settings)
    print(scenes.describe(scene), flush=True)
    target = scenes.write_transforms(scene, config.out, resume=True, track=partial(track, label="average"))
    print(f"wrote    {config.out}")
    return target
