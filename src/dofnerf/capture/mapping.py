"""Poses for prepared photos by pycolmap, which runs in a process of its own: increasingly tolerant attempts.

Defocus takes fine features away and leaves few, large ones of low contrast. So the later attempts take weaker features,
describe them over several sizes and with affine shape (domain-size pooling), search for more matches along the epipolar
lines once these are known (guided matching), and accept a photo with fewer of them. That costs time and admits wrong
matches, so it is not the first attempt. Strongly blurred photos match better when they are small, where noise counts
for less, too: one attempt works on small copies.

All that was computed stays in the work folder: features and matches in a database, each attempt's models and summary
beside it. A second call resumes there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dofnerf import process
from dofnerf.capture.photos import Photo
from dofnerf.files import write_json
from dofnerf.files.guard import first_line, inside, read_json
from dofnerf.files.outputs import open_log

CHILD = Path(__file__).parent / "colmap_child.py"
LOG = "pycolmap.log"
FULL = "the disk is full; free some space and run the same command again, which resumes"
EXHAUSTIVE = 80  # up to so many photos every pair is matched
NEIGHBOURS = 8  # in order, on each side; then every 16th, 32nd …
SIMILAR = 12  # most similar photos, by their thumbnails
_THUMBNAIL = 24  # pixels along a side of those
_FOCAL_GUESS = 1.2  # focal length as a fraction of the longer side, where EXIF has none
Report = Callable[[str, int, int], None]
Options = dict[str, Any]  # names of pycolmap's options → values or further names


@dataclass(frozen=True)
class Attempt:
    """`features` names a database: attempts of the same name share one. `small` asks for small copies of the photos.

    The rest are options of pycolmap.
    """

    name: str
    features: str
    extraction: Options = field(default_factory=dict)
    matching: Options = field(default_factory=dict)
    verification: Options = field(default_factory=dict)
    mapping: Options = field(default_factory=dict)
    small: bool = False


_USUAL_SIFT = {"peak_threshold": 0.004, "max_num_features": 6000}
_ROBUST_SIFT = {
    "peak_threshold": 0.0015, "max_num_features": 5000, "estimate_affine_shape": True, "domain_size_pooling": True,
}  # fmt: skip
_TOLERANT = {
    "min_num_matches": 8,
    "init_num_trials": 500,
    "mapper": {
        "init_min_num_inliers": 40, "init_min_tri_angle": 4.0, "init_max_error": 6.0, "abs_pose_min_num_inliers": 12,
        "abs_pose_min_inlier_ratio": 0.1, "max_reg_trials": 8,
    },
}  # fmt: skip
ATTEMPTS = (
    Attempt("usual settings", "plain", {"sift": _USUAL_SIFT}),
    Attempt("usual features, mapped more tolerantly", "plain", {"sift": _USUAL_SIFT}, mapping=_TOLERANT),
    Attempt(
        "weak features of small copies, affine and pooled over sizes, guided matching", "small",
        {"sift": _ROBUST_SIFT}, {"guided_matching": True}, mapping=_TOLERANT, small=True,
    ),
    Attempt(
        "the same with large copies", "robust",
        {"sift": _ROBUST_SIFT}, {"guided_matching": True, "sift": {"max_ratio": 0.85}},
        {"min_num_inliers": 10, "ransac": {"min_inlier_ratio": 0.1}}, _TOLERANT,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Photos (by name) of one camera; `focal` is its first guess in pixels at `size`, `known` whether EXIF gave it."""

    names: tuple[str, ...]
    size: tuple[int, int]
    focal: float
    known: bool

    def plain(self) -> dict[str, Any]:
        """For the child process: COLMAP's SIMPLE_RADIAL has focal length, principal point and one distortion."""
        width, height = self.size
        params = [self.focal, width / 2, height / 2, 0.0]
        names = [f"{name}.png" for name in self.names]
        return {"names": names, "width": width, "height": height, "params": params, "known": self.known}


def group_photos(photos: list[Photo], enlarge: float) -> list[Group]:
    """Photos that share a camera, in the order of their first photo; sizes are those of the copies, times `enlarge`.

    They have one size, and the same body, lens and focal length in EXIF. Photos of one size without EXIF count as taken
    by one camera: a model with few unknowns survives blur better.
    """
    members: dict[tuple[Any, ...], list[Photo]] = {}
    for photo in photos:
        exif = photo.exif
        key = (exif.camera, exif.lens, exif.focal_length, exif.focal_length_35, photo.size)
        members.setdefault(key, []).append(photo)
    groups = []
    for own in members.values():
        width, height = (round(side * enlarge) for side in own[0].size)
        focal = own[0].exif.focal_pixels(width, height)
        guess = focal if focal is not None else _FOCAL_GUESS * max(width, height)
        groups.append(Group(tuple(photo.name for photo in own), (width, height), guess, focal is not None))
    return groups


def choose_pairs(files: Sequence[Path], exhaustive: int = EXHAUSTIVE) -> list[tuple[int, int]]:
    """Pairs of indices into `files` to match, the smaller first, without doubles: all pairs of up to `exhaustive`
    photos; of more, neighbours in order and those of similar thumbnails."""
    count = len(files)
    if count <= exhaustive:
        return list(combinations(range(count), 2))
    steps = [*range(1, NEIGHBOURS + 1), *(2**power for power in range(4, 30) if 2**power < count)]
    pairs = {(i, i + step) for i in range(count) for step in steps if i + step < count}
    similar = most_similar(np.stack([_thumbnail(file) for file in files]), SIMILAR)
    pairs |= {(min(i, int(j)), max(i, int(j))) for i, row in enumerate(similar) for j in row}
    return sorted(pairs)


