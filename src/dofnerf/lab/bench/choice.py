"""What an experiment is run on, and what an experiment is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dofnerf.lab.bench.cell import Cell, Kind, SceneChoice, scene_files
from dofnerf.lab.bench.conclusions import Sketch
from dofnerf.lab.bench.schedule import Outcomes
from dofnerf.scenes import PACKAGED, Scene
from dofnerf.train import TrainConfig, preset, shortened

Change = Callable[[TrainConfig], TrainConfig]


@dataclass(frozen=True)
class Choice:
    """Scenes (as chosen, and loaded), fields and seeds, all with all; a preset and the share of its steps."""

    scenes: tuple[SceneChoice, ...]
    loaded: Mapping[SceneChoice, Scene]
    fields: tuple[str, ...]
    preset: str = "fast"
    steps: float = 1.0
    seeds: tuple[int, ...] = (0,)

    def config(self, field: str, seed: int) -> TrainConfig:
        """What all runs of a field start from."""
        return replace(shortened(preset(self.preset, field), self.steps), seed=seed)


@dataclass(frozen=True)
class Experiment:
    """`plan` says which cells; `conclude` makes tables and figures of those that are done. `fields` if nobody says;
    `limited` names all that make sense, where not all do. `sharp_photos`: photos of a scene without all-in-focus ones
    count as such."""

    name: str
    about: str
    plan: Callable[[Choice], list[Cell]]
    conclude: Callable[[Choice, list[Cell], Outcomes, Sketch], None]
    fields: tuple[str, ...] = ("splat",)
    limited: tuple[str, ...] = ()
    sharp_photos: bool = False
    validation: bool = False


def all_with_all(choice: Choice, variants: Mapping[str, Change], kind: Kind = "train", **scene: Any) -> list[Cell]:
    """A cell for each scene (with changes), field, variant and seed."""
    cells = []
    for one in choice.scenes:
        files = scene_files(choice.loaded[one], packaged=one.path == PACKAGED)
        for field in choice.fields:
            for name, change in variants.items():
                for seed in choice.seeds:
                    key = "/".join([one.name, field, folder_name(name), f"seed-{seed}"])
                    tags = {"scene": one.name, "field": field, "variant": name, "seed": str(seed)}
                    cells.append(
                        Cell(key, kind, replace(one, **scene), change(choice.config(field, seed)), tags, files)
                    )
    return cells


def changed(config: TrainConfig, changes: Mapping[str, Mapping[str, object]]) -> TrainConfig:
    """The configuration with some members of its parts changed."""
    return replace(config, **{part: replace(getattr(config, part), **new) for part, new in changes.items()})


def folder_name(words: str) -> str:
    """Words as one folder's name."""
    return "".join(c if c.isalnum() else "-" for c in words.lower()).strip("-").replace("--", "-")
