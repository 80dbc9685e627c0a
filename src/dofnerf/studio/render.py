"""Shoot a trained scene, or anybody's splats, with a lens of your own: `dofnerf render`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from dofnerf.scenes import Viewpoint
from dofnerf.studio.film_config import FilmConfig
from dofnerf.studio.lens_config import FocusConfig
from dofnerf.studio.shot_config import LAYERS, ShotConfig
from dofnerf.studio.shot_files import ShotFiles, ShotFilesConfig
from dofnerf.studio.subject import SplatFileConfig, Subject, is_splat_file, open_file, open_run
from dofnerf.studio.viewpoint_config import ViewpointConfig

if TYPE_CHECKING:
    from dofnerf.studio.shot import Opening


@dataclass(frozen=True)
class RenderConfig:
    """Shoot a trained run, or the splats of a .ply file from any tool, with a lens of your own.

    Depth, focus and --eye are in scene units: those of the poses that the scene was trained with. All is in focus
    unless you open the lens. Several pictures go into a folder, with a transforms.json that keeps the camera and the
    lens of each.

    For example:
      dofnerf render runs/mine                                         the held-out views, all in focus
      dofnerf render runs/mine --view 3 --focus-at 120,100             focus on a pixel; a pleasing aperture is chosen
      dofnerf render runs/mine --views train --as-shot                 each photo again, through the lens that was learned
      dofnerf render runs/mine --aperture 12 --focus 2.5 --lens-samples 256 --format exr --depth exr
      dofnerf render garden.ply --fstop 1.8 --focus 3.2                f/1.8 on full frame, if a scene unit is a metre
      dofnerf render garden.ply --camera cameras.json --view 0 --fstop 1.8 --focus-at 640,400 --blades 6
      dofnerf render runs/mine --path orbit --fstop 2 --out orbit.mp4  a film; so do --rack-focus and --keyframes
      dofnerf render garden.ply --eye 0,-1,-4 --look-at 0,0,0 --fov 40 --width 1280 --height 720 --out garden.png
    """

    EVERYDAY: ClassVar = ("view", "views", "camera", "width", "aperture", "fstop", "as_shot", "focus", "focus_at", "blades",
                          "path", "rack_focus", "out")  # fmt: skip

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")]
    """The folder of a run (dofnerf train), or a .ply of 3D Gaussians from any tool (3DGS, SuperSplat, nerfstudio)."""
    viewpoint: ViewpointConfig = field(default_factory=ViewpointConfig)
    shot: ShotConfig = field(default_factory=ShotConfig)
    focus: FocusConfig = field(default_factory=FocusConfig)
    film: FilmConfig = field(default_factory=FilmConfig)
    splat_file: SplatFileConfig = field(default_factory=SplatFileConfig)
    files: ShotFilesConfig = field(default_factory=ShotFilesConfig)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: cpu, cuda, or cuda if there is one."""

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        for_file = is_splat_file(self.source)
        self.viewpoint.check(for_file)
        self.shot.check_all(self.focus)
        self.splat_file.check(for_file)
        self.film.check(self.shot, self.focus, self.files, self.viewpoint)
        if not self.film.asked:
            self.files.check()
        if for_file and self.shot.as_shot and self.viewpoint.camera is None:
            raise ValueError(
                "--as-shot: a .ply knows no lens; give --camera with frames that name one, or --aperture or --fstop"
            )


def run(config: RenderConfig) -> list[Path]:
    """Render as the config says, telling on the way; returns the pictures that were written."""
    config.check()
    subject = open_subject(config.source, config.splat_file, config.device)
    if config.film.asked:
        return [shoot_film(config, subject)]
    views = config.viewpoint.viewpoints(subject, config.shot.as_shot)
    out = config.files.out or default_out(config.source, len(views), config.files.format)
    inputs = [path for path in (config.source, config.viewpoint.camera) if path is not None]
    files = ShotFiles(config.files, out, [view.name for view in views], inputs)
    opening = opening_of(config.shot, subject)
    _check_lenses(config.shot, views)
    size = f"{views[0].camera.width} × {views[0].camera.height}"
    print(f"scene    {subject.words}")
    print(
        f"views    {len(views)} of {size}: {views[0].name}{f' to {views[-1].name}' if len(views) > 1 else ''}",
        flush=True,
    )
    written = []
    with progress_bar(len(views) * (1 + max(opening.samples, 1))) as (tick, say):
        for i, view in enumerate(views):
            path, words = shoot(config, subject, view, opening, files, i, tick)
            say(f"wrote    {path}  ({words})")
            written.append(path)
    return written


