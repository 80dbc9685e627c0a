"""The source of pictures: a trained run, or a file of splats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dofnerf.files.guard import check_regular, read_json
from dofnerf.files.ply import Drawing, Splats
from dofnerf.files.splats import is_splat_name, read_splat_file, suffixes
from dofnerf.files.splats.turning import in_display_values, turned
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import LIGHT, SplatFileFlags, vector

if TYPE_CHECKING:
    from dofnerf.models import Model
    from dofnerf.optics import Lens
    from dofnerf.optics.light import Curve
    from dofnerf.train import Run
    from dofnerf.train.scale import PhotoOptics

_UP = (0.0, -1.0, 0.0)  # in 3D Gaussian Splatting


@dataclass(frozen=True)
class Source:
    """`model` shows views. A run has `views` (those of its photos) and `learned`, the lens of each training photo by
    name, at `size` (width, height); the blur of those in `unknown` does not tell theirs. A file has `splats`. `light`
    is the curve between display values and light.

    `flat`: its quick blur is made from the sharp picture and its depth. Splats that mix as display values would look
    another way if they were blurred as light, even in focus: 21 dB against the exact lens, where this reaches 35.

    `optics` is what is known of the photos' lens and of the scene's scale; None for a file."""

    path: Path
    model: Model
    words: str
    light: Curve = LIGHT
    views: tuple[Viewpoint, ...] = ()
    learned: Mapping[str, Lens] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    size: tuple[int, int] | None = None
    splats: Splats | None = None
    flat: bool = False
    up: tuple[float, ...] = _UP
    run: Run | None = None
    optics: PhotoOptics | None = None

    @property
    def folder(self) -> Path:
        """That of the run, or in which the file is."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def title(self) -> str:
        """What a page is called: the run, or the folder in which `dofnerf run` put it, or the file."""
        path = self.path.resolve()
        if path.is_dir() and path.name == "run":
            path = path.parent
        return path.name if path.is_dir() else path.stem

    @property
    def upward(self) -> np.ndarray:
        """Which way is up, (3,): the mean of the photos' cameras, or as the file says."""
        ups = [view.camera.camera_to_world[:, 1] for view in self.views]
        return np.mean(ups, axis=0) if ups else np.array(self.up)

    def lens_rows(self, metres: float | None) -> list[list[str]]:
        """Photo, opening in stops against the median, focus distance, where its blur tells both; the heads first.
        `metres` are those of a scene unit, if known."""
        lenses = self.learned
        apertures = sorted(lens.aperture for name, lens in lenses.items() if name not in self.unknown)
        middle = apertures[len(apertures) // 2] if apertures else 0.0
        unit, rows = metres or 1.0, []
        for name, lens in lenses.items():
            if name in self.unknown:
                rows.append([name, "not known", "not known"])
                continue
            stops = 2 * math.log2(lens.aperture / middle) if lens.aperture > 0 and middle > 0 else None
            near = stops is not None and abs(stops) < 0.05
            words = "" if stops is None else f"{abs(stops):.1f} stops {'wider' if stops > 0 else 'narrower'}"
            opening = "all sharp" if stops is None else "the usual" if near else words
            focus = "infinity" if lens.focus_disparity <= 0 else f"{unit / lens.focus_disparity:.3g}"
            rows.append([name, opening, focus + (" m" if metres and focus != "infinity" else "")])
        return [["Photo", "Aperture", "Focus distance"], *rows] if rows else []

    @property
    def cut(self) -> Curve | None:
        """The light in which layers are cut out of the sharp picture, where that is how blur is made."""
        return self.light if self.flat else None


def is_splat_file(path: Path) -> bool:
    """Whether the source is a file of splats rather than a run; refuses what is neither."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such run or file of splats")
    known = is_splat_name(path)
    if not path.is_dir():
        check_regular(path)
    if path.is_file() and not known and path.suffix.lower() != ".safetensors":
        raise ValueError(f"{path}: neither the folder of a run nor a file of splats ({', '.join(suffixes())})")
    return path.is_file() and known


def check_focus_at(path: Path, focus_at: str | None, width: int | None, height: int | None) -> None:
    """Refuse a pixel outside the pictures of a run, whose size its config.json tells, before anything is loaded."""
    if focus_at is None or not path.is_dir():
        return
    try:
        path = path / "run" if (path / "run" / "config.json").exists() else path  # where `dofnerf run` puts it
        wide, tall = read_json(path / "config.json")["setting"]["size"]
        x, y = map(int, focus_at.split(","))
        known = width or max(1, round(wide * (height or tall) / tall))
        size = known, height or max(1, round(tall * known / wide))
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError):
        return  # whoever loads it says what is wrong
    if not (0 <= x < size[0] and 0 <= y < size[1]):
        raise ValueError(f"--focus-at {x},{y} lies outside the picture of {size[0]} × {size[1]} pixels")


def open_source(path: Path, flags: SplatFileFlags | None = None, device: str = "auto") -> Source:
    """The run or file at a path, on its device."""
    from dofnerf.train import Run
    from dofnerf.train.checkpoint import FILE
    from dofnerf.train.run import run_folder
    from dofnerf.train.trainer import choose_device

    where = str(choose_device(device))
    if is_splat_file(path):
        return open_file(path, flags or SplatFileFlags(), where)
    path = run_folder(path)
    if path.is_dir() and not (path / FILE).is_file():
        raise ValueError(f"{path}: not a run, for it has no {FILE}; make one by `dofnerf train SCENE --out FOLDER`")
    return source_of(Run.load(path, where), path)


def open_file(path: Path, flags: SplatFileFlags, device: str) -> Source:
    """The splats of a file, in the coordinates and colours that they had before they were written, where it says so."""
    splats, said = read_splat_file(path)
    drawing = said or Drawing(up=_UP)
    w, x, y, z = drawing.turn
    splats = turned(splats, (w, -x, -y, -z))
    curve: Curve = LIGHT
    if drawing.blend == "linear":
        splats, curve = in_display_values(splats), "srgb"
    import torch

    from dofnerf.models.splat.model import SplatModel
    from dofnerf.models.splat.raster import Gaussians, Style

    arrays = splats.means, splats.log_scales, splats.rotations, splats.opacities, splats.harmonics
    gaussians = Gaussians(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
    around = np.abs(splats.means - np.median(splats.means, axis=0)).max(axis=1) if len(splats) else np.ones(1)
    extent = float(np.median(around)) or 1.0
    near = Style.near * min(1.0, extent)  # of a tiny scene, nearer
    light = 1.0 if (flags.blend or drawing.blend) == "display" else curve
    style = Style(light=light, antialiased=flags.antialiased or drawing.antialiased, near=near)
    behind = drawing.background if flags.background is None else vector("--background", flags.background)
    model = SplatModel(gaussians, style, torch.tensor(behind, dtype=torch.float32)).to(device)
    words = f"{path}, {len(splats):,} splats, harmonics of degree {splats.degree}"
    shown = LIGHT if light == 1 else light
    return Source(path, model, words, shown, splats=splats, flat=style.light == 1, up=drawing.up)


def source_of(run: Run, path: Path | None = None) -> Source:
    """A trained run, of any field; `path` is what it is called, unless its folder."""
    setting, optics = run.setting, run.optics
    path = path or run.folder or Path(setting.scene)
    learned = dict(zip(setting.photos, run.lenses, strict=False))
    is_done = run.learner.progress.step >= run.config.method.total  # before that, lenses are shown as they are by now
    unknown = run.unknown_lenses if is_done else frozenset()
    words = f"{path}, {run.config.field}, {run.learner.progress.step} steps, trained on {setting.scene}"
    words += "" if optics.scale is None else f"; {optics.scale.describe()}"
    light, size = run.config.light, setting.size
    return Source(path, run.model, words, light, run.views, learned, unknown, size, run=run, optics=optics)
