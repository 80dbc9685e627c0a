"""Films of a trained scene: `dofnerf render RUN --path …`.

First what each frame is (its camera and lens) is settled; then frames are shot one by one into a folder beside the
film, and put together in the end. The folder keeps what the film is, so that the same command goes on where it stopped.
With --depth, a second folder gets the depth of every frame, and stays.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf.camera import Camera
from dofnerf.files import read_image, write_image, write_json, write_map, write_video
from dofnerf.files.guard import read_json
from dofnerf.files.outputs import check_file
from dofnerf.files.progress import Progress
from dofnerf.optics.lens import Lens, inverse
from dofnerf.process import keeps, locked
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view
from dofnerf.studio import paths
from dofnerf.studio.flags import (
    FPS,
    MOST_FRAMES,
    OPTIONAL,
    SMALLEST_MP4,
    LensFlags,
    check_aperture,
    check_positive,
    check_within,
    default,
    given,
    largest_blur,
    one_of,
    shape_by,
    vector,
)
from dofnerf.studio.keyframes import Moment, between, read_keyframes
from dofnerf.studio.rgbd import RGBD, depth_map
from dofnerf.studio.source import Source

if TYPE_CHECKING:
    from dofnerf.models import Blur
    from dofnerf.studio.render import RenderConfig
    from dofnerf.train.scale import PhotoOptics

SUFFIXES = (".mp4", ".gif")
SMALL = 160  # pixels of the longer side of the views in which focus is looked for
LOOKS = 8  # at such views, over a film, for how much it blurs
CALM = 3.0  # frames over which autofocus evens out
MARK = "film.json"
REACH = 0.06  # of a spiral, in distances to the pivot


@dataclass(frozen=True)
class FilmFlags:
    """A film instead of pictures: --path, --keyframes, --rack-focus or --aperture-to make one, as MP4 (H.264) or GIF by
    --out. It begins at the first of the views. Stopped and started again, it keeps the frames that are done. With
    --focus-at, focus stays on that pixel whatever comes to lie there; with --focus, at that depth."""

    path: Annotated[Literal["still", "spiral", "orbit", "ellipse", "dolly-zoom"] | None, OPTIONAL] = None
    """A film along this path. spiral: two small rounds. orbit: around what is in the middle. ellipse: between the
    photos' cameras. dolly-zoom: away, with a longer lens, so that what is in the middle stays as large. still: only the
    lens moves."""
    keyframes: Annotated[Path | None, OPTIONAL] = None
    """A JSON of cameras (transforms.json) whose poses, lenses, blades and exposures are passed through smoothly."""
    rack_focus: bool = False
    """A film whose focus goes from near to far, and back unless --once."""
    aperture_to: Annotated[float | None, OPTIONAL] = None
    """Open (or close) the lens from --aperture to this, and back unless --once."""
    follow: Annotated[str | None, tyro.conf.arg(metavar="X,Y,Z", help_behavior_hint="(optional)")] = None
    """Keep this point of the scene in focus."""
    frames: Annotated[int | None, default("96; by the times of --keyframes")] = None
    """Frames of the film, 2 to 10000."""
    fps: float = 24.0
    """Frames a second, 0.1 to 240."""
    once: bool = False
    """One way only; otherwise the film comes back and loops."""
    degrees: Annotated[float | None, default("30")] = None
    """How far an orbit swings; 360 is full circle."""
    reach: Annotated[float | None, default("6 % of the distance to the middle")] = None
    """Radius of a spiral in scene units."""
    zoom: Annotated[float | None, default("1.6")] = None
    """How many times farther a dolly-zoom goes; below 1, nearer."""

    @property
    def asked(self) -> bool:
        """Whether this is about a film at all."""
        return self.path is not None or self.keyframes is not None or self.rack_focus or self.aperture_to is not None

    def check(self, lens: LensFlags, out: Path | None) -> None:
        """Refuse what no scene could make right; other groups than the lens do not matter here."""
        focuses = [flag for flag in given(self, lens) if flag in ("--rack-focus", "--follow", "--focus", "--focus-at")]
        one_of(focuses, "both say where the focus is")
        check_within("--frames", self.frames, 2, MOST_FRAMES)
        check_within("--fps", self.fps, *FPS)
        check_aperture("--aperture-to", self.aperture_to)
        check_positive(self, "degrees", "reach", "zoom")
        check_within("--zoom", self.zoom, 0.1, 10)
        for flag, path in (("--degrees", "orbit"), ("--reach", "spiral"), ("--zoom", "dolly-zoom")):
            if flag in given(self) and self.path != path:
                raise ValueError(f"{flag} is for --path {path}")
        if self.follow is not None:
            vector("--follow", self.follow)
        if out is not None:
            check_file("--out", out, SUFFIXES)

    def length(self, seconds: float | None = None) -> int:
        """How many frames."""
        if self.frames is not None:
            return self.frames
        if seconds is None:
            return 96
        if not seconds * self.fps < MOST_FRAMES:
            raise ValueError(
                f"{self.keyframes}: {seconds:g} seconds at {self.fps:g} frames a second are more than {MOST_FRAMES} "
                "frames; give --frames, or a smaller --fps"
            )
        return max(2, math.floor(seconds * self.fps) + 1)


def make_film(config: RenderConfig, source: Source) -> Path:
    """A film that begins at the first of the views, or of keyframes; returns its file."""
    blur = config.shot.blur(source)
    source = replace(source, light=blur.light)
    out = config.files.out or source.folder / "films" / f"{config.film.path or 'film'}.mp4"
    print(f"scene    {source.words}", flush=True)
    moments = settle(config, source)
    check_blur(source, moments)
    camera = moments[0].view.camera
    fps = f"{config.film.fps:g} a second"
    print(f"film     {len(moments)} frames of {camera.width} × {camera.height} at {fps}", flush=True)
    with Progress("film", len(moments)) as bar:
        shoot(config, source, moments, out, bar.advance)
    print(f"wrote    {out}", flush=True)
    if config.files.depth is not None:
        words = f"depth of each frame in {depth_unit(config, source)[1]}"
        print(f"wrote    {depth_folder(out)}  ({words})", flush=True)
    return out


def settle(config: RenderConfig, source: Source) -> list[Moment]:
    """What each frame is."""
    film = config.film
    if film.keyframes is not None:
        given = read_keyframes(film.keyframes)
        first, last = given[0].time, given[-1].time
        count = film.length(last - first)
        times = np.linspace(first, last, count) if film.frames else first + np.arange(count) / film.fps
        return between(given, [float(time) for time in times], config.viewpoint.width)
    from dofnerf.studio.shoot import sharp_picture
    from dofnerf.studio.viewpoints import viewpoints

    base = viewpoints(config.viewpoint, source)[0]
    _, picture = sharp_picture(source.model, base.camera)
    if picture.holes.all():
        raise ValueError(f"{config.source}: view {base.name} shows nothing; give another view")
    cameras = travel(film, source, base.camera, picture)
    lens = first_lens(config, base, picture, source.optics)
    flags = config.lens

    def moment(camera: Camera, lens: Lens | None) -> Moment:
        view = Viewpoint(base.name, camera, lens)
        return Moment(view, flags.blades, flags.rotation, config.shot.exposure, shape=flags.shape)

    if lens is None and film.aperture_to is None:
        return [moment(camera, None) for camera in cameras]
    opened = apertures(film, 0.0 if lens is None else lens.aperture, len(cameras))
    focuses = disparities(config, source, cameras, picture, lens)
    moments = []
    for camera, aperture, disparity in zip(cameras, opened, focuses, strict=True):
        # The lens stays as wide, or grows with its focal length if an f-number was asked for.
        longer = camera.fx / base.camera.fx
        wider = aperture * (longer if flags.fstop is None else longer**2)
        seen = Lens(wider, inverse(disparity)) if aperture > 0 else None
        moments.append(moment(camera, seen))
    return moments


def check_blur(source: Source, moments: Sequence[Moment]) -> None:
    """Refuse blur that can only be a mistake in units, in any frame, by the depth that some of the cameras see."""
    from dofnerf.studio.shoot import sharp_picture

    step = math.ceil(len(moments) / LOOKS)
    for first in range(0, len(moments), step):
        part = moments[first : first + step]
        lenses = [moment.view.lens for moment in part if moment.view.lens is not None]
        if lenses:
            _, picture = sharp_picture(source.model, small_view(part[0].view.camera))
            largest_blur(picture, lenses, "the film's apertures and focus, and units")


def small_view(camera: Camera) -> Camera:
    """The same with few pixels."""
    shrink = max(1.0, max(camera.width, camera.height) / SMALL)
    return camera.resized(max(1, round(camera.width / shrink)), max(1, round(camera.height / shrink)))


def travel(film: FilmFlags, source: Source, camera: Camera, picture: RGBD) -> list[Camera]:
    """The cameras of all frames."""
    count, once = film.length(), film.once
    depth = 1 / max(picture.disparity_in_the_middle(), 1e-6)
    pivot = camera.position + camera.forward * depth
    if film.path == "spiral":
        return paths.spiral(camera, pivot, count, film.reach or REACH * depth, once)
    if film.path == "orbit":
        return paths.orbit(camera, pivot, count, film.degrees or 30.0, once)
    if film.path == "dolly-zoom":
        return paths.dolly_zoom(camera, pivot, count, film.zoom or 1.6, once)
    if film.path == "ellipse":
        others = [view.camera for view in source.views if not view.held_out]
        if len(others) < 3:
            raise ValueError(
                f"--path ellipse: {source.path} has fewer than three photos' cameras to go between; use orbit"
            )
        return paths.ellipse(camera, pivot, count, others, once)
    return [camera] * count


def first_lens(config: RenderConfig, base: Viewpoint, picture: RGBD, photos: PhotoOptics | None = None) -> Lens | None:
    """The lens of the first frame; a rack focus, and a point to follow, open it if no flag says how wide."""
    lens, film = config.lens, config.film
    if (film.rack_focus or film.follow is not None) and not lens.opened:
        lens = replace(lens, focus=1 / max(picture.disparity_in_the_middle(), 1e-6))
    return lens.resolve(base.camera, picture, photos)[0]


def apertures(film: FilmFlags, first: float, count: int) -> list[float]:
    """In pixels × scene units of the first frame's size and focal length."""
    if film.aperture_to is None:
        return [first] * count
    return [float(value) for value in first + (film.aperture_to - first) * paths.there_and_back(count, film.once)]


