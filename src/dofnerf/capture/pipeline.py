"""`dofnerf capture`: a folder of photos, or a video, → a scene's folder.

Each step keeps what it made in SCENE/work, and a second call resumes there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from PIL import Image

from dofnerf.capture.assembly import ScaleBy, assemble, coloured, scaled_by, split
from dofnerf.capture.inputs import Listing, extract_frames, list_files
from dofnerf.capture.mapping import EXHAUSTIVE, FULL, Job, Mapped, Staged, choose_pairs, group_photos, map_photos
from dofnerf.capture.photos import Photo, fingerprint, prepare, read_headers, working_names
from dofnerf.capture.reasons import explain, write_sheet
from dofnerf.files import atomic, write_image, write_json
from dofnerf.files.extras import check_installed
from dofnerf.files.guard import read_json, read_json_value
from dofnerf.files.outputs import check_folder, claim, record_of
from dofnerf.files.ply import write_ply
from dofnerf.files.progress import Progress
from dofnerf.process import keeps, locked
from dofnerf.scenes import Scene, load, write_transforms
from dofnerf.scenes.export import IMAGES, POINTS
from dofnerf.scenes.masks import FOLDER as MASKS
from dofnerf.scenes.masks import MaskFile, mask_file
from dofnerf.scenes.overview import describe_brackets
from dofnerf.scenes.source import eroded, resize

RECORD, RESULT, WORK, SHEET = "capture.json", "result.json", "work", "photos.jpg"
MAKER = "dofnerf capture"
FEWEST = 3
_FAILED, _WRITTEN = "failed", "written"  # in WORK: no scene was found; the model that the scene's pictures are from
_HOLD = 9
_VIDEO = "video-"  # and a number: the folder of its frames in WORK
_ENLARGE, _SMALL = 3.0, 380_000  # smaller photos are enlarged for the features, up to so many times and so many pixels
_SMALLEST = 150_000  # pixels of the small copies
_BYTES = 9  # on disk, for each pixel of the copies, features and the scene's photos
_RIM = 4  # pixels beside what is masked in which no features are looked for


@dataclass(frozen=True)
class CaptureOptions:
    """How photos become a scene."""

    size: int = 1600
    """Pixels of the longer side of the scene's photos, in which features are found, too; larger ones are shrunk."""
    scale_by: Annotated[str | None, tyro.conf.arg(metavar="A,B,METRES", help_behavior_hint="(optional)")] = None
    """Two photos (file names, or numbers from 0) and the distance between them: makes the scene's unit the metre."""
    masks: Annotated[
        Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="(default: masks in or beside PHOTOS)")
    ] = None
    """Masks of the photos, named as they are (NAME.png or NAME.jpg.png): what is black is left out of everything."""
    every: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: so that about 80 come out)")] = None
    """Of a video: take the sharpest of every so many frames."""
    attempts: int = 4
    """How many attempts, with increasingly tolerant settings, while photos lack a pose: 1 to 4."""
    exhaustive: int = EXHAUSTIVE
    """Up to so many photos, every pair is matched; beyond, neighbours in order and similar photos."""
    hold_every: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: 9, or as the scene has it already)")
    ] = None
    """Hold every n-th photo out of training, to test with; 0 for none."""
    keep_work: bool = False
    """Keep the folder work (copies, features, matches, models) when all is done."""

    def check(self) -> None:
        """Refuse values out of range."""
        if not 200 <= self.size <= 20000:
            raise ValueError(f"--size {self.size}: expected 200 to 20000 pixels")
        if not 1 <= self.attempts <= 4:
            raise ValueError(f"--attempts {self.attempts}: expected 1 to 4")
        if self.every is not None and self.every < 1:
            raise ValueError(f"--every {self.every}: expected 1 or more frames")
        if self.hold_every is not None and (self.hold_every < 0 or self.hold_every == 1):
            raise ValueError(f"--hold-every {self.hold_every}: expected 0, or 2 or more")


@dataclass(frozen=True)
class CaptureConfig:
    """Estimate the cameras of photos, and write a scene to train on. Needs the extra `capture`.

    Stopped and called again, it resumes.

    For example:
      dofnerf capture photos --out scene
      dofnerf capture clip.mp4 --out scene --every 15
      dofnerf capture photos --out scene --scale-by IMG_1.jpg,IMG_9.jpg,0.42
    """

    photos: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PHOTOS")]
    """A folder of photos (JPEG, PNG, TIFF, HEIC, RAW, EXR, HDR) of one still scene, or a video (MP4)."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: NAME-scene in the current folder)")] = None
    """The scene's folder: transforms.json, images, points.ply, and a sheet of the photos."""
    capture: CaptureOptions = field(default_factory=CaptureOptions)