def most_similar(vectors: np.ndarray, count: int) -> np.ndarray:
    """For each of N unit vectors (N, D) the indices (N, count) of those most similar to it, itself left out."""
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    return np.argsort(-similarity, axis=1)[:, :count]


def _thumbnail(file: Path) -> np.ndarray:
    with Image.open(file) as picture:
        small = picture.convert("L").resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.float64).ravel()
    grey -= grey.mean()
    return grey / (np.linalg.norm(grey) + 1e-9)


@dataclass(frozen=True)
class Mapped:
    """An attempt's best model: `folder` (COLMAP's), `registered` photos, mean `error` in pixels of the scene's photos.

    `features` and `matches` (inliers with the best partner) are there for every photo, by name; `models` counts the
    unconnected sets of photos, of which this is the largest. `brackets` are sets of photos of one place.
    """

    attempt: str
    folder: Path
    registered: tuple[str, ...]
    error: float
    points: int
    features: dict[str, int] = field(default_factory=dict)
    matches: dict[str, int] = field(default_factory=dict)
    models: int = 1
    brackets: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Staged:
    """Copies in which features are found: a folder `photos` of `NAME.png`, `scale` times as large as the scene's; and a
    folder `masks` of `NAME.png.png`, if any photo has one."""

    photos: Path
    groups: Sequence[Group]
    scale: float
    masks: Path | None = None


@dataclass(frozen=True)
class Job:
    """What to map: `count` photos; `pairs` are names; `work` is where all is kept; `stage(small)` makes the copies.
    `about` says of each photo by which `camera` and when it was `taken`, and its `place`, if that is known."""

    work: Path
    count: int
    pairs: Sequence[tuple[str, str]]
    stage: Callable[[bool], Staged]
    about: dict[str, dict[str, Any]]


def map_photos(job: Job, attempts: int, report: Report, say: Callable[[str], None]) -> Mapped:
    """Try until all photos are registered, at most so many `attempts`; the best, by photos and then by error."""
    best: Mapped | None = None
    for number, attempt in enumerate(ATTEMPTS[:attempts]):
        if best is not None:
            say(f"{len(best.registered)} of {job.count} photos have a pose; trying {attempt.name}")
        found = _try(job, number, attempt, report)
        if best is None or (len(found.registered), -found.error) > (len(best.registered), -best.error):
            best = found
        if len(best.registered) == job.count:
            break
    assert best is not None
    return best


def _try(job: Job, number: int, attempt: Attempt, report: Report) -> Mapped:
    folder = job.work / f"attempt-{number}"
    summary = folder / "summary.json"
    staged = job.stage(attempt.small)
    task = {
        "photos": str(staged.photos),
        "masks": "" if staged.masks is None else str(staged.masks),
        "database": str(job.work / f"{attempt.features}.db"),
        "models": str(folder / "models"),
        "summary": str(summary),
        "groups": [group.plain() for group in staged.groups],
        "pairs": [(f"{one}.png", f"{other}.png") for one, other in job.pairs],
        "about": {f"{name}.png": said for name, said in job.about.items()},
        "extraction": attempt.extraction,
        "matching": attempt.matching,
        "verification": attempt.verification,
        "mapping": attempt.mapping,
        "threads": _threads(),
    }
    if not summary.is_file():
        write_json(folder / "task.json", task)
        run_child(folder / "task.json", job.work / LOG, report)
    found = read_json(summary)
    try:
        return _best(attempt, folder / "models", found, staged.scale)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{summary}: not what an attempt leaves ({first_line(error)}); remove {job.work}") from None


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _best(attempt: Attempt, folder: Path, summary: dict[str, Any], scale: float) -> Mapped:
    features, matches = (
        {Path(name).stem: int(count) for name, count in summary[key].items()} for key in ("features", "matches")
    )
    models = sorted(summary["models"], key=lambda model: (-len(model["registered"]), model["error"]))
    if not models:
        return Mapped(attempt.name, folder, (), float("inf"), 0, features, matches, 0)
    first = models[0]
    names = tuple(Path(name).stem for name in first["registered"])
    others = sum(len({*model["registered"]} - {*first["registered"]}) >= 3 for model in models[1:])
    error = float(first["error"]) / scale
    brackets = tuple(tuple(Path(name).stem for name in members) for members in summary.get("brackets", []))
    inside(folder, first["folder"], "models")
    found, points = folder / first["folder"], int(first["points"])
    return Mapped(attempt.name, found, names, error, points, features, matches, 1 + others, brackets)


def run_child(task: Path, log: Path, report: Report) -> None:
    """Run the child on a task; its messages go to `report`, what it prints to `log`. ValueError if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # pycolmap has threads of its own, by the task
    start = log.stat().st_size if log.exists() else 0
    with open_log(log) as printed:
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(task)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=printed, text=True, encoding="utf-8",
            env=environment,
        )  # fmt: skip
        with process.child(child):
            assert child.stdout is not None
            for line in child.stdout:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    message = json.loads(line)
                    report(message["step"], message["done"], message["total"])
            code = child.wait()
    if code != 0:
        raise ValueError(f"{_complaint(log, start, code)}; the log is {log}")


def _complaint(log: Path, start: int, code: int) -> str:
    with open(log, "rb") as file:
        file.seek(start)
        lines = file.read()[-20_000:].decode("utf-8", errors="replace").splitlines()
    text = "\n".join(lines)
    if "No space left" in text or "database or disk is full" in text or "disk I/O error" in text:
        return f"{log.parent}: {FULL}"
    telling = [line for line in lines if line.strip() and not line.startswith(("I2", "W2", " ", "Traceback"))]
    return f"pycolmap failed ({code}): {first_line(ValueError(telling[-1])) if telling else 'no message'}"
