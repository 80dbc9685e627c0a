"""The settings of a run, and presets: whole sets of them by name. Each field has its own numbers.

`fast` (minutes on two cores), `best` (quality first), `paper` (every setting of the paper's appendix), `pinhole` (as
`fast`, without a lens model) and `sharp-photos` (that, trained on the all-in-focus photos).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from dofnerf.models import RunConfig, method
from dofnerf.models.base import OLD_PRESETS
from dofnerf.train.losses import losses
from dofnerf.train.photos import quantities
from dofnerf.train.photos.lens import LensConfig

PresetName = Literal["fast", "best", "paper", "pinhole", "sharp-photos"]


@dataclass(frozen=True)
class TrainConfig(RunConfig):
    """All settings of a run: those of the method (`method`), of what photos learn, and of additional losses, by
    name."""

    quantities: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    losses: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def lens(self) -> LensConfig:
        return self.quantities["lens"]

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> TrainConfig:
        """With other values for settings of the method, of a photo quantity or of a loss, by name."""
        parts: dict[str, Any] = {}
        for name, values in changes.items():
            if name == "method":
                parts["method"] = replace(self.method, **values)
            elif name in quantities.all():
                kept = parts.get("quantities", self.quantities)
                new = replace(kept.get(name) or quantities.get(name).Config(), **values)
                parts["quantities"] = quantities.chosen({**kept, name: new})
            else:
                kept = parts.get("losses", self.losses)
                new = replace(kept.get(name) or losses.get(name).Config(), **values)
                parts["losses"] = losses.chosen({**kept, name: new})
        return replace(self, **parts)


def preset(name: str, field: str | None = None) -> TrainConfig:
    """The preset of that name for a field (nerf for the preset paper, splat for all others, unless given)."""
    made, of_photos, of_losses = all_settings(name, field)
    return replace(made, quantities=quantities.chosen(of_photos), losses=losses.chosen(of_losses))


def all_settings(name: str, field: str | None = None) -> tuple[TrainConfig, dict[str, Any], dict[str, Any]]:
    """The preset without photo quantities and losses, and the settings of these by name, also of those that are off."""
    name = OLD_PRESETS.get(name, name)
    if name not in get_args(PresetName):
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(get_args(PresetName))}")
    by = method(field or ("nerf" if name == "paper" else "splat"))
    own, others = by.preset(name if name in ("fast", "best", "paper") else "fast")
    made = TrainConfig(by.name, name, own)
    if name in ("pinhole", "sharp-photos"):
        made = without_lens(made) if name == "pinhole" else on_sharp_photos(made)
    return made, quantities.settings(others), losses.settings(others)


def without_lens(config: TrainConfig) -> TrainConfig:
    """The same field and the same number of steps and rays, without a lens model."""
    return replace(config, method=config.method.without_lens())


def on_sharp_photos(config: TrainConfig) -> TrainConfig:
    """Without a lens model, trained on all-in-focus photos: what the field could do if there were no blur."""
    return replace(without_lens(config), photos="sharp")


def shortened(config: TrainConfig, share: float) -> TrainConfig:
    """The same stages with that share of their steps."""
    return replace(config, method=config.method.shortened(share))


def check_share(share: float, flag: str = "--steps") -> None:
    """Refuse a --steps that no command takes."""
    if not 0 < share <= 100:
        raise ValueError(f"{flag} must be above 0 and 100 at the most, found {share:g}")