def default_out(photos: Path, what: str) -> Path:
    """NAME-scene or the like, in the current folder, after the folder or video of photos."""
    return Path(f"{photos.resolve().stem or 'photos'}-{what}")


def run(config: CaptureConfig) -> Scene:
    """Capture as the config says; returns the scene."""
    out = config.out or default_out(config.photos, "scene")
    with Progress(keep=True) as progress:
        scene = make_scene(config.photos, out, config.capture, progress)
    print(f"scene    {scene.describe()}")
    for note in scene.notes[:1]:
        print(f"         {note}")
    print(f"wrote    {out}; the photos are on {out / SHEET}; next: dofnerf train {shlex.quote(str(out))}")
    return scene


def make_scene(
    photos: Path | str, out: Path | str, options: CaptureOptions | None = None, progress: Progress | None = None
) -> Scene:
    """Make a scene in the folder `out` from a folder of photos or a video; returns it as loaded from there."""
    source, out, options = Path(photos), Path(out), options or CaptureOptions()
    options.check()
    listing = list_files(source)
    check_folder("--out", out)

    def kept() -> str:
        return f"{out}, what is in it so far" if (Path(out) / RECORD).exists() else ""

    try:
        with locked(out), keeps(kept):
            return _capture(source, listing, out, options, progress or Progress(quiet=True))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(f"{out}: {FULL}") from None
        raise


def _capture(source: Path, listing: Listing, out: Path, options: CaptureOptions, progress: Progress) -> Scene:
    scale = None if options.scale_by is None else ScaleBy.parse(options.scale_by)
    if scale is not None and not listing.videos:
        scale.find([path.name for path in listing.photos])
    # What the work depends on: the other options only change the last step, or the number of attempts.
    settings: dict[str, Any] = {"size": options.size, "every": options.every, "exhaustive": options.exhaustive}
    settings["photos"] = fingerprint([*listing.photos, *listing.videos])
    masks = find_masks(source, listing.photos, options.masks)
    if masks:
        settings["masks"] = fingerprint(masks.values())
        progress.say(f"{len(masks)} of {len(listing.photos)} photos have masks in {next(iter(masks.values())).parent}")
    work = out / WORK
    _check_plain(work, out / IMAGES, out / MASKS)
    if (work / _FAILED).is_file() and _record(out / RECORD) != record_of(MAKER, settings):
        shutil.rmtree(work, ignore_errors=True)  # those photos gave no scene: the folder is free for others
        (out / RECORD).unlink(missing_ok=True)
        (out / SHEET).unlink(missing_ok=True)
    begun = (out / RECORD).exists()
    claim(out, RECORD, source if source.is_dir() else None, MAKER, settings)
    if (out / RESULT).is_file():
        return _finished(out, options, scale, progress)
    for warning in listing.warnings:
        progress.say(warning)
    try:
        check_installed("pycolmap", "capture")
        frames, spoiled = _frames(listing, work, options, progress)
        paths = [*listing.photos, *frames]
        photos, left_out = _prepared(source, paths, masks, work, options, progress)
        left_out = spoiled | left_out
    except ValueError:  # there is nothing to resume, so the folder is free for other photos or flags
        if not begun:
            shutil.rmtree(work, ignore_errors=True)
            (out / RECORD).unlink(missing_ok=True)
        raise
    if scale is not None:
        scale.find([path.name for path in paths])
    mapped = _mapped(photos, listing.places, work, options, progress)
    left_out = left_out | explain(photos, mapped)
    _judge(source, out, photos, mapped, left_out)
    if mapped.models > 1:
        progress.say(f"the photos fall into {mapped.models} sets that nothing connects; the largest one is used")
    hold_every = _HOLD if options.hold_every is None else options.hold_every
    scene = assemble(mapped.folder, photos, out.resolve().name, hold_every, mapped.brackets)
    if words := describe_brackets(scene):
        progress.say(f"{words}, each with one pose")
    names = {photo.source: photo.name for photo in photos}
    inputs = [(path.name, names.get(path)) for path in paths]
    if scale is not None:
        scene = scaled_by(scene, scale, inputs)
        progress.say(f"scale: {scale.words([path.name for path in paths])}")
    total = len(paths) + len(spoiled)
    first = (
        f"captured: {len(scene)} of {total} photos have a pose, mean reprojection error {mapped.error:.2f} px "
        f"at {scene.size[0]} px across ({mapped.attempt})"
    )
    reasons = [f"left out: {name}: {reason}" for name, reason in left_out.items()]
    scene = replace(scene, notes=(first, *reasons))
    for line in reasons:
        progress.say(line)
    _write(scene, out, progress, str(mapped.folder.relative_to(work)))
    write_json(
        out / RESULT,
        {
            "registered": len(scene), "photos": total, "error_pixels": mapped.error, "width": scene.size[0],
            "attempt": mapped.attempt, "points": mapped.points, "left_out": left_out, "inputs": inputs,
            "scale_by": options.scale_by, "hold_every": hold_every,
        },
    )  # fmt: skip
    if not options.keep_work:
        shutil.rmtree(work, ignore_errors=True)
    return load(out)


