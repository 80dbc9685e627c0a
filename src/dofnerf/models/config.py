"""What a training run is told. Small groups, each beside the others only because a run's folder keeps them in one file.

`rates` are Adam's. The lens learns in raw (logit) units, where 0.05 moves an aperture that is small by 5 % a step.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from dofnerf.models.volume import SamplingConfig
from dofnerf.optics.light import Curve

Stage = Literal["pinhole", "patches", "lens rays"]
Sharing = Literal["none", "exif", "all"]


@dataclass(frozen=True)
class StepsConfig:
    """How long each stage is, and how much a step looks at."""

    pinhole_steps: int = 300
    """Steps on random rays by plain volume rendering, before there is a lens (the paper's N_pretrain)."""
    lens_steps: int = 1200
    """Steps on patches, blurred by concentrate and scatter; field and lens learn together."""
    lens_ray_steps: int = 0
    """Steps with the lens in parts, right at occlusions too: pixels by a few rays each (splats: photos by a few
    views)."""
    rays: int = 2304
    """Rays a step of random rays (also lens points × pixels of the last stage)."""
    patch_size: int = 48
    """Pixels along a side of a patch."""
    anchor_stride: int = 16
    """Pixels between the places that patches may have."""
    lens_points: int = 8
    """Rays through the lens for each pixel of the last stage (splats: parts of the lens); even."""
    photos: Literal["given", "sharp"] = "given"
    """Train on the scene's photos, or on its all-in-focus ones (the oracle)."""

    def __post_init__(self) -> None:
        if min(self.pinhole_steps, self.lens_steps, self.lens_ray_steps) < 0 or self.total < 1:
            raise ValueError(f"steps must be 0 or more and not all 0, found {self}")
        if self.rays < 1 or self.patch_size < 8 or self.anchor_stride < 1:
            raise ValueError(f"rays and anchor_stride must be 1 or more and patch_size 8 or more, found {self}")
        if self.lens_points < 2 or self.lens_points % 2:
            raise ValueError(f"lens_points must be even and 2 or more, found {self.lens_points}")

    @property
    def total(self) -> int:
        return self.pinhole_steps + self.lens_steps + self.lens_ray_steps

    def stage_of(self, step: int) -> Stage:
        """The stage to which a step (from 0) belongs."""
        if step < self.pinhole_steps:
            return "pinhole"
        return "patches" if step < self.pinhole_steps + self.lens_steps else "lens rays"


@dataclass(frozen=True)
class LensLearningConfig:
    """How the lens is found. The two switches are the paper's ablation."""

    learn_aperture: bool = True
    """Learn each photo's aperture."""
    learn_focus: bool = True
    """Learn each photo's focus."""
    search: bool = True
    """Start from a search over aperture and focus against each photo; else from constants, as the paper does."""
    vote: bool = True
    """In the search, all photos vote for one aperture; a photo has another only where that is clearly nearer to it."""
    sharp_first: bool = True
    """Before there is a lens, listen to photos where they show detail: the search then looks at a sharper scene
    (splats)."""
    start_blur: float = 5.0
    """Blur radius in pixels, from one end of the depth range to the other, of the aperture that photos start with."""
    start_focus: float = 0.5
    """Where photos start to be focused: 0 at the far end of the range of disparities, 1 at the near end."""
    refits: tuple[float, ...] = (0.15, 0.4)
    """Search again after these shares of the steps with a lens."""
    refit_all: bool = True
    """Search again for all photos; else for those alone for which no lens has been found."""
    search_width: int = 256
    """Pixels across, at the most, of the pictures that the search compares: half as many as the photos have, or 128."""
    lens_rate: float = 0.01
    """Adam's rate for the lens, in logits of the bounded values; falls to a tenth."""
    together: float = 0.0
    """How strongly each photo's aperture is drawn to the others' while they learn, in units of squared error: the less,
    the more it differs. Not where `share_aperture` says who shares one."""
    only_sampled: bool = True
    """Move only the lenses of the photos in the batch; else Adam's momentum moves all."""
    share_aperture: Sharing = "none"
    """Photos that share one aperture: none, those of one f-number by EXIF, or all."""
    max_radius: float = 16.0
    """The largest blur radius in pixels that the lens can learn, from one end of the depth range to the other."""
    layers: int = 1
    """Layers of the blurred patches: 1 is the paper's blur, more are right at occlusions too."""
    in_focus: float = 0.6
    """Share of the patch steps, and of the lens rays, that goes to random pixels in focus instead, one ray each."""
    noise_free: bool = False
    """Leave the noise of few lens rays out of the loss; else it counts as error, and the gradient is calmer."""
    light: Curve = 2.2
    """Gamma of the photos, or srgb: blur adds light."""

    def __post_init__(self) -> None:
        if not (0 < self.lens_rate < 1 and self.max_radius > 0 and self.search_width >= 8 and self.layers >= 1):
            raise ValueError(
                f"lens_rate must be in 0 … 1, max_radius above 0, search_width 8 and layers 1 or more: {self}"
            )
        if not (0 <= self.in_focus < 1 and all(0 < share < 1 for share in self.refits)):
            raise ValueError(f"in_focus and refits are shares from 0 to 1, found {self.in_focus} and {self.refits}")
        if not (self.start_blur >= 0 and 0 <= self.start_focus <= 1):
            raise ValueError(
                f"start_blur must be 0 or more and start_focus in 0 … 1: {self.start_blur}, {self.start_focus}"
            )
        if not 0 <= self.together < math.inf:
            raise ValueError(f"together must be 0 or more, found {self.together}")


@dataclass(frozen=True)
class RatesConfig:
    """How fast the field learns."""

    rate: float = 0.03
    """Adam's rate for the field; the first steps warm up."""
    decay: float = 0.05
    """The rate falls exponentially, to this share of itself after `decay_steps`."""
    decay_steps: int = 0
    """Steps of that fall; 0, and always for splats: the whole run."""
    warmup: int = 50
    """Steps in which the rate rises from nothing."""
    depth_weight: float = 0.0
    """Weight of the loss that pulls depth to the scene's sparse points (DS-NeRF)."""
    depth_rays: int = 256
    """Rays a step to sparse points."""
    spread_weight: float = 0.02
    """Weight of the loss on the variance of disparity along a ray (as a share of the scene's range): against fog."""
    refresh_every: int = 16
    """Steps between looks of the density grid at the field."""

    def __post_init__(self) -> None:
        if not (self.rate > 0 and 0 < self.decay <= 1 and self.depth_weight >= 0 and self.refresh_every >= 1):
            raise ValueError(
                f"rate must be above 0, decay in 0 … 1, depth_weight 0 or more, refresh_every 1 or more: {self}"
            )

    def rate_at(self, step: int, total: int) -> float:
        """The field's rate at a step (from 0)."""
        fall = self.decay ** (step / (self.decay_steps or total))
        return self.rate * fall * min(1.0, (step + 1) / max(self.warmup, 1))


@dataclass(frozen=True)
class TrainConfig:
    """All of it. `field_config` belongs to the field of that name."""

    field: str = "hash"
    preset: str = "fast"
    seed: int = 0
    steps: StepsConfig = dataclasses.field(default_factory=StepsConfig)
    lens: LensLearningConfig = dataclasses.field(default_factory=LensLearningConfig)
    rates: RatesConfig = dataclasses.field(default_factory=RatesConfig)
    sampling: SamplingConfig = dataclasses.field(default_factory=SamplingConfig)
    field_config: object = None
