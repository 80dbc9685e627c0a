"""What an experiment is, and what it is run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dofnerf.lab.bench.cell import Cell, Kind, Outcomes, SceneChoice, scene_files
from dofnerf.lab.bench.results import Draft
from dofnerf.scenes import PACKAGED, Scene
from dofnerf.train import TrainConfig, preset, shortened

Change = Callable[[TrainConfig], TrainConfig]


@dataclass(frozen=True)
class Choice:
    """Scenes (as chosen, and loaded), fields and seeds, all combined; a preset and the share of its steps."""

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
    """`plan` says which cells; `conclude` makes tables and figures of those that are done. `about` is one sentence.

    `fields` are the default ones; `limited` names all that make sense, where not all do. With `sharp_photos`, photos of
    a scene without all-in-focus ones count as such. With `validation`, training photos are held out instead of the
    scene's own held-out views. With a `format`, other scenes, and those that are not there, are skipped. `size` is the
    width of the photos unless another is asked for.
    """

    about: str
    plan: Callable[[Choice], list[Cell]]
    conclude: Callable[[Choice, Outcomes, Draft], None]
    fields: tuple[str, ...] = ("splat",)
    limited: tuple[str, ...] = ()
    sharp_photos: bool = False
    validation: bool = False
    format: str | None = None
    size: int | None = None


def all_combinations(choice: Choice, variants: Mapping[str, Change], kind: Kind = "train", **scene: Any) -> list[Cell]:
    """A cell for each scene (with the changes `scene`), field, variant and seed."""
    cells = []
    for one in choice.scenes:
        files = scene_files(choice.loaded[one], packaged=one.path == PACKAGED)
        for field in choice.fields:
            for name, change in variants.items():
                for seed in choice.seeds:
                    key = "/".join([one.name, field, folder_name(name), f"seed-{seed}"])
                    tags = {"scene": one.name, "field": field, "variant": name, "seed": str(seed)}
                    config = change(choice.config(field, seed))
                    cells.append(Cell(key, kind, replace(one, **scene), config, tags, files))
    return cells


def folder_name(words: str) -> str:
    """Words as the name of one folder."""
    return "".join(c if c.isalnum() else "-" for c in words.lower()).strip("-").replace("--", "-")
