"""Volumetric fields, all alike: every kind of `dofnerf.models.volume.fields` in a `VolumeModel`, learned ray by ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from dofnerf.models import Model
from dofnerf.models.base import Method, Steps
from dofnerf.models.config import LensLearningConfig, RatesConfig, StepsConfig, TrainConfig
from dofnerf.models.data import TrainingData
from dofnerf.models.setting import Setting
from dofnerf.models.volume import SamplingConfig, VolumeModel
from dofnerf.models.volume.fields import FieldKind, kinds
from dofnerf.models.volume.steps import VolumeSteps
from dofnerf.models.workers import Workers
from dofnerf.optics import LearnedLens
from dofnerf.scenes import Scene

NETWORK_RATE = 5e-4  # for coarse-fine pairs of networks: the paper's


class VolumeMethod(Method):
    """That of one kind of volumetric field."""

    divides = True

    def __init__(self, kind: FieldKind) -> None:
        self.kind, self.name, self.config = kind, kind.name, kind.config

    def preset(self, name: str) -> TrainConfig:
        network = self.kind.sampling == "coarse-fine"
        rates = RatesConfig(depth_weight=self.kind.depth_weight)
        if network:
            rates = replace(rates, rate=NETWORK_RATE)
        config = TrainConfig(self.name, name, rates=rates, field_config=self.config())
        if name == "paper":
            # Both lens parameters start at 0.5: of disparity from 0 to 1, and of ten pixels of blur.
            start = LensLearningConfig(search=False, refits=(), start_blur=5.0, start_focus=0.5)
            return replace(
                config,
                steps=StepsConfig(200_000, 200_000, 0, rays=1024, patch_size=48, anchor_stride=16),
                lens=replace(start, lens_rate=5e-4, only_sampled=False, in_focus=0.0),
                rates=replace(rates, rate=NETWORK_RATE, decay=0.1, decay_steps=250_000, warmup=0, spread_weight=0.0),
                sampling=SamplingConfig(coarse=64, fine=64),
            )
        if name == "best":
            steps = StepsConfig(1000, 7000, 2000, rays=4096, patch_size=64, lens_points=16)
            return replace(config, steps=steps, sampling=SamplingConfig(samples=40, steps=96, grid=96))
        # A step of few lens rays is as dear as one of a patch, and right at occlusions.
        return config if network else replace(config, steps=StepsConfig(150, 100, 500))

    def begin(self, config: TrainConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        return self.like(config, setting, {})

    def like(self, config: TrainConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        return VolumeModel(self.kind, config.field_config, setting.space, config.sampling)

    def steps(
        self, data: TrainingData, model: Model, lens: LearnedLens, config: TrainConfig, workers: Workers
    ) -> Steps:
        assert isinstance(model, VolumeModel)
        return VolumeSteps(data, model, lens, config, workers)


METHODS = [VolumeMethod(kind) for kind in kinds().values()]
