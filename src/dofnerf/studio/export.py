"""Take a trained scene elsewhere: `dofnerf export`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dofnerf.files.outputs import check_file, check_folder
from dofnerf.scenes import Viewpoint
from dofnerf.studio.lens_config import FocusConfig, ShapeConfig, automatic_aperture, check_aperture, check_positive
from dofnerf.studio.render import open_subject, progress_bar
from dofnerf.studio.shot_config import SENSOR
from dofnerf.studio.subject import SplatFileConfig, Subject, is_splat_file
from dofnerf.studio.viewpoint_config import ViewpointConfig

MOST_LAYERS = 16  # that a page's shader takes
LARGE_PAGE = 3.0  # megabytes, from which on a page is said to be large
PHOTOS = "nerfstudio"
_OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")


@dataclass(frozen=True)
class FirstLensConfig(ShapeConfig):
    """The lens that a page opens with; whoever looks at it may turn all of it."""

    aperture: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: automatic)")] = None
    """Aperture in pixels × scene units; automatic: the largest blur radius is 2.5 % of the picture's width."""
    unit: float = 1.0
    """Metres in a scene unit, for the f-numbers that the page shows (on a full-frame sensor)."""

    def check(self) -> None:
        """Refuse what no picture could make right."""
        super().check()
        check_aperture("--aperture", self.aperture)
        check_positive(("--unit", self.unit))


