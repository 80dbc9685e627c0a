"""The way from photos to a scene, step by step; each step keeps what it made in SCENE/work, and a second call goes on
there."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from PIL import Image

from dofnerf.capture.assembly import ScaleBy, assemble, coloured, scaled_by, split
from dofnerf.capture.groups import group_photos
from dofnerf.capture.listing import Listing, list_files
from dofnerf.capture.mapping import FULL, Job, Mapped, Staged, expect_pycolmap, map_photos
from dofnerf.capture.pairs import EXHAUSTIVE, choose_pairs
from dofnerf.capture.photos import Photo, fingerprint, prepare, read_headers, working_names
from dofnerf.capture.verdicts import explain, write_sheet
from dofnerf.capture.video import extract_frames
from dofnerf.files import atomic, write_json
from dofnerf.files.outputs import check_folder
from dofnerf.files.ply import write_ply
from dofnerf.files.progress import Progress
from dofnerf.scenes import Scene, load, write_transforms
from dofnerf.scenes.export import IMAGES, POINTS
from dofnerf.scenes.making import claim, content_of

RECORD, RESULT, WORK, SHEET = "capture.json", "result.json", "work", "photos.jpg"
MAKER = "dofnerf capture"
_FAILED, _WRITTEN = "failed", "written"  # in WORK: no scene came of it; from which model the scene's pictures are
_HOLD = 9
_VIDEO = "video-"  # and a number: the folder of its frames in WORK
FEWEST = 3
_ENLARGE, _SMALL = 3.0, 380_000  # small photos are enlarged for the features, up to so many times and so many pixels
_SMALLEST = 150_000  # pixels of the small copies
_BYTES = 9  # on disk, for each pixel of the copies, features and the scene's photos


@dataclass(frozen=True)
class CaptureOptions:
    """How photos become a scene."""

    size: int = 1600
    """The longer side of the scene's photos, in pixels, at which features are looked for, too; larger photos are
    shrunk."""
    scale_by: Annotated[str | None, tyro.conf.arg(metavar="A,B,METRES")] = None
    """Two photos (file names, or numbers from 0) and how far apart they were taken: makes the scene's unit the
    metre."""
    every: int | None = None
    """Of a video: take the sharpest of every so many frames (default: so that about 80 come out)."""
    attempts: int = 4
    """How many times to try, with ever more tolerant settings, while photos lack a pose: 1 to 4."""
    exhaustive: int = EXHAUSTIVE
    """Up to so many photos, each is compared with each; beyond, with those beside it and those that look alike."""
    hold_every: Annotated[
        int | None, tyro.conf.arg(help_behavior_hint="(default: 9, or as the scene has it already)")
    ] = None
    """Hold every n-th photo out of training, to test with; 0 for none."""
    keep_work: bool = False
    """Keep the folder work (copies, features, matches, models) when all is done."""

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not 200 <= self.size <= 20000:
            raise ValueError(f"--size {self.size}: expected 200 to 20000 pixels")
        if not 1 <= self.attempts <= 4:
            raise ValueError(f"--attempts {self.attempts}: expected 1 to 4")
        if self.every is not None and self.every < 1:
            raise ValueError(f"--every {self.every}: expected 1 or more frames")
        if self.hold_every is not None and (self.hold_every < 0 or self.hold_every == 1):
            raise ValueError(f"--hold-every {self.hold_every}: expected 0, or 2 or more")


def capture(
    source: Path | str, out: Path | str, options: CaptureOptions | None = None, display: Progress | None = None
) -> Scene:
    """Make a scene in the folder `out` from the photos in `source`, or from a video; returns it as loaded from
    there."""
    try:
        return _capture(Path(source), Path(out), options or CaptureOptions(), display or Progress(quiet=True))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(f"{out}: {FULL}") from None
        raise


def _capture(source: Path, out: Path, options: CaptureOptions, display: Progress) -> Scene:
    options.check()
    scale = None if options.scale_by is None else ScaleBy.parse(options.scale_by)
    listing = list_files(source)
    check_folder("--out", out)
    if scale is not None and not listing.videos:
        scale.find([path.name for path in listing.photos])
    settings = _settings(options) | {"photos": fingerprint([*listing.photos, *listing.videos])}
    work = out / WORK
    if (work / _FAILED).is_file() and _begun_with(out / RECORD) != content_of(MAKER, settings):
        shutil.rmtree(work, ignore_errors=True)  # those photos gave no scene: the folder is free for others
        (out / RECORD).unlink(missing_ok=True)
        (out / SHEET).unlink(missing_ok=True)
    begun = (out / RECORD).exists()
    claim(out, RECORD, source if source.is_dir() else None, MAKER, settings)
    if (out / RESULT).is_file():
        return _finished(out, options, scale, display)
    for warning in listing.warnings:
        display.say(warning)
    try:
        expect_pycolmap()
        frames, spoiled = _frames(listing, work, options, display)
        paths = [*listing.photos, *frames]
        photos, left_out = _prepared(source, paths, work, options, display)
        left_out = spoiled | left_out
    except ValueError:  # there is nothing to go on with, so the folder is free for other photos or flags
        if not begun:
            shutil.rmtree(work, ignore_errors=True)
            (out / RECORD).unlink(missing_ok=True)
        raise
    if scale is not None:
        scale.find([path.name for path in paths])
    mapped = _mapped(photos, work, options, display)
    left_out = left_out | explain(photos, mapped)
    _judge(source, out, photos, mapped, left_out)
    if mapped.models > 1:
        display.say(f"the photos fall into {mapped.models} sets that nothing connects; the largest one is used")
    hold_every = _HOLD if options.hold_every is None else options.hold_every
    scene = assemble(mapped.folder, photos, out.resolve().name, hold_every)
    names = {photo.source: photo.name for photo in photos}
    inputs = [(path.name, names.get(path)) for path in paths]
    if scale is not None:
        scene = scaled_by(scene, scale, inputs)
        display.say(f"scale: {scale.words([path.name for path in paths])}")
    total = len(paths) + len(spoiled)
    scene = replace(scene, notes=_notes(scene, mapped, total, left_out))
    for name, reason in left_out.items():
        display.say(f"left out: {name}: {reason}")
    _write(scene, out, display, str(mapped.folder.relative_to(work)))
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


def _begun_with(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def _settings(options: CaptureOptions) -> dict[str, Any]:
    """What the work depends on: the rest only changes the last step, or how long it tries."""
    return {key: value for key, value in asdict(options).items() if key in ("size", "every", "exhaustive")}


def _report(display: Progress, step: str, done: int, total: int) -> None:
    display.update(done, label=step, total=total)


def _finished(out: Path, options: CaptureOptions, scale: ScaleBy | None, display: Progress) -> Scene:
    """The scene that is there; its scale and its held-out photos as they are wanted now. No --scale-by: as they
    were."""
    scene = load(out)
    result = json.loads((out / RESULT).read_text(encoding="utf-8"))
    hold_every = result["hold_every"] if options.hold_every is None else options.hold_every
    wanted = {"scale_by": options.scale_by or result["scale_by"], "hold_every": hold_every}
    if all(result[key] == value for key, value in wanted.items()):
        lost = len(result["left_out"])
        more = f"; {lost} photos were left out, another --out tries again" if lost else ""
        display.say(f"{out} is finished already{more}")
        return scene
    display.say(f"{out} is finished already; only its scale and its held-out photos are changed")
    train, test = split(len(scene), hold_every)
    scene = replace(scene, train=train, test=test)
    if scale is not None:
        scene = scaled_by(scene, scale, result["inputs"])
        display.say(f"scale: {scale.words([file for file, _ in result['inputs']])}")
    write_transforms(scene, out, resume=True)
    write_json(out / RESULT, result | wanted)
    return load(out)


def _frames(
    listing: Listing, work: Path, options: CaptureOptions, display: Progress
) -> tuple[list[Path], dict[str, str]]:
    """Photos from the videos, and why some videos gave none, by name; the only one must give some."""
    paths, bad = [], {}
    for number, video in enumerate(listing.videos):
        report = partial(_report, display, f"video {video.name}")
        try:
            paths += extract_frames(video, work / f"{_VIDEO}{number}", options.every, report)
        except ValueError as error:
            if len(listing.photos) + len(listing.videos) == 1:
                raise
            bad[video.name] = str(error).removeprefix(f"{video}: ")
    return paths, bad


def _prepared(
    source: Path, paths: Sequence[Path], work: Path, options: CaptureOptions, display: Progress
) -> tuple[list[Photo], dict[str, str]]:
    headers, bad = read_headers(paths)
    if len(headers) >= FEWEST:
        _expect_space(
            work, sum(min(1.0, options.size / max(h.stored)) ** 2 * h.stored[0] * h.stored[1] for h in headers)
        )
        names = working_names(header.path for header in headers)
        report = partial(_report, display, "photos")
        photos, left = prepare(headers, names, work / "photos", options.size, report)
        bad |= left
    else:
        photos = []
    if len(photos) < FEWEST:
        count = len(paths) - len(bad)
        why = "".join(f"; {name}: {reason}" for name, reason in list(bad.items())[:3])
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        raise ValueError(f"{source}: {count} usable photo{'s' * (count != 1)}, at least {FEWEST} are needed{why}{more}")
    return photos, bad


def _expect_space(work: Path, pixels: float) -> None:
    there = work
    while not there.exists():
        there = there.parent
    free, need = shutil.disk_usage(there).free, int(_BYTES * pixels) - _held(work)
    if free < need:
        raise ValueError(
            f"{work}: {free >> 20} MB are free on this disk, about {need >> 20} MB are needed; free some, or lower --size"
        )


def _held(work: Path) -> int:
    """Bytes of copies, features and models that are there already."""
    total = 0
    for path in work.rglob("*"):
        with contextlib.suppress(OSError):
            total += (
                path.stat().st_size if path.is_file() and not path.relative_to(work).parts[0].startswith(_VIDEO) else 0
            )
    return total


def _mapped(photos: list[Photo], work: Path, options: CaptureOptions, display: Progress) -> Mapped:
    pixels = float(np.median([photo.size[0] * photo.size[1] for photo in photos]))

    def stage(small: bool) -> Staged:
        scale = min(1.0, (_SMALLEST / pixels) ** 0.5) if small else min(max((_SMALL / pixels) ** 0.5, 1.0), _ENLARGE)
        folder = work / ("photos" if scale == 1 else "small" if small else "enlarged")
        if scale != 1:
            for photo in photos:
                _resize(photo, folder, scale)
        return Staged(folder, group_photos(photos, scale), scale)

    pairs = [(photos[a].name, photos[b].name) for a, b in choose_pairs([p.file for p in photos], options.exhaustive)]
    return map_photos(Job(work, len(photos), pairs, stage), options.attempts, partial(_report, display), display.say)


def _resize(photo: Photo, folder: Path, scale: float) -> None:
    """A grey copy, `scale` times as large."""
    target = folder / f"{photo.name}.png"
    if not target.is_file():
        size = round(photo.size[0] * scale), round(photo.size[1] * scale)
        with Image.open(photo.file) as picture, atomic(target) as temporary:
            picture.convert("L").resize(size, Image.Resampling.BICUBIC).save(temporary, compress_level=1)


def _judge(source: Path, out: Path, photos: list[Photo], mapped: Mapped, left_out: Mapping[str, str]) -> None:
    """Draw the sheet; give up if too few photos belong together."""
    count = len(mapped.registered)
    heading = f"{count} of {len(photos)} photos have a pose" + (
        f", {mapped.error:.2f} px off on average" if count else ""
    )
    write_sheet(out / SHEET, photos, left_out, heading)
    if count < FEWEST or count < 0.3 * len(photos):
        best = max(mapped.matches.values(), default=0)
        (out / WORK / _FAILED).touch()
        together = f"only {count} of {len(photos)} photos fit together" if count else "no photos fit together"
        raise ValueError(
            f"{source}: {together} (at most {best} matches between two); take photos of one still thing, overlapping by half, "
            f"from different places; {out / SHEET} shows them"
        )


def _notes(scene: Scene, mapped: Mapped, total: int, left_out: Mapping[str, str]) -> tuple[str, ...]:
    first = (
        f"captured: {len(scene)} of {total} photos have a pose, mean reprojection error {mapped.error:.2f} px "
        f"at {scene.size[0]} px across ({mapped.attempt})"
    )
    return first, *(f"left out: {name}: {reason}" for name, reason in left_out.items())


def _write(scene: Scene, out: Path, display: Progress, model: str) -> None:
    made_from = out / WORK / _WRITTEN  # pictures that another model made straight are not of this scene
    if not made_from.is_file() or made_from.read_text(encoding="utf-8") != model:
        shutil.rmtree(out / IMAGES, ignore_errors=True)
        made_from.write_text(model, encoding="utf-8")

    def track(steps: Any) -> Any:
        for i in steps:
            yield i
            _report(display, "writing", i + 1, len(scene))

    write_transforms(scene, out, resume=True, track=track)
    points = coloured(load(out)).points  # from the straight photos, which are quicker to read than to make again
    assert points is not None
    write_ply(out / POINTS, points)
