"""Presets: whole configurations by name; each field has its own numbers.

`fast` (minutes on two cores), `best` (quality first), `paper` (every setting of the paper's appendix), `pinhole` (the
baseline twin of `fast`: same field, same steps, no lens) and `sharp-oracle` (that, on all-in-focus photos).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from dofnerf.models import method
from dofnerf.models.config import TrainConfig

Preset = Literal["fast", "best", "paper", "pinhole", "sharp-oracle"]


def preset(name: str, field: str | None = None) -> TrainConfig:
    """The preset of that name for a field (the paper's own is nerf, all others' splat, if nobody says)."""
    if name not in get_args(Preset):
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(get_args(Preset))}")
    by = method(field or ("nerf" if name == "paper" else "splat"))
    if name in ("fast", "best", "paper"):
        return by.preset(name)
    twin = pinhole_twin if name == "pinhole" else sharp_oracle
    return replace(twin(by.preset("fast")), preset=name)


def pinhole_twin(config: TrainConfig) -> TrainConfig:
    """The same field and the same number of steps and rays, without a lens."""
    return replace(
        config, steps=replace(config.steps, pinhole_steps=config.steps.total, lens_steps=0, lens_ray_steps=0)
    )


def check_share(share: float) -> None:
    """Refuse a --steps that no command takes."""
    if not 0 < share <= 100:
        raise ValueError(f"--steps must be above 0 and 100 at the most, found {share:g}")


def shortened(config: TrainConfig, share: float) -> TrainConfig:
    """The same stages with that share of their steps."""
    steps = config.steps
    pinhole, lens, rays = (round(share * n) for n in (steps.pinhole_steps, steps.lens_steps, steps.lens_ray_steps))
    return replace(config, steps=replace(steps, pinhole_steps=pinhole, lens_steps=lens, lens_ray_steps=rays))


def sharp_oracle(config: TrainConfig) -> TrainConfig:
    """The pinhole twin, trained on all-in-focus photos: what the field could do if there were no blur."""
    twin = pinhole_twin(config)
    return replace(twin, steps=replace(twin.steps, photos="sharp"))
