"""The settings of volumetric fields: how long each stage is, what a step looks at, and how fast the field learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dofnerf.models.base import MethodConfig


@dataclass(frozen=True)
class VolumeConfig(MethodConfig):
    """Volumetric fields: stages, rays, losses and learning rate."""

    STAGES: ClassVar[Mapping[str, str]] = {
        "pinhole": "pinhole_steps",
        "patches": "lens_steps",
        "lens rays": "lens_ray_steps",
    }
    EVERYDAY: ClassVar[tuple[str, ...]] = ("pinhole_steps", "lens_steps", "lens_ray_steps", "rays", "rate")

    pinhole_steps: int = 300
    """Steps on random rays by plain volume rendering, before there is a lens (the paper's N_pretrain)."""
    lens_steps: int = 1200
    """Steps on patches blurred by concentrate and scatter; field and lens learn together."""
    lens_ray_steps: int = 0
    """Steps on pixels seen by a few rays through the thin lens each: right at occlusions too."""
    rays: int = 2304
    """Rays a step; in the last stage lens points × pixels."""
    patch_size: int = 48
    """Pixels along a side of a patch (the paper's N_patch)."""
    anchor_stride: int = 16
    """Pixels between the possible places of a patch (the paper's N_anchor)."""
    lens_points: int = 8
    """Rays through the lens for each pixel of the last stage; even."""
    layers: int = 1
    """Layers of the blurred patches: 1 is the paper's blur, more are right at occlusions too."""
    in_focus: float = 0.6
    """Share of the patch steps, and of the lens rays, that goes to random pixels in focus instead, one ray each."""
    noise_free: bool = False
    """Leave the noise of few lens rays out of the loss; otherwise it counts as error, and the gradient is calmer."""
    rate: float = 0.03
    """The field's learning rate (Adam)."""
    decay: float = 0.05
    """The rate falls exponentially, to this share of itself after `decay_steps`."""
    decay_steps: int = 0
    """Steps of that fall; 0: the whole run."""
    warmup: int = 50
    """Steps in which the rate rises from nothing."""
    depth_weight: float = 0.0
    """Weight of the loss that pulls depth to the scene's sparse points, as DS-NeRF does."""
    depth_rays: int = 256
    """Rays a step to sparse points."""
    spread_weight: float = 0.02
    """Weight of the loss on the variance of disparity along a ray (as a share of the scene's range): against fog."""
    refresh_every: int = 16
    """Steps between updates of the density grid."""
    sampling: Any = None
    """Samples along a ray: `CoarseFineConfig` or `DensityGridConfig`, as the field needs it."""
    field: Any = None
    """The settings of the field itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rays < 1 or self.patch_size < 8 or self.anchor_stride < 1 or self.layers < 1:
            raise ValueError("rays, anchor_stride and layers must be 1 or more and patch_size 8 or more")
        if self.lens_points < 2 or self.lens_points % 2:
            raise ValueError(f"lens_points must be even and 2 or more, found {self.lens_points}")
        if not 0 <= self.in_focus < 1:
            raise ValueError(f"in_focus is a share from 0 to 1, found {self.in_focus}")
        if not (self.rate > 0 and 0 < self.decay <= 1 and self.depth_weight >= 0 and self.refresh_every >= 1):
            raise ValueError("rate must be above 0, decay in 0 … 1, depth_weight 0 or more, refresh_every 1 or more")

    def rate_at(self, step: int) -> float:
        """The learning rate at a step (from 0)."""
        fall = self.decay ** (step / (self.decay_steps or self.total))
        return self.rate * fall * min(1.0, (step + 1) / max(self.warmup, 1))
