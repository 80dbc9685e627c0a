"""Shoot a trained scene, or anybody's splats, with a lens of your own: `dofnerf render`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import tyro

from dofnerf.files import is_linear, write_deep_png, write_image, write_json, write_map
from dofnerf.files.guard import read_json
from dofnerf.files.outputs import check_file, check_folder
from dofnerf.files.pictures import IMAGE_SUFFIXES
from dofnerf.files.progress import Progress
from dofnerf.files.splats import is_splat_name
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view
from dofnerf.studio.film import FilmFlags, make_film
from dofnerf.studio.flags import (
    LAYERS,
    MOST_SAMPLES,
    MOST_STOPS,
    OPTIONAL,
    BlurFlags,
    Device,
    LensFlags,
    SplatFileFlags,
    ViewpointFlags,
    check_within,
    default,
    given,
    largest_blur,
)
from dofnerf.studio.rgbd import depth_map
from dofnerf.studio.source import Source, check_focus_at, is_splat_file, open_source

if TYPE_CHECKING:
    from dofnerf.models import Blur
    from dofnerf.optics import Lens
    from dofnerf.studio.rgbd import RGBD
    from dofnerf.train.scale import PhotoOptics

LIST = "transforms.json"
MARK = "dofnerf render"
_SUFFIX = {"png": ".png", "png16": ".png", "exr": ".exr", "jpg": ".jpg"}


@dataclass(frozen=True)
class ShotFlags(BlurFlags):
    """How a picture is taken."""

    as_shot: bool = False
    """The lens of the photo itself: the one that the run learned, or that --camera names for the frame."""
    lens_samples: int = 0
    """The exact lens, as the mean of so many sharp views from all over it: right at every occlusion, and slow. 64 for a
    preview, 256 and more for large blur; 0 is the quick blur."""
    exposure: float = 0.0
    """Stops by which the picture is brighter (or, below 0, darker): each doubles its light."""

    def check(self) -> None:
        """Refuse what no scene could make right."""
        super().check()
        check_within("--lens-samples", self.lens_samples, 0, MOST_SAMPLES)
        check_within("--exposure", self.exposure, -MOST_STOPS, MOST_STOPS, " stops")

    def blur(self, source: Source) -> Blur:
        """How the quick blur is made of this source."""
        from dofnerf.models import Blur

        return Blur(self.layers or LAYERS, source.light if self.light is None else self.light)


@dataclass(frozen=True)
class FileFlags:
    """What is written. Files are replaced only when the new ones are complete."""

    out: Annotated[Path | None, default("renders in the run; FILE-render.png", metavar="FOLDER|FILE")] = None
    """One picture's file (.png, .exr, .jpg …), a film's (.mp4, .gif), or a folder, in which pictures are named as their
    photos are."""
    format: Annotated[Literal["png", "png16", "exr", "jpg"] | None, default("by --out; png")] = None
    """png and jpg have 8 bits; png16 has 16, and is the default if the run's photos have more than 8; exr is linear
    light as floats, highlights above 1 included, and is the default if they are EXR or HDR."""
    depth: Annotated[Literal["exr", "npy"] | None, OPTIONAL] = None
    """Also write NAME-depth: depth along the optical axis of the sharp view, in scene units; infinite where nothing is.
    Of a film, NAME-depth is a folder with a file for each frame, in metres where the scale is known."""
    alpha: Annotated[Literal["png", "exr", "npy"] | None, OPTIONAL] = None
    """Also write NAME-alpha: how much of each pixel of the sharp view is covered, 0 to 1; png has 16 bits."""

    def check(self) -> None:
        """Refuse what could not be written."""
        if self.out is None:
            return
        if not _is_picture(self.out):
            check_folder("--out", self.out)
            return
        check_file("--out", self.out, IMAGE_SUFFIXES)
        suffix = self.out.suffix.lower().replace(".jpeg", ".jpg")
        if self.format is not None and suffix != _SUFFIX[self.format]:
            raise ValueError(f"--out {self.out}: is not a file of --format {self.format}; give one of them")


@dataclass(frozen=True)
class RenderConfig:
    """Shoot a trained run, or a file of splats from any tool, with a lens of your own.

    Depth, focus and --eye are in scene units: those of the poses that the scene was trained with. All is in focus
    unless you open the lens. Several pictures go into a folder, with a transforms.json that keeps the camera and the
    lens of each.

    For example:
      dofnerf render runs/mine                                         the held-out views, all in focus
      dofnerf render runs/mine --view 3 --focus-at 120,100             focus on a pixel; an aperture is chosen
      dofnerf render runs/mine --views train --as-shot                 each photo again, through its learned lens
      dofnerf render runs/mine --aperture 12 --focus 2.5 --lens-samples 256 --format exr --depth exr
      dofnerf render runs/mine --stops 2                               2 stops wider than the photos
      dofnerf render garden.ply --fstop 1.8 --unit 1 --focus 3.2       f/1.8; a scene unit is a metre
      dofnerf render runs/mine --path orbit --stops 1 --out orbit.mp4  a film
      dofnerf render garden.ply --eye 0,-1,-4 --look-at 0,0,0 --fov 40 --width 1280 --height 720
    """

    EVERYDAY: ClassVar = ("view", "views", "width", "aperture", "stops", "fstop", "focus", "focus_at", "blades",
                          "as_shot", "lens_samples", "path", "rack_focus", "out", "format")  # fmt: skip

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")]
    """The folder of a run (dofnerf train), or a file of 3D Gaussians from any tool: .ply (also
    compressed), .glb, .spz, .sog, .splat."""
    viewpoint: ViewpointFlags = field(default_factory=ViewpointFlags)
    lens: LensFlags = field(default_factory=LensFlags)
    shot: ShotFlags = field(default_factory=ShotFlags)
    film: FilmFlags = field(default_factory=FilmFlags)
    splat_file: SplatFileFlags = field(default_factory=SplatFileFlags)
    files: FileFlags = field(default_factory=FileFlags)
    device: Device = "auto"

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        for_file = is_splat_file(self.source)
        self.viewpoint.check(for_file)
        self.lens.check(takes_unit=self.film.asked and self.files.depth is not None)
        if self.viewpoint.camera is None:
            check_focus_at(self.source, self.lens.focus_at, self.viewpoint.width, self.viewpoint.height)
        self.shot.check()
        self.splat_file.check(for_file)
        if self.shot.as_shot:
            for flag in given(self.lens, but=("shape", "blades", "rotation")):
                raise ValueError(f"--as-shot takes the lens of the photo, and {flag} another: give one of them")
        if self.film.asked:
            self._check_film()
        elif idle := given(self.film, but=("fps",)):
            raise ValueError(f"{idle[0]} is for films: give --path, --keyframes, --rack-focus or --aperture-to too")
        else:
            self.files.check()
        if for_file and self.shot.as_shot and self.viewpoint.camera is None:
            raise ValueError(
                "--as-shot: a file of splats knows no lens; give --camera with frames that name one, or --aperture"
            )

    def _check_film(self) -> None:
        if self.film.keyframes is not None:  # they say all about the camera and the lens
            other = [
                *given(self.film, but=("keyframes", "frames", "fps")),
                *given(self.lens, but=() if self.files.depth is None else ("unit",)),
                *given(self.shot, but=("as_shot", "layers", "light", "lens_samples")),
                *given(self.viewpoint, but=("width",)),
            ]  # fmt: skip
            if other:
                raise ValueError(f"--keyframes say where the camera is and what its lens does; leave {other[0]} away")
        pictures = [
            *given(self.shot, but=("layers", "light", "lens_samples", "exposure")),
            *given(self.files, but=("out", "depth")),
        ]
        if pictures:
            raise ValueError(f"{pictures[0]} is for pictures, not for films: leave it away")
        self.film.check(self.lens, self.files.out)


def run(config: RenderConfig) -> list[Path]:
    """Render as the config says, with a line about each step; returns the pictures that were written."""
    config.check()
    source = open_source(config.source, config.splat_file, config.device)
    if config.film.asked:
        return [make_film(config, source)]
    from dofnerf.studio.viewpoints import viewpoints

    views = viewpoints(config.viewpoint, source, config.shot.as_shot)
    out = config.files.out or default_out(config.source, len(views), config.files.format)
    inputs = [path for path in (config.source, config.viewpoint.camera) if path is not None]
    files = PictureFiles(config.files, out, [view.name for view in views], inputs, own_format(source))
    for view in views if config.shot.as_shot else ():
        if view.lens is None:
            raise ValueError(
                f"--as-shot: the lens of view {view.name} is not known: it was held out, or trained without a lens; "
                "choose other views, or give --aperture"
            )
    size = f"{views[0].camera.width} × {views[0].camera.height}"
    print(f"scene    {source.words}")
    names = f"{views[0].name}{f' to {views[-1].name}' if len(views) > 1 else ''}"
    print(f"views    {len(views)} of {size}: {names}", flush=True)
    written = []
    with Progress("render", float(len(views) * (1 + max(config.shot.lens_samples, 1)))) as bar:
        for i, view in enumerate(views):
            path, words = shoot(config, source, view, files, i, bar.advance)
            print(f"wrote    {path}  ({words})", flush=True)
            written.append(path)
    return written


def shoot(
    config: RenderConfig, source: Source, view: Viewpoint, files: PictureFiles, i: int, tick: Callable[[int], None]
) -> tuple[Path, str]:
    """One picture, taken and written; its file, and the lens in words."""
    import torch

    from dofnerf.optics import to_display, to_linear
    from dofnerf.studio.shoot import photograph, sharp_picture

    samples, blur = config.shot.lens_samples, config.shot.blur(source)
    photos, number = None, 0
    if config.shot.as_shot and source.run is not None and view.photo in source.run.setting.photos:
        photos, number = source.run.learner.quantities, source.run.setting.photos.index(view.photo)
        view = replace(view, camera=photos.camera(view.camera, number))
    try:
        sharp, picture = sharp_picture(source.model, view.camera)
        lens, why = chosen_lens(config, view, picture, source.optics)
    except ValueError as error:
        raise ValueError(f"{config.source}: view {view.name}: {error}") from None
    tick(1)
    if lens is None:
        light = to_linear(sharp.image, blur.light).cpu().numpy()
        tick(max(samples, 1))
    else:
        flat = picture if source.flat else None
        light = photograph(source.model, view.camera, lens, blur, samples, flat, lambda: tick(1))
    if photos is not None:
        with torch.no_grad():
            light = photos.develop_light(torch.from_numpy(light), number).numpy()
    light = light * 2.0**config.shot.exposure
    display = to_display(torch.from_numpy(light), blur.light).numpy()
    path = files.write(i, display, light, picture.disparity, sharp.alpha.cpu().numpy())
    files.note(replace(view, lens=lens), path)
    return path, why if lens is None else f"aperture {lens.aperture:.4g}, focus {lens.focus_depth:.4g}: {why}"


def chosen_lens(
    config: RenderConfig, view: Viewpoint, picture: RGBD, photos: PhotoOptics | None = None
) -> tuple[Lens | None, str]:
    """The lens for a view whose sharp `picture` is known: the photo's own with --as-shot, or by the flags; None is all
    in focus."""
    if not config.shot.as_shot:
        return config.lens.resolve(view.camera, picture, photos)
    assert view.lens is not None  # checked when the views were chosen
    lens = view.lens
    if config.lens.shaped or lens.shape.is_flat:
        lens = lens.with_shape(config.lens.aperture_shape(photos))
    if lens.aperture == 0:
        return None, "as shot"
    largest_blur(picture, [lens])
    return lens, "as shot"


def default_out(source: Path, count: int, form: str | None) -> Path:
    """In the run, or beside the file."""
    if source.is_dir():
        return source / "renders"
    if not is_splat_name(source):
        return source.parent / "renders"
    name = f"{source.stem}-render"
    return source.with_name(name if count > 1 else f"{name}.{(form or 'png').removesuffix('16')}")


def own_format(source: Source) -> str:
    """Of pictures that are as fine as the photos which the source was trained on."""
    setting = None if source.run is None else source.run.setting
    return "png" if setting is None else "exr" if setting.linear else "png16" if setting.deep else "png"


class PictureFiles:
    """The files of some pictures, all checked before the first is made. `inputs` are never replaced. `own` is the
    format where none is asked for; PNG has 16 bits then, unless it is "png".

    One file, or a folder that is a scene of its own: it gets a transforms.json with the camera and the lens of every
    picture, marked as ours. What it lists may be replaced by the next render; anything else that is in the way is
    refused."""

    def __init__(
        self, config: FileFlags, out: Path, names: Sequence[str], inputs: Iterable[Path], own: str = "png"
    ) -> None:
        self.config, self.out, self.single = config, out, _is_picture(out)
        self.deep = (config.format or own) not in ("png", "jpg")
        if self.single and len(names) > 1:
            raise ValueError(f"--out {out}: {len(names)} pictures do not fit into one file; give a folder")
        suffix = out.suffix if self.single else _SUFFIX[config.format or own]
        folder, stems = (out.parent, [out.stem]) if self.single else (out, names)
        self.pictures = [folder / f"{stem}{suffix}" for stem in stems]
        self.entries: list[dict[str, Any]] = [] if self.single else _listed(out)
        theirs = {path.resolve() for path in inputs}
        ours = {entry.get("file_path") for entry in self.entries}
        kinds = ("depth", config.depth), ("alpha", config.alpha)
        for path in self.pictures:
            beside = [path.with_name(f"{path.stem}-{what}.{kind}") for what, kind in kinds if kind is not None]
            for file in (path, *beside):
                if file.resolve() in theirs:
                    raise ValueError(f"--out {out}: would overwrite the input {file}")
                if not self.single and file.exists() and path.name not in ours:
                    raise ValueError(f"{file}: is there, and was not made by dofnerf render; give another --out")
                if file.is_dir():
                    raise ValueError(f"{file}: is a folder, where a picture is to go; give another --out")

    def write(self, i: int, display: np.ndarray, light: np.ndarray, disparity: np.ndarray, alpha: np.ndarray) -> Path:
        """Picture i, (H, W, 3) in display values and in linear light, and what belongs to it, both (H, W)."""
        path = self.pictures[i]
        if is_linear(path):
            write_image(path, light)
        elif self.deep and path.suffix.lower() == ".png":
            write_deep_png(path, display)
        else:
            write_image(path, display)
        if self.config.depth is not None:
            write_map(path.with_name(f"{path.stem}-depth.{self.config.depth}"), depth_map(disparity))
        if self.config.alpha is not None:
            file = path.with_name(f"{path.stem}-alpha.{self.config.alpha}")
            (write_deep_png if self.config.alpha == "png" else write_map)(file, alpha)
        return path

    def note(self, view: Viewpoint, path: Path) -> None:
        """List a picture that was written with its camera and its lens, for a folder."""
        if self.single:
            return
        entry = plain_view(view) | {"file_path": path.name}
        old = [one for one in self.entries if one["file_path"] != path.name]
        kept = [one for one in old if (self.out / str(one["file_path"])).is_file()]
        self.entries = sorted([*kept, entry], key=lambda one: str(one["file_path"]))
        write_json(self.out / LIST, {"made_by": MARK, "camera_model": "PINHOLE", "frames": self.entries})


def _is_picture(out: Path) -> bool:
    """Whether --out names a picture's file rather than a folder."""
    return out.suffix.lower() in IMAGE_SUFFIXES and not out.is_dir()


def _listed(folder: Path) -> list[dict[str, Any]]:
    """What an earlier render put into the folder."""
    file = folder / LIST
    if not file.exists():
        return []
    data = read_json(file)
    if data.get("made_by") != MARK:
        raise ValueError(f"{folder}: holds a scene of its own ({LIST}); give another --out")
    frames = data.get("frames")
    entries = frames if isinstance(frames, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("file_path"), str)]
