"""Films of a trained scene: `dofnerf render RUN --path …`.

First what each frame is (its camera and lens) is settled; then frames are shot one by one into a folder beside the
film, and put together in the end. The folder keeps what the film is, so that the same command goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import read_image, write_image, write_json, write_video
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view
from dofnerf.studio import paths
from dofnerf.studio.film_config import FilmConfig
from dofnerf.studio.keyframes import Moment, between, read_keyframes
from dofnerf.studio.lens_config import largest_blur
from dofnerf.studio.numbers import vector
from dofnerf.studio.refocus import SMALLEST_MP4
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shoot_film import photograph_moment
from dofnerf.studio.shot import sharp_picture
from dofnerf.studio.subject import Subject

if TYPE_CHECKING:
    from dofnerf.studio.render import RenderConfig

SMALL = 160  # pixels of the longer side of the views in which focus is looked for
LOOKS = 8  # at such views, over a film, for how much it blurs
CALM = 3.0  # frames over which autofocus evens out
MARK = "film.json"
REACH = 0.06  # of a spiral, in distances to the pivot


def settle(config: RenderConfig, subject: Subject) -> list[Moment]:
    """What each frame is."""
    film = config.film
    if film.keyframes is not None:
        given = read_keyframes(film.keyframes)
        first, last = given[0].time, given[-1].time
        count = film.length(last - first)
        times = np.linspace(first, last, count) if film.frames else first + np.arange(count) / film.fps
        return between(given, [float(time) for time in times], config.viewpoint.width)
    base = config.viewpoint.viewpoints(subject)[0]
    _, picture = sharp_picture(subject.model, base.camera)
    if picture.holes.all():
        raise ValueError(f"{config.source}: view {base.name} shows nothing; give another view")
    cameras = travel(film, subject, base.camera, picture)
    lens = first_lens(config, base, picture)
    shape, exposure = (config.shot.blades, config.shot.rotation), config.shot.exposure
    if lens is None and film.aperture_to is None:
        return [Moment(Viewpoint(base.name, camera), *shape, exposure) for camera in cameras]
    opened = apertures(film, 0.0 if lens is None else lens.aperture, len(cameras))
    focuses = disparities(config, subject, cameras, picture, lens)
    moments = []
    for camera, aperture, disparity in zip(cameras, opened, focuses, strict=True):
        # The lens stays as wide, or grows with its focal length if an f-number was asked for.
        longer = camera.fx / base.camera.fx
        wider = aperture * (longer if config.shot.fstop is None else longer**2)
        seen = Lens(wider, inverse(disparity)) if aperture > 0 else None
        moments.append(Moment(Viewpoint(base.name, camera, seen), *shape, exposure))
    return moments


def check_blur(subject: Subject, moments: Sequence[Moment]) -> None:
    """Refuse blur that can only be a mistake in units, in any frame, by the depth that some of the cameras see."""
    step = math.ceil(len(moments) / LOOKS)
    for first in range(0, len(moments), step):
        part = moments[first : first + step]
        lenses = [moment.view.lens for moment in part if moment.view.lens is not None]
        if lenses:
            _, picture = sharp_picture(subject.model, small_view(part[0].view.camera))
            for lens in lenses:
                largest_blur(
                    picture, lens.aperture, [lens.focus_disparity], "the film's apertures and focus, and units"
                )


def small_view(camera: Camera) -> Camera:
    """The same with few pixels."""
    shrink = max(1.0, max(camera.width, camera.height) / SMALL)
    return camera.resized(max(1, round(camera.width / shrink)), max(1, round(camera.height / shrink)))


def travel(film: FilmConfig, subject: Subject, camera: Camera, picture: RGBD) -> list[Camera]:
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
        others = [view.camera for view in subject.views if not view.held_out]
        if len(others) < 3:
            raise ValueError(
                f"--path ellipse: {subject.source} has fewer than three photos' cameras to go between; use orbit"
            )
        return paths.ellipse(camera, pivot, count, others, once)
    return [camera] * count


def first_lens(config: RenderConfig, base: Viewpoint, picture: RGBD) -> Lens | None:
    """The lens of the first frame; a rack focus, and a point to follow, open it if nobody said how wide."""
    shot, focus, film = config.shot, config.focus, config.film
    wanted = film.rack_focus or film.follow is not None
    if wanted and shot.aperture is shot.paper_k is shot.fstop is None:
        focus = replace(focus, focus=1 / max(picture.disparity_in_the_middle(), 1e-6))
    return shot.resolve(base, picture, focus)[0]


def apertures(film: FilmConfig, first: float, count: int) -> list[float]:
    """In pixels × scene units of the first frame's size and focal length."""
    if film.aperture_to is None:
        return [first] * count
    return [float(value) for value in first + (film.aperture_to - first) * paths.there_and_back(count, film.once)]


