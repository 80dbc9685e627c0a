"""Volumetric fields, all alike: every kind of `dofnerf.models.volume.fields` in a `VolumeModel`, learned ray by ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from dofnerf.models.base import Group, Method, Model, Preset, RunConfig
from dofnerf.models.data import Setting, TrainingData
from dofnerf.models.volume.config import VolumeConfig
from dofnerf.models.volume.fields import FieldKind, kinds
from dofnerf.models.volume.model import SAMPLING, DensityGridConfig, VolumeModel
from dofnerf.models.volume.steps import VolumeSteps
from dofnerf.scenes import Scene

NETWORK_RATE = 5e-4  # for coarse-fine pairs of networks: the paper's


class VolumeMethod(Method):
    """The method for one kind of volumetric field."""

    family, steps, rate_flags, divides = "volumetric fields", VolumeSteps, "--rate", True

    def __init__(self, kind: FieldKind) -> None:
        self.kind, self.name = kind, kind.name

    def preset(self, name: str) -> Preset:
        network = self.kind.sampling == "coarse-fine"
        sampling = SAMPLING[self.kind.sampling]()
        config = VolumeConfig(depth_weight=self.kind.depth_weight, sampling=sampling, field=self.kind.config())
        if network:
            config = replace(config, rate=NETWORK_RATE)
        if name == "paper":
            config = replace(
                config, pinhole_steps=200_000, lens_steps=200_000, rays=1024, patch_size=48, anchor_stride=16,
                in_focus=0.0, rate=NETWORK_RATE, decay=0.1, decay_steps=250_000, warmup=0, spread_weight=0.0,
            )  # fmt: skip
            # Both lens parameters start at 0.5: of disparity from 0 to 1, and of ten pixels of blur.
            start = {"search": False, "refits": (), "start_blur": 5.0, "start_focus": 0.5}
            return Preset(config, {"lens": {**start, "lens_rate": 5e-4, "only_sampled": False}})
        if name == "best":
            config = replace(config, rays=4096, patch_size=64, lens_points=16)
            config = replace(config, pinhole_steps=1000, lens_steps=7000, lens_ray_steps=2000)
            return Preset(config if network else replace(config, sampling=DensityGridConfig(40, 96, 96)))
        # A step of few lens rays costs as much as one of a patch, and is right at occlusions.
        return Preset(config if network else replace(config, pinhole_steps=150, lens_steps=100, lens_ray_steps=500))

    def begin(self, config: RunConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        return self.like(config, setting, {})

    def like(self, config: RunConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        return VolumeModel(self.kind, config.method.field, setting.space, config.method.sampling)

    def uses_points(self, config: RunConfig) -> bool:
        return config.method.depth_weight > 0

    def groups(self, model: VolumeModel, config: RunConfig) -> list[Group]:
        return [Group("field", list(model.parameters()), config.method.rate_at)]


def methods() -> list[Method]:
    return [VolumeMethod(kind) for kind in kinds().values()]