def disparities(
    config: RenderConfig, source: Source, cameras: Sequence[Camera], picture: RGBD, lens: Lens | None
) -> list[float]:
    """Where the focus is in each frame: as flags say; autofocus, on a pixel or the middle, looks at small views."""
    film, focus = config.film, config.lens
    if film.rack_focus:
        far, near = picture.disparity_range()
        return [float(near + (far - near) * share) for share in paths.there_and_back(len(cameras), film.once)]
    if focus.focus is not None:
        return [1 / focus.focus] * len(cameras)
    if film.follow is not None:
        point = np.array(vector("--follow", film.follow))[None]
        depths = [float(camera.project(point)[1][0]) for camera in cameras]
        if min(depths) <= 0:
            raise ValueError(
                f"--follow {film.follow}: the point is behind the camera in frame {int(np.argmin(depths))}"
            )
        return [1 / depth for depth in depths]
    if film.path in (None, "still"):
        only = focus.disparity(picture)[0] if lens is None else lens.focus_disparity
        return [only] * len(cameras)
    return calm([look(config, source, camera) for camera in cameras])


def look(config: RenderConfig, source: Source, camera: Camera) -> float:
    """The disparity at the pixel of --focus-at, or in the middle; NaN where nothing is."""
    from dofnerf.studio.shoot import sharp_picture

    small = small_view(camera)
    _, picture = sharp_picture(source.model, small)
    try:
        if config.lens.focus_at is None:
            return picture.disparity_in_the_middle() if not picture.holes.all() else math.nan
        x, y = (int(part) for part in config.lens.focus_at.split(","))
        return picture.disparity_at(int(x * small.width / camera.width), int(y * small.height / camera.height), reach=1)
    except ValueError:
        return math.nan


