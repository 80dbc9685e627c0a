"""A cell: one training (or measurement) on one scene, described by plain values. It is done once; its findings are kept
beside its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dofnerf import scenes
from dofnerf.evaluate.scores import Score
from dofnerf.files import write_json
from dofnerf.files.guard import read_json
from dofnerf.lab.synth import fingerprint
from dofnerf.scenes import PACKAGED, Scene
from dofnerf.scenes.reading import Mix
from dofnerf.train import TrainConfig
from dofnerf.train.folder import CONFIG
from dofnerf.train.plain import to_plain
from dofnerf.train.trainer import difference

CELLS, RESULT, RUN = "cells", "result.json", "run"
Kind = Literal["train", "volume", "cost"]
EVERY = 8  # of the training photos, one is held out for validation
NOT_DONE = "not done"
Findings = dict[str, Any]


@dataclass(frozen=True)
class SceneChoice:
    """A scene by its path (PACKAGED, or absolute), and how it is read."""

    path: str = PACKAGED
    width: int | None = None
    mix: Mix = "auto"
    sharp_photos: bool = False
    """Take the photos as all in focus where the scene has no others."""
    validation: bool = False
    """Hold out some of the training photos instead of the scene's own held-out views: for choosing settings."""

    @property
    def name(self) -> str:
        path = Path(self.path)
        return path.parent.name if path.suffix == ".json" else path.name

    def load(self) -> Scene:
        options = scenes.ReadOptions(width=self.width, mix=self.mix)
        scene = scenes.demo(options=options) if self.path == PACKAGED else scenes.load(self.path, options=options)
        if self.sharp_photos and not any(frame.sharp for frame in scene.frames):
            scene = replace(scene, frames=tuple(replace(frame, sharp=frame.photo) for frame in scene.frames))
        return validation(scene) if self.validation else scene


@dataclass(frozen=True)
class Cell:
    """`key` names it and its folder; tables sort by `tags`; `scene_files` changes when the scene's files do."""

    key: str
    kind: Kind
    scene: SceneChoice
    config: TrainConfig
    tags: dict[str, str] = field(default_factory=dict)
    scene_files: str = ""

    def folder(self, out: Path) -> Path:
        return out / CELLS / self.key

    def plain(self) -> dict[str, Any]:
        """As result.json keeps it, with lists as JSON has them."""
        return json.loads(json.dumps(to_plain(self)))


@dataclass
class Outcomes:
    """Cells, and by their keys what they found, or why they failed."""

    cells: Sequence[Cell]
    found: dict[str, Findings] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def of(self, **tags: str) -> list[Findings]:
        """What the cells with these tags found; those that are not done are left out."""
        chosen = [cell for cell in self.cells if all(cell.tags[name] == value for name, value in tags.items())]
        return [self.found[cell.key] for cell in chosen if cell.key in self.found]

    def mean(self, metric: str, **tags: str) -> Score:
        """The mean over seeds of a metric's mean over views; words if there is none."""
        value = mean_score([found["mean"][metric] for found in self.of(**tags)])
        return NOT_DONE if value is None else value


def mean_score(values: Sequence[Score | None]) -> Score | None:
    """Mean of the numbers among them; else the first words; else None."""
    numbers = [value for value in values if isinstance(value, int | float)]
    words = [value for value in values if isinstance(value, str)]
    return float(np.mean(numbers)) if numbers else words[0] if words else None


def scene_files(scene: Scene, packaged: bool) -> str:
    """A digest of cameras, views, points and the pictures' files; of a `packaged` scene without the files' dates."""
    digest = hashlib.sha256(fingerprint(scene).encode())
    for frame in scene.frames:
        for source in (frame.photo, frame.sharp):
            if source is not None and not packaged:
                file = Path(source.label)
                about = file.stat() if file.is_file() else None
                digest.update(repr((file.name, about and (about.st_size, about.st_mtime_ns))).encode())
    return digest.hexdigest()[:16]


def validation(scene: Scene) -> Scene:
    """The scene with one in eight of its training photos held out, and without its own held-out views."""
    held = scene.train[EVERY // 2 :: EVERY] or scene.train[-1:]
    return replace(scene, train=tuple(i for i in scene.train if i not in held), test=held)


def read_findings(cell: Cell, out: Path) -> Findings | None:
    """What the cell found, None if it is not done; refuses findings of a cell with other settings."""
    path = cell.folder(out) / RESULT
    try:
        found = read_json(path)
        kept, findings = dict(found["cell"]), found["found"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: not the result of a cell (damaged); remove it, and the cell is done again") from None
    if kept.get("scene_files") != cell.scene_files:
        raise ValueError(
            f"{path}: the scene has been made anew, or its photos touched, since; give another --out, or remove it"
        )
    different = difference(kept, cell.plain(), "cell")
    if different:
        raise ValueError(f"{path}: the cell was done with another {different}; give another --out, or remove it")
    return findings


def expect_same_run(cell: Cell, out: Path) -> None:
    """Refuse a cell whose run was begun with other settings and so cannot be resumed."""
    path = cell.folder(out) / RUN / CONFIG
    try:
        kept = read_json(path)["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # not begun, or damaged: training says so
    different = difference(kept, cell.plain()["config"], "config")
    if different:
        raise ValueError(f"{path.parent}: was begun with another {different}; give another --out, or remove it")


def write_findings(cell: Cell, out: Path, findings: Findings) -> None:
    """Write result.json: the cell is done."""
    write_json(cell.folder(out) / RESULT, {"cell": cell.plain(), "found": findings})
