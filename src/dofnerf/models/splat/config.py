"""The settings of splats: how many Gaussians, how long each stage is, and how fast they learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from dofnerf.models.base import MethodConfig
from dofnerf.models.splat.blurs import BlurName

if TYPE_CHECKING:
    from typing_extensions import Self

_FEWEST, _MANY, _MOST = 10_000, 60_000, 200_000  # Gaussians, unless asked for
MOST_SPLATS = 10_000_000
MOST_PHOTOS = 16  # in a step: with more, Gaussians would move between steps that attribute no error
# Cost in a training step of a pixel, of a Gaussian that is seen, and of any, which is projected. The unit is
# `Plan.view`, a pixel of a view that has one Gaussian for every two pixels (docs/lab/2026-11-18-speed.md).
_PIXEL, _SEEN, _ANY = 0.38, 1.07, 0.84


@dataclass(frozen=True)
class SplatConfig(MethodConfig):
    """Splats: stages, Gaussians, losses and learning rates (Adam's, at the start)."""

    STAGES: ClassVar[Mapping[str, str]] = {
        "pinhole": "pinhole_steps",
        "lens": "lens_steps",
        "sub-apertures": "sub_aperture_steps",
    }
    EVERYDAY: ClassVar[tuple[str, ...]] = ("splats",)

    pinhole_steps: int = 160
    """Steps on whole photos without a lens, before one is searched for."""
    lens_steps: int = 440
    """Steps on whole photos, each Gaussian blurred by its own depth; scene and lens learn together."""
    sub_aperture_steps: Annotated[int, tyro.conf.arg(aliases=("--lens-ray-steps",))] = 640
    """Steps in which the lens is divided into sub-apertures, whose views are averaged: right at occlusions too."""
    sub_apertures: Annotated[int, tyro.conf.arg(aliases=("--lens-points",))] = 8
    """Sub-apertures in those steps."""
    early_sub_apertures: int = 4
    """Sub-apertures in the first three quarters of those steps."""
    early_pixels: int = 250_000
    """Steps before those, but no more than half of all, take photos shrunk to this many pixels, if they have more."""
    step_pixels: int = 800_000
    """Pixels in a step with sub-apertures, at the most. The first half of these steps takes photos shrunk to half of
    this many, if they have more; the second half takes photos in full, or random parts of so many pixels."""
    splats: int = 0
    """Gaussians in all; 0: one for every two pixels of a photo up to 60 000, then one for every four up to 200 000, and
    10 000 at the least."""
    degree: Literal[0, 1, 2] = 2
    """Degree of the spherical harmonics by which colour depends on direction: 0, 1 or 2; raised while training."""
    blur: BlurName = "gaussian"
    """gaussian: each Gaussian is blurred by its own depth; scatter: the picture is, by its depth, as in the paper."""
    blur_width: float = 1.2
    """Gaussians that are blurred without sub-apertures are so by a lens so many times as wide: with a disc's variance a
    Gaussian is more pointed than the disc, and apertures would grow to make up for it. 1 in `best`."""
    photos_per_step: int = 1
    """Photos that move the scene together. They count as so many steps, so that a run sees as many photos as with 1;
    rates rise by the root, Adam's memory spans as many photos. 16 at the most. Several processes take whole photos if
    there is one for each. Memory grows with them."""
    gradient_loss: Annotated[float, tyro.conf.arg(aliases=("--detail",))] = 1.0
    """Weight of the squared differences between neighbouring pixels' residuals, in photos through a lens: what blur
    hides learns slowest."""
    gradient_prior: Annotated[float, tyro.conf.arg(aliases=("--edges",))] = 0.0005
    """Weight of the sparse-gradient prior on the sharp picture, in steps with sub-apertures: without it, what no photo
    shows in focus is drawn in strokes. It takes a view of its own in every fourth step."""
    prior_blur: float = 8.0
    """Pixels of blur radius in a step's picture from which on a pixel counts in full for that prior; with less, by the
    square of its blur. 0, as in `best`: all count alike."""
    flatness: float = 0.003
    """Weight of the loss that flattens Gaussians which are thicker than 0.3 pixels, once there is a lens; 0 in `best`:
    things have surfaces, and photos out of focus cannot tell a surface from a blob."""
    sharp_first: bool = True
    """Without a lens, weight pixels by the detail that the photo shows there: the lens search then sees a sharper
    scene."""
    grow: bool = True
    """Move Gaussians that are hardly seen to where the error is."""
    place_rate: float = 0.1
    """Learning rate of centres, in median sizes of the Gaussians at the start."""
    size_rate: float = 0.04
    """Learning rate of sizes (their logarithms)."""
    turn_rate: float = 0.02
    """Learning rate of rotations (quaternions)."""
    opacity_rate: float = 0.1
    """Learning rate of opacities (logits)."""
    colour_rate: float = 0.04
    """Learning rate of colours."""
    direction_rate: float = 0.004
    """Learning rate of the harmonics above degree 0."""
    decay: float = 0.03
    """All rates fall to this share of themselves at the end."""
    fall: Literal["linear", "exponential"] = "linear"
    """How they fall: linear suits few steps; exponential keeps many steps from fitting the photos' noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.splats <= MOST_SPLATS:
            raise ValueError(f"--splats must be 0 to {MOST_SPLATS}, found {self.splats}")
        if self.degree not in (0, 1, 2):
            raise ValueError(f"--degree must be 0, 1 or 2, found {self.degree}")
        for name in ("gradient_loss", "gradient_prior", "flatness"):
            flag, value = f"--{name.replace('_', '-')}", getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{flag} must be 0 or more and finite, found {value:g}")
        if not 0 <= self.prior_blur < math.inf:
            raise ValueError(f"--prior-blur must be 0 or more and finite, found {self.prior_blur:g}")
        if min(self.early_pixels, self.step_pixels) < 1000:
            found = f"{self.early_pixels} and {self.step_pixels}"
            raise ValueError(f"early_pixels and step_pixels must be 1000 or more, found {found}")
        if min(self.sub_apertures, self.early_sub_apertures) < 1:
            found = f"{self.sub_apertures} and {self.early_sub_apertures}"
            raise ValueError(f"sub_apertures and early_sub_apertures must be 1 or more, found {found}")
        if not 0 < self.blur_width <= 4:
            raise ValueError(f"--blur-width must be above 0 and 4 at the most, found {self.blur_width:g}")
        if not 1 <= self.photos_per_step <= MOST_PHOTOS:
            raise ValueError(f"--photos-per-step must be 1 to {MOST_PHOTOS}, found {self.photos_per_step}")
        rates = [getattr(self, f"{name}_rate") for name in ("place", "size", "turn", "opacity", "colour", "direction")]
        if self.fall not in ("linear", "exponential"):
            raise ValueError(f"--fall must be linear or exponential, found {self.fall!r}")
        if min(rates) < 0 or not 0 < self.decay <= 1:
            raise ValueError(f"rates must be 0 or more and decay in 0 … 1, found {rates} and {self.decay}")

    @property
    def at_once(self) -> int:
        return self.photos_per_step

    def rate_at(self, step: int) -> float:
        """All rates at a step, as a multiple of what they are set to."""
        done, more = step / self.total, math.sqrt(self.photos_per_step)
        return more * (1 - (1 - self.decay) * done if self.fall == "linear" else self.decay**done)

    def sub_apertures_at(self, step: int) -> int:
        """Sub-apertures in this step, if it has any."""
        early = step < self.total - self.sub_aperture_steps // 4
        return min(self.early_sub_apertures, self.sub_apertures) if early else self.sub_apertures

    def shrunk_to(self, step: int) -> int | None:
        """The pixels to which larger photos are shrunk for this step; None if they are not."""
        if step < min(self.pinhole_steps + self.lens_steps, self.total // 2):
            return self.early_pixels
        last = max(self.sub_aperture_steps // 2, self.total // 4)
        return self.step_pixels // 2 if step < self.total - last else None

    def for_photos_of(self, pixels: float) -> Self:
        """With more steps in proportion where a step takes only a part of a photo."""
        more = max(pixels / self.step_pixels, 1.0)
        return replace(self, sub_aperture_steps=round(more * self.sub_aperture_steps))

    def work(self, pixels: float) -> float:
        found, count = 0.0, self.count((1, round(pixels)))
        for step in range(self.total):  # of each, about 0.8 of a view goes into losses, projection and Adam
            early = step < self.pinhole_steps + self.lens_steps
            views = 1.8 if early else self.sub_apertures_at(step) + (1.55 if self.gradient_prior else 1.3)
            shrunk = self.shrunk_to(step)
            drawn = min(pixels, shrunk or self.step_pixels)
            seen = count if shrunk else count * drawn / pixels
            found += views * (_PIXEL * drawn + _SEEN * seen + _ANY * count)
        return found

    def count(self, size: tuple[int, int]) -> int:
        """Gaussians for photos of `size` (height, width)."""
        pixels = size[0] * size[1]
        return self.splats or max(_FEWEST, min(pixels // 2, _MANY), min(pixels // 4, _MOST))