def _check_plain(*folders: Path) -> None:
    """Refuse links and pipes where an earlier capture worked, which makes none: they would be written through."""
    for folder in folders:
        for path in [folder, *folder.rglob("*")] if os.path.lexists(folder) else ():
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise ValueError(f"{path}: a link or a pipe, which no capture makes; remove it, or give another --out")


def _record(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return read_json_value(path)
    return None


def _report(progress: Progress, step: str, done: int, total: int) -> None:
    progress.update(done, label=step, total=total)


def _finished(out: Path, options: CaptureOptions, scale: ScaleBy | None, progress: Progress) -> Scene:
    """The scene that is there, with the scale and held-out photos that are asked for now; without --scale-by, its
    own."""
    scene = load(out)
    result = read_json(out / RESULT)
    kinds = {"hold_every": int, "scale_by": str | None, "left_out": dict, "inputs": list}
    sound = kinds.keys() <= result.keys() and all(isinstance(result[key], kind) for key, kind in kinds.items())
    if not sound or result["hold_every"] < 0 or not all(_is_input(one) for one in result["inputs"]):
        raise ValueError(f"{out / RESULT}: not what a capture leaves; choose another --out")
    hold_every = result["hold_every"] if options.hold_every is None else options.hold_every
    wanted = {"scale_by": options.scale_by or result["scale_by"], "hold_every": hold_every}
    if all(result[key] == value for key, value in wanted.items()):
        lost = len(result["left_out"])
        more = f"; {lost} photos were left out, another --out tries again" if lost else ""
        progress.say(f"{out} is finished already{more}")
        return scene
    progress.say(f"{out} is finished already; only its scale and its held-out photos are changed")
    train, test = split(scene.frames, hold_every)
    scene = replace(scene, train=train, test=test)
    if scale is not None:
        scene = scaled_by(scene, scale, result["inputs"])
        progress.say(f"scale: {scale.words([file for file, _ in result['inputs']])}")
    write_transforms(scene, out, resume=True)
    write_json(out / RESULT, result | wanted)
    return load(out)


def _is_input(pair: Any) -> bool:
    """Whether it is a photo's file, and its name in the scene or None."""
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str | None)


def _frames(
    listing: Listing, work: Path, options: CaptureOptions, progress: Progress
) -> tuple[list[Path], dict[str, str]]:
    """Photos from the videos, and why some videos gave none, by name; a single video must give some."""
    paths, bad = [], {}
    for number, video in enumerate(listing.videos):
        report = partial(_report, progress, f"video {video.name}")
        try:
            paths += extract_frames(video, work / f"{_VIDEO}{number}", options.every, report)
        except ValueError as error:
            if len(listing.photos) + len(listing.videos) == 1:
                raise
            bad[video.name] = str(error).removeprefix(f"{video}: ")
    return paths, bad


def find_masks(source: Path, photos: Sequence[Path], folder: Path | None) -> dict[Path, Path]:
    """The masks of photos: those of `folder`, which must have some, else of a folder masks in or beside the photos'."""
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"--masks {folder}: there is no such folder")
    there = source if source.is_dir() else source.parent
    for place in [there / MASKS, there.resolve().parent / MASKS] if folder is None else [folder]:
        if place.is_dir() and (found := {path: mask for path in photos if (mask := mask_file(place, path.name))}):
            return found
    if folder is not None:
        raise ValueError(f"--masks {folder}: no mask is called like a photo (NAME.png or NAME.jpg.png)")
    return {}


def _prepared(
    source: Path,
    paths: Sequence[Path],
    masks: Mapping[Path, Path],
    work: Path,
    options: CaptureOptions,
    progress: Progress,
) -> tuple[list[Photo], dict[str, str]]:
    headers, bad = read_headers(paths)
    photos: list[Photo] = []
    if len(headers) >= FEWEST:
        pixels = sum(min(1.0, options.size / max(h.stored)) ** 2 * h.stored[0] * h.stored[1] for h in headers)
        _expect_space(work, pixels)
        names = working_names(header.path for header in headers)
        report = partial(_report, progress, "photos")
        photos, left = prepare(headers, names, work / "photos", options.size, report, masks)
        bad |= left
    if len(photos) < FEWEST:
        count = len(paths) - len(bad)
        why = "".join(f"; {name}: {reason}" for name, reason in list(bad.items())[:3])
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        raise ValueError(f"{source}: {count} usable photo{'s' * (count != 1)}, at least {FEWEST} are needed{why}{more}")
    return photos, bad