@dataclass(frozen=True)
class ExportConfig:
    """Take a trained run elsewhere: as a page that anybody can refocus, as layers, as points, or as cameras and sharp
    pictures.

    For example:
      dofnerf export runs/mine --html --view 3 --width 1008 --out photo.html   (click in it to focus)
      dofnerf export runs/mine --rgbd --view 3             colour and depth, layer by layer
      dofnerf export runs/mine --ply                       splats (of a volumetric run: coloured points)
      dofnerf export runs/mine --cameras                   a folder for nerfstudio: poses, lenses, sharp views
    """

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")]
    """The folder of a run (dofnerf train), or a .ply of 3D Gaussians from any tool."""
    html: bool = False
    """A page: one HTML file for each view, which works from disk and offline. Click to focus, turn the lens."""
    rgbd: bool = False
    """Layers of each view: RGBA PNG and depth EXR, the farthest first, and layers.json with camera and order."""
    ply: bool = False
    """The splats of the run as 3D Gaussian Splatting writes them; of a volumetric run, a coloured point cloud."""
    cameras: bool = False
    """A folder that nerfstudio reads: transforms.json with the pose and the learned lens of every photo, and its sharp
    view."""
    layers: int = 4
    """Layers of depth for --html and --rgbd, 1 to 16. Each knows what nearer ones hide; a .ply's guesses it, unless
    --blend light is given."""
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="FOLDER|FILE", help_behavior_hint="(default: export in the run)")
    ] = None
    """A folder, made if it is not there; or, for one page or one .ply, its file. What has the same name is replaced."""
    viewpoint: ViewpointConfig = field(default_factory=ViewpointConfig)
    first_lens: FirstLensConfig = field(default_factory=FirstLensConfig)
    focus: FocusConfig = field(default_factory=FocusConfig)
    splat_file: SplatFileConfig = field(default_factory=SplatFileConfig)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: cpu, cuda, or cuda if there is one."""

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        for_file = is_splat_file(self.source)
        kinds = {"--html": self.html, "--rgbd": self.rgbd, "--ply": self.ply, "--cameras": self.cameras}
        chosen = [flag for flag, given in kinds.items() if given]
        if not chosen:
            raise ValueError(f"say what to export: one or more of {', '.join(kinds)}")
        if for_file and (self.ply or self.cameras):
            flag = "--ply" if self.ply else "--cameras"
            raise ValueError(
                f"{flag}: {self.source} is a .ply already, without photos; give --html or --rgbd, or a run"
            )
        self.viewpoint.check(for_file)
        self.splat_file.check(for_file)
        self.first_lens.check()
        self.focus.check()
        if not 1 <= self.layers <= MOST_LAYERS:
            raise ValueError(f"--layers must be 1 to {MOST_LAYERS}, found {self.layers}")
        if self.out is not None:
            suffix = self.out.suffix.lower()
            wanted = {"--html": (".html", ".htm"), "--ply": (".ply",)}.get(chosen[0], ()) if len(chosen) == 1 else ()
            if suffix in wanted and not self.out.is_dir():
                check_file("--out", self.out, wanted)
            elif suffix in (".html", ".htm", ".ply", ".json"):
                raise ValueError(f"--out {self.out}: {' and '.join(chosen)} need a folder")
            else:
                check_folder("--out", self.out)

    @property
    def single(self) -> bool:
        """Whether --out names a file."""
        return self.out is not None and self.out.suffix.lower() in (".html", ".htm", ".ply") and not self.out.is_dir()


def run(config: ExportConfig) -> list[Path]:
    """Export as the config says, telling on the way; returns what was written: files, and folders of layers or
    cameras."""
    config.check()
    subject = open_subject(config.source, config.splat_file, config.device)
    out = config.out or (config.source if config.source.is_dir() else config.source.parent) / "export"
    views = chosen_views(config, subject) if config.html or config.rgbd else []
    if config.html and config.single and len(views) > 1:
        raise ValueError(f"--out {out}: {len(views)} pages do not fit into one file; give one --view, or a folder")
    written: list[Path] = []
    print(f"scene    {subject.words}", flush=True)
    from dofnerf.studio import export_files

    photos = len(subject.views) if config.cameras else 0
    for view in views if config.rgbd else ():
        export_files.check_ours(layers_folder(out, view) / export_files.LAYERS)
    if config.cameras:
        export_files.check_ours(out / PHOTOS / export_files.CAMERAS)
    with progress_bar(len(views) + config.ply + photos) as (tick, say):

        def done(path: Path, words: str) -> None:
            written.append(path)
            say(f"wrote    {path}  ({words})")

        for view in views:
            shoot(config, subject, view, out, done)
            tick(1)
        if config.ply:
            path = out if config.single else out / "scene.ply"
            done(path, export_files.write_scene(path, subject))
            tick(1)
        if config.cameras:
            path = export_files.write_photos(out / PHOTOS, subject, lambda: tick(1))
            done(path, f"{photos} cameras, their lenses where known, and sharp pictures")
    return written


def layers_folder(out: Path, view: Viewpoint) -> Path:
    """Where the layers of a view go."""
    return out / f"{view.name}-layers"


def chosen_views(config: ExportConfig, subject: Subject) -> list[Viewpoint]:
    """Those that flags name, or else one."""
    views = config.viewpoint.viewpoints(subject)
    named = config.viewpoint.view or config.viewpoint.views is not None
    return views if named else views[:1]


def shoot(
    config: ExportConfig, subject: Subject, view: Viewpoint, out: Path, done: Callable[[Path, str], None]
) -> None:
    """The page and the layers of one view."""
    from dofnerf.studio import export_files
    from dofnerf.studio.layered import layered_picture
    from dofnerf.web import PageLens, write_page

    picture = layered_picture(subject, view.camera, config.layers)
    if config.html:
        if picture.sharp.holes.all():
            raise ValueError(f"{config.source}: view {view.name} shows nothing; give another view")
        try:
            disparity, _ = config.focus.disparity(picture.sharp)
        except ValueError as error:
            raise ValueError(f"{config.source}: view {view.name}: {error}") from None
        first = config.first_lens
        aperture = automatic_aperture(picture.sharp, [disparity])[0] if first.aperture is None else first.aperture
        lens = PageLens(aperture, disparity, first.blades, first.rotation, SENSOR, 1000 * first.unit)
        path = out if config.single else out / f"{view.name}.html"
        write_page(path, picture, view.camera, lens, f"{subject.source.resolve().name} {view.name}")
        megabytes = path.stat().st_size / 1e6
        large = f", more than {LARGE_PAGE:g}: a smaller --width, or fewer --layers, makes a smaller page"
        words = f"{view.camera.width} × {view.camera.height}, {config.layers} layers, {megabytes:.2f} MB"
        done(path, f"{words}{large * (megabytes > LARGE_PAGE)}")
    if config.rgbd:
        path = export_files.write_layers(layers_folder(out, view), picture, replace(view, lens=None))
        done(path, f"{config.layers} layers of colour and depth, the farthest first")
