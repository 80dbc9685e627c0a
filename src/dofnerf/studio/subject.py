"""What is in front of the virtual lens: a trained run, or anybody's splats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Drawing, Splats, Viewpoint, read_cameras, read_drawing, read_splats
from dofnerf.studio.numbers import vector

if TYPE_CHECKING:
    from dofnerf.models import Model
    from dofnerf.optics.light import Curve

LIGHT = 2.2  # of pictures that say nothing about it
_UP = (0.0, -1.0, 0.0)  # in 3D Gaussian Splatting


@dataclass(frozen=True)
class SplatFileConfig:
    """How the splats of a .ply file are drawn; a run knows that of itself."""

    blend: Annotated[
        Literal["display", "light"] | None,
        tyro.conf.arg(help_behavior_hint="(default: display, or what the file says)"),
    ] = None
    """How the colours of a .ply's splats mix: as display values, as in the tools that most files come from, or as
    light, as in splats trained by dofnerf."""
    antialiased: bool = False
    """The .ply was trained antialiased (Mip-Splatting; gsplat and nerfstudio call it so)."""
    background: Annotated[
        str | None, tyro.conf.arg(metavar="R,G,B", help_behavior_hint="(default: 0,0,0, or what the file says)")
    ] = None
    """What lies behind a .ply's splats: red, green, blue from 0 to 1."""

    def check(self, for_file: bool) -> None:
        """Refuse what no file could make right, and flags that a run has no use for."""
        given = {"--blend": self.blend, "--antialiased": self.antialiased or None, "--background": self.background}
        wrong = [flag for flag, value in given.items() if value is not None]
        if wrong and not for_file:
            raise ValueError(f"{wrong[0]} is for .ply files: a run knows how it is drawn")
        if self.background is not None and not all(
            0 <= value <= 1 for value in vector("--background", self.background)
        ):
            raise ValueError(f"--background must be three numbers from 0 to 1, found {self.background}")


@dataclass(frozen=True)
class Subject:
    """`model` shows views. A run has `views` (those of its photos) and `learned`, the lens of each training photo by
    name, at `size` (width, height); a file has `splats`. `light` is the curve between display values and light.

    `flat`: its quick blur is made from the sharp picture and its depth. Splats that mix as display values would look
    another way if they were blurred as light, even in focus: 21 dB against the exact lens, where this reaches 35."""

    source: Path
    model: Model
    words: str
    light: Curve = LIGHT
    views: tuple[Viewpoint, ...] = ()
    learned: Mapping[str, Lens] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    splats: Splats | None = None
    flat: bool = False
    up: tuple[float, ...] = _UP


def is_splat_file(source: Path) -> bool:
    """Whether the source is a .ply rather than a run; refuses what is neither."""
    if not source.exists():
        raise FileNotFoundError(f"{source}: there is no such run or .ply file")
    if source.is_file() and source.suffix.lower() not in (".ply", ".safetensors"):
        raise ValueError(f"{source}: neither the folder of a run nor a .ply file of splats")
    return source.is_file() and source.suffix.lower() == ".ply"


def open_file(path: Path, config: SplatFileConfig, device: str) -> Subject:
    """The splats of a .ply."""
    splats = read_splats(path)
    import torch

    from dofnerf.models.splat.model import SplatModel
    from dofnerf.models.splat.raster import Gaussians, Style

    arrays = splats.means, splats.log_scales, splats.rotations, splats.opacities, splats.harmonics
    gaussians = Gaussians(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
    drawing = read_drawing(path) or Drawing("display", (0.0, 0.0, 0.0), _UP)
    style = Style(light=LIGHT if (config.blend or drawing.blend) == "light" else 1.0, antialiased=config.antialiased)
    behind = drawing.background if config.background is None else vector("--background", config.background)
    background = torch.tensor(behind, dtype=torch.float32)
    model = SplatModel(gaussians, style, background).to(device)
    words = f"{path}, {len(splats):,} splats, harmonics of degree {splats.degree}"
    return Subject(path, model, words, splats=splats, flat=style.light == 1, up=drawing.up)


def open_run(path: Path, device: str) -> Subject:
    """A trained run, of any field."""
    from dofnerf.train import Run
    from dofnerf.train.checkpoint import FILE
    from dofnerf.train.folder import CAMERAS

    if path.is_dir() and not (path / FILE).is_file():
        raise ValueError(f"{path}: not a run, for it has no {FILE}; make one by `dofnerf train SCENE --out FOLDER`")
    run = Run.load(path, device)
    setting = run.setting
    learned = {}
    if run.has_lens:
        pairs = zip(run.lens.aperture.tolist(), run.lens.focus_disparity.tolist(), strict=True)
        lenses = (Lens(aperture, inverse(disparity)) for aperture, disparity in pairs)
        learned = dict(zip(setting.photos, lenses, strict=True))
    assert run.folder is not None
    cameras = run.folder / CAMERAS
    views = read_cameras(cameras) if cameras.is_file() else []
    words = f"{path}, {run.config.field}, {run.learner.standing.step} steps, trained on {setting.scene}"
    return Subject(path, run.model, words, run.config.lens.light, tuple(views), learned, setting.size)