def _expect_space(work: Path, pixels: float) -> None:
    """Refuse to begin on a disk too full for the copies, features and models of so many pixels."""
    held = 0
    for path in work.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.relative_to(work).parts[0].startswith(_VIDEO):
                held += path.stat().st_size
    there = work
    while not there.exists():
        there = there.parent
    free, need = shutil.disk_usage(there).free, int(_BYTES * pixels) - held
    if free < need:
        room = f"{free >> 20} MB are free on this disk, about {need >> 20} MB are needed"
        raise ValueError(f"{work}: {room}; free some, or lower --size")


def _mapped(
    photos: list[Photo], places: Mapping[Path, str], work: Path, options: CaptureOptions, progress: Progress
) -> Mapped:
    pixels = float(np.median([photo.size[0] * photo.size[1] for photo in photos]))

    def stage(small: bool) -> Staged:
        scale = min(1.0, (_SMALLEST / pixels) ** 0.5) if small else min(max((_SMALL / pixels) ** 0.5, 1.0), _ENLARGE)
        folder = work / ("photos" if scale == 1 else "small" if small else "enlarged")
        if scale != 1:
            for photo in photos:
                _resize(photo, folder, scale)
        masks = folder.with_name(f"{folder.name}-masks") if any(photo.mask for photo in photos) else None
        if masks is not None:
            for photo in photos:
                _stage_mask(photo, masks, scale)
        return Staged(folder, group_photos(photos, scale), scale, masks)

    pairs = [(photos[a].name, photos[b].name) for a, b in choose_pairs([p.file for p in photos], options.exhaustive)]
    about = {
        photo.name: {
            "camera": photo.exif.camera, "taken": photo.exif.taken,
            # Frames of a video are not asked: a camera that rests a while is no bracket.
            "place": places.get(photo.source, photo.name if photo.source.parent.parent == work else ""),
        }
        for photo in photos
    }  # fmt: skip
    job = Job(work, len(photos), pairs, stage, about)
    return map_photos(job, options.attempts, partial(_report, progress), progress.say)


def _resize(photo: Photo, folder: Path, scale: float) -> None:
    """A grey copy, `scale` times as large."""
    target = folder / f"{photo.name}.png"
    if not target.is_file():
        size = round(photo.size[0] * scale), round(photo.size[1] * scale)
        with Image.open(photo.file) as picture, atomic(target) as temporary:
            picture.convert("L").resize(size, Image.Resampling.BICUBIC).save(temporary, compress_level=1)


def _stage_mask(photo: Photo, folder: Path, scale: float) -> None:
    """Where features are looked for in a copy `scale` times as large: not in a rim of what is masked, either. pycolmap
    wants a mask for every photo, or for none."""
    target = folder / f"{photo.name}.png.png"
    if not target.is_file():
        size = photo.size
        mask = np.ones(size[::-1], bool) if photo.mask is None else MaskFile(photo.mask, *size).load()
        mask = resize(mask, round(size[0] * scale), round(size[1] * scale))
        write_image(target, np.uint8(255) * eroded(mask, _RIM))


def _judge(source: Path, out: Path, photos: list[Photo], mapped: Mapped, left_out: Mapping[str, str]) -> None:
    """Draw the sheet; give up if too few photos fit together."""
    count = len(mapped.registered)
    heading = f"{count} of {len(photos)} photos have a pose"
    heading += f", {mapped.error:.2f} px off on average" if count else ""
    write_sheet(out / SHEET, photos, left_out, heading)
    if count < FEWEST or count < 0.3 * len(photos):
        best = max(mapped.matches.values(), default=0)
        (out / WORK / _FAILED).touch()
        together = f"only {count} of {len(photos)} photos fit together" if count else "no photos fit together"
        raise ValueError(
            f"{source}: {together} (at most {best} matches between two); take photos of one still scene, overlapping "
            f"by half, from different places; {out / SHEET} shows them"
        )


def _write(scene: Scene, out: Path, progress: Progress, model: str) -> None:
    made_from = out / WORK / _WRITTEN  # pictures that were undistorted by another model are not of this scene
    if not made_from.is_file() or made_from.read_text(encoding="utf-8") != model:
        for folder in (IMAGES, MASKS):
            shutil.rmtree(out / folder, ignore_errors=True)
        made_from.write_text(model, encoding="utf-8")

    def track(steps: Any) -> Any:
        for i in steps:
            yield i
            _report(progress, "writing", i + 1, len(scene))

    write_transforms(scene, out, resume=True, track=track)
    points = coloured(load(out)).points  # from the undistorted photos, which are quicker to read than to make again
    assert points is not None
    write_ply(out / POINTS, points)