def calm(values: Sequence[float]) -> list[float]:
    """A row of numbers, gaps bridged, evened out as a hand on a focus ring would."""
    row = np.asarray(values, float)
    known = np.flatnonzero(np.isfinite(row))
    if not len(known):
        raise ValueError("the film shows nothing to focus on; give --focus, or another view")
    row = np.interp(np.arange(len(row)), known, row[known])
    offsets = np.arange(-math.ceil(3 * CALM), math.ceil(3 * CALM) + 1)
    weights = np.exp(-0.5 * (offsets / CALM) ** 2)
    padded = np.pad(row, len(offsets) // 2, mode="edge")
    return [float(value) for value in np.convolve(padded, weights / weights.sum(), mode="valid")]


def shoot(config: RenderConfig, source: Source, moments: Sequence[Moment], out: Path, tick: Callable[[], None]) -> None:
    """Shoot what is missing of the frames, and put the film together."""
    from dofnerf.studio.shoot import sharp_picture
    from dofnerf.web.start_page import add_film

    camera = moments[0].view.camera
    if out.suffix.lower() == ".mp4" and min(camera.width, camera.height) < SMALLEST_MP4:
        raise ValueError(f"{out}: {camera.width} × {camera.height} pixels are too small for MP4; give --width, or .gif")
    folder, film = out.with_name(f"{out.stem}-frames"), film_digest(config, source, moments)
    mark_folder(folder, film, "frames of a film that is being made; it goes on by the same command")
    depths, (unit, words) = depth_folder(out), depth_unit(config, source)
    if config.files.depth is not None:
        mark_folder(depths, f"{film} {unit}", f"depth of each frame of {out.name}, along the optical axis, in {words}")

    def frames() -> Iterator[np.ndarray]:
        for i, moment in enumerate(moments):
            file, depth = folder / f"{i:05d}.png", depths / f"{i:05d}.{config.files.depth}"
            if config.files.depth is not None and not depth.is_file():
                write_map(depth, depth_map(sharp_picture(source.model, moment.view.camera)[1].disparity) * unit)
            if not file.is_file():
                write_image(file, photograph_moment(source, moment, config.shot.blur(source), config.shot.lens_samples))
            tick()
            yield read_image(file)

    def kept() -> str:
        return f"{len(list(folder.glob('[0-9]*.png')))} of {len(moments)} frames in {folder}"

    with locked(folder), keeps(kept):
        write_video(out, frames(), config.film.fps)
    shutil.rmtree(folder)
    add_film(out)


def depth_folder(out: Path) -> Path:
    """Where the depth of a film's frames goes."""
    return out.with_name(f"{out.stem}-depth")


def depth_unit(config: RenderConfig, source: Source) -> tuple[float, str]:
    """What a scene unit is in the depth of a film's frames: in metres where the scale is known, else 1; and the unit's
    name."""
    scale = config.lens.scale(source.optics)
    return (1.0, "scene units") if scale is None else (scale.metres, "metres")


def film_digest(config: RenderConfig, source: Source, moments: Sequence[Moment]) -> str:
    """What the frames depend on: another film has another."""
    plain = [[plain_view(m.view), m.shape, m.blades, m.other, m.mix, m.rotation, m.exposure] for m in moments]
    settings = [str(source.light), config.shot.layers, config.shot.lens_samples, _state(source)]
    return hashlib.sha256(json.dumps([plain, settings]).encode()).hexdigest()


def mark_folder(folder: Path, film: str, about: str) -> None:
    """Make a folder for the frames of a film; those of another film, which only we could have put there, are cleared
    away."""
    mark = folder / MARK
    if folder.exists() and not mark.is_file():
        raise ValueError(f"{folder}: is there, and is not of a film that was stopped; give another --out")
    if mark.is_file():
        try:
            same = read_json(mark).get("film") == film
        except ValueError:
            same = False
        if same:
            return
        for file in folder.glob("[0-9]*.*"):
            file.unlink()
    write_json(mark, {"film": film, "about": about})


def _state(source: Source) -> str:
    """What is filmed, and how it is drawn: all of the model's tensors, and the style of splats."""
    digest = hashlib.sha256(f"{getattr(source.model, 'style', None)} {source.flat}".encode())
    for name, tensor in sorted(source.model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()


def photograph_moment(source: Source, moment: Moment, blur: Blur, samples: int = 0) -> np.ndarray:
    """(H, W, 3), display values, through the moment's lens; of two shapes, the mix of their light. Blur is made as in
    `shoot.photograph`, in the light of `blur`."""
    import torch

    from dofnerf.optics import to_display, to_linear
    from dofnerf.studio.shoot import photograph, picture_with_depth, sharp_picture

    view = moment.view
    if view.lens is None:
        sharp = source.model.view(view.camera)
        picture_with_depth(sharp)  # refuses NaN
        total = to_linear(sharp.image, blur.light).cpu().numpy()
    else:
        flat = sharp_picture(source.model, view.camera)[1] if source.flat and not samples else None
        shares = {(moment.shape, moment.blades): 1 - moment.mix}
        if moment.mix > 0:
            shares[moment.other] = shares.get(moment.other, 0.0) + moment.mix
        total = np.zeros((view.camera.height, view.camera.width, 3), np.float32)
        for (name, blades), share in shares.items():
            lens = view.lens.with_shape(shape_by(name, blades, moment.rotation, source.optics))
            if share > 0:
                total += share * photograph(source.model, view.camera, lens, blur, samples, flat)
    shown = to_display(torch.from_numpy(total * 2.0**moment.exposure), blur.light)
    return shown.clamp(0, 1).numpy()