def open_subject(source: Path, splat_file: SplatFileConfig, device: str) -> Subject:
    """What is to be rendered, on its device."""
    from dofnerf.train.trainer import choose_device

    where = str(choose_device(device))
    return open_file(source, splat_file, where) if is_splat_file(source) else open_run(source, where)


def opening_of(shot: ShotConfig, subject: Subject) -> Opening:
    """How blur is made before this subject."""
    from dofnerf.studio.shot import Opening

    light = subject.light if shot.light is None else shot.light
    return Opening(shot.aperture_shape(), light, shot.layers or LAYERS, shot.lens_samples)


def shoot(
    config: RenderConfig,
    subject: Subject,
    view: Viewpoint,
    opening: Opening,
    files: ShotFiles,
    i: int,
    tick: Callable[[int], None],
) -> tuple[Path, str]:
    """One picture, taken and written; its file, and the lens in words."""
    import torch

    from dofnerf.optics.light import to_display, to_linear
    from dofnerf.studio.shot import photograph, sharp_picture

    parts = max(opening.samples, 1)
    try:
        sharp, picture = sharp_picture(subject.model, view.camera)
        lens, why = config.shot.resolve(view, picture, config.focus)
    except ValueError as error:
        raise ValueError(f"{config.source}: view {view.name}: {error}") from None
    tick(1)
    if lens is None:
        light = to_linear(sharp.image, opening.light).cpu().numpy()
        tick(parts)
    else:
        flat = picture if subject.flat else None
        light = photograph(subject.model, view.camera, lens, opening, flat, lambda: tick(1))
    light = light * 2.0**config.shot.exposure
    display = to_display(torch.from_numpy(light), opening.light).numpy()
    path = files.write(i, display, light, picture.disparity, sharp.alpha.cpu().numpy())
    files.note(replace(view, lens=lens), path)
    if lens is None:
        return path, why
    return path, f"aperture {lens.aperture:.4g}, focus {lens.focus_depth:.4g}: {why}"


def shoot_film(config: RenderConfig, subject: Subject) -> Path:
    """A film that begins at the first of the views, or of keyframes; returns its file."""
    from dofnerf.studio import film

    subject = replace(subject, light=opening_of(config.shot, subject).light)
    folder = config.source if config.source.is_dir() else config.source.parent
    out = config.files.out or folder / "films" / f"{config.film.path or 'film'}.mp4"
    print(f"scene    {subject.words}", flush=True)
    moments = film.settle(config, subject)
    film.check_blur(subject, moments)
    size = f"{moments[0].view.camera.width} × {moments[0].view.camera.height}"
    print(f"film     {len(moments)} frames of {size} at {config.film.fps:g} a second", flush=True)
    with progress_bar(len(moments)) as (tick, say):
        film.shoot(config, subject, moments, out, lambda: tick(1))
        say(f"wrote    {out}")
    return out


def default_out(source: Path, count: int, form: str | None) -> Path:
    """In the run, or beside the file."""
    if source.is_dir():
        return source / "renders"
    if source.suffix.lower() != ".ply":
        return source.parent / "renders"
    name = f"{source.stem}-render"
    return source.with_name(name if count > 1 else f"{name}.{(form or 'png').removesuffix('16')}")


@contextmanager
def progress_bar(total: int) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """A bar with the time left, on a terminal; gives a function that moves it, and one that says a line above it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("render  "), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield (lambda parts: progress.advance(task, parts)), (lambda words: print(words, flush=True))


def _check_lenses(shot: ShotConfig, views: list[Viewpoint]) -> None:
    """Refuse --as-shot where a view has no lens, before the first picture."""
    for view in views if shot.as_shot else ():
        if view.lens is None:
            raise ValueError(
                f"--as-shot: the lens of view {view.name} is not known: it was held out, or trained without a lens; "
                "choose other views, or give --aperture"
            )