def disparities(
    config: RenderConfig, subject: Subject, cameras: Sequence[Camera], picture: RGBD, lens: Lens | None
) -> list[float]:
    """Where the focus is in each frame: as flags say; autofocus, on a pixel or the middle, looks at small views."""
    film, focus = config.film, config.focus
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
    return calm([look(config, subject, camera) for camera in cameras])


def look(config: RenderConfig, subject: Subject, camera: Camera) -> float:
    """The disparity at the pixel of --focus-at, or in the middle; NaN where nothing is."""
    small = small_view(camera)
    _, picture = sharp_picture(subject.model, small)
    try:
        if config.focus.focus_at is None:
            return picture.disparity_in_the_middle() if not picture.holes.all() else math.nan
        x, y = (int(part) for part in config.focus.focus_at.split(","))
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


def shoot(
    config: RenderConfig, subject: Subject, moments: Sequence[Moment], out: Path, tick: Callable[[], None]
) -> None:
    """Shoot what is missing of the frames, and put the film together."""
    camera = moments[0].view.camera
    if out.suffix.lower() == ".mp4" and min(camera.width, camera.height) < SMALLEST_MP4:
        raise ValueError(f"{out}: {camera.width} × {camera.height} pixels are too small for MP4; give --width, or .gif")
    folder = frames_folder(config, subject, moments, out)

    def frames() -> Iterator[np.ndarray]:
        for i, moment in enumerate(moments):
            file = folder / f"{i:05d}.png"
            if not file.is_file():
                samples = config.shot.lens_samples
                write_image(file, photograph_moment(subject, moment, config.shot.layers, samples))
            tick()
            yield read_image(file)

    write_video(out, frames(), config.film.fps)
    shutil.rmtree(folder)


def frames_folder(config: RenderConfig, subject: Subject, moments: Sequence[Moment], out: Path) -> Path:
    """The folder of this film's frames; frames of another film, which only we could have put there, are cleared
    away."""
    plain = [[plain_view(m.view), m.blades, m.other, m.mix, m.rotation, m.exposure] for m in moments]
    settings = [str(subject.light), config.shot.layers, config.shot.lens_samples, _state(subject)]
    digest = hashlib.sha256(json.dumps([plain, settings]).encode()).hexdigest()
    folder = out.with_name(f"{out.stem}-frames")
    mark = folder / MARK
    if folder.exists() and not mark.is_file():
        raise ValueError(f"{folder}: is there, and is not of a film that was stopped; give another --out")
    if mark.is_file():
        try:
            same = json.loads(mark.read_text(encoding="utf-8")).get("film") == digest
        except (ValueError, AttributeError):
            same = False
        if same:
            return folder
        for file in folder.glob("[0-9]*.png"):
            file.unlink()
    write_json(mark, {"film": digest, "about": "frames of a film that is being made; it goes on by the same command"})
    return folder


def _state(subject: Subject) -> str:
    """What is filmed, and how it is drawn: all of the model's tensors, and the style of splats."""
    digest = hashlib.sha256(f"{getattr(subject.model, 'style', None)} {subject.flat}".encode())
    for name, tensor in sorted(subject.model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()
