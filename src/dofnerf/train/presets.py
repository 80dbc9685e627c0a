"""Presets: whole configurations by name.

`fast` (minutes on two cores with the hash field), `best` (quality first), `paper` (every setting of the paper's appendix),
`pinhole` (the baseline twin of `fast`: same field, same steps, no lens) and `sharp-oracle` (that, on all-in-focus photos).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from dofnerf.fields import kind
from dofnerf.render import SamplingConfig
from dofnerf.train.config import LensLearningConfig, RatesConfig, StepsConfig, TrainConfig

Preset = Literal["fast", "best", "paper", "pinhole", "sharp-oracle"]
NETWORK_RATE = 5e-4  # for coarse-fine pairs of networks: the paper's


def preset(name: str, field: str | None = None) -> TrainConfig:
    """The preset of that name for a field (the paper's own is nerf, all others' hash, if nobody says)."""
    if name not in get_args(Preset):
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(get_args(Preset))}")
    kind_ = kind(field or ("nerf" if name == "paper" else "hash"))
    network = kind_.sampling == "coarse-fine"
    rates = RatesConfig(rate=NETWORK_RATE if network else RatesConfig.rate, depth_weight=kind_.depth_weight)
    config = TrainConfig(kind_.name, name, rates=rates, field_config=kind_.config())
    if name == "paper":
        return replace(
            config,
            steps=StepsConfig(200_000, 200_000, 0, rays=1024, patch_size=48, anchor_stride=16),
            lens=LensLearningConfig(search=False, refits=(), lens_rate=5e-4, only_sampled=False, in_focus=0.0),
            rates=replace(rates, rate=NETWORK_RATE, decay=0.1, decay_steps=250_000, warmup=0),
            sampling=SamplingConfig(coarse=64, fine=64),
        )
    if name == "best":
        steps = StepsConfig(2500, 2500, 15_000, rays=4096, lens_points=16)
        return replace(config, steps=steps, sampling=SamplingConfig(samples=40, steps=96, grid=96))
    if name == "fast":
        return config
    twin = pinhole_twin(config)
    return twin if name == "pinhole" else replace(twin, steps=replace(twin.steps, photos="sharp"))


def pinhole_twin(config: TrainConfig) -> TrainConfig:
    """The same field and the same number of steps and rays, without a lens."""
    return replace(config, steps=replace(config.steps, pinhole_steps=config.steps.total, lens_steps=0, lens_ray_steps=0))
