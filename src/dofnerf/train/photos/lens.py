"""Each photo's lens: aperture and focus. It acts while the scene is rendered, so models ask for it themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from torch import Tensor

from dofnerf.models.data import Setting, Sharing
from dofnerf.optics import LearnedLens, inverse
from dofnerf.train.photos.base import PhotoQuantity, spread

_WIDE = 1000  # pixels across: in larger photos, the same lens blurs more pixels


@dataclass(frozen=True)
class LensConfig:
    """How each photo's lens is found. The first two are the paper's ablation."""

    learn_aperture: bool = True
    """Learn each photo's aperture."""
    learn_focus: bool = True
    """Learn each photo's focus."""
    search: bool = True
    """Start from a search over aperture and focus against each photo; otherwise from constants, as the paper does."""
    common_aperture: Annotated[bool, tyro.conf.arg(aliases=("--vote",))] = True
    """The search prefers one aperture for all photos; a photo has another only where that explains it clearly
    better."""
    start_blur: float = 5.0
    """Blur radius in pixels, from one end of the depth range to the other, of the aperture that photos start with."""
    start_focus: float = 0.5
    """Where photos start to be focused: 0 at the far end of the range of disparities, 1 at the near end."""
    refits: tuple[float, ...] = (0.15, 0.4)
    """Search again after these shares of the steps with a lens."""
    refit_all: bool = True
    """Search again for all photos; otherwise only for those for which no lens has been found."""
    search_width: int = 256
    """Pixels across, at the most, of the pictures that the search compares: half as many as the photos have, or 128."""
    lens_rate: float = 0.01
    """The lens's learning rate (Adam), in logits of the bounded values; falls to a tenth."""
    only_sampled: bool = True
    """Move only the lenses of the photos in the batch; otherwise Adam's momentum moves all."""
    share_aperture: Sharing = "none"
    """Photos that share one aperture: none, those of one f-number by EXIF, or all."""
    character: bool = False
    """Also find the character of the lens: cat's eye, blades, a soft or hard rim; kept if it explains pixels that are
    held back. Splats only."""
    max_radius: float = 16.0
    """The largest blur radius in pixels that the lens can learn, from one end of the depth range to the other; in
    proportion larger in photos of more than 1000 pixels along the longer side."""

    def __post_init__(self) -> None:
        if not 0 < self.lens_rate < 1:
            raise ValueError(f"--lens-rate must lie between 0 and 1, found {self.lens_rate:g}")
        if not 0 < self.max_radius < math.inf:
            raise ValueError(f"--max-radius must be above 0 and finite, found {self.max_radius:g}")
        if self.search_width < 8:
            raise ValueError(f"--search-width must be 8 or more, found {self.search_width}")
        if not all(0 < share < 1 for share in self.refits):
            raise ValueError(f"refits are shares from 0 to 1, found {self.refits}")
        if not (self.start_blur >= 0 and 0 <= self.start_focus <= 1):
            raise ValueError(
                f"start_blur must be 0 or more and start_focus in 0 … 1: {self.start_blur}, {self.start_focus}"
            )


class PhotoLens(LearnedLens, PhotoQuantity):
    """A `LearnedLens` that starts where EXIF or the settings say."""

    name, Config, uses_lens = "lens", LensConfig, True
    lens_rate: float

    @classmethod
    def make(cls, config: LensConfig, setting: Setting) -> PhotoLens:
        count, (far, near) = len(setting.photos), setting.disparities
        largest = config.max_radius * max(1.0, max(setting.size) / _WIDE)
        usual = min(config.start_blur, largest / 2) / (near - far)
        widest = 0.9 * largest / (near - far)
        least = max(0.0, 2 * far - near)
        margin, middle = 0.02 * (near - far), far + config.start_focus * (near - far)
        wide, focused = setting.apertures or [None] * count, setting.focuses or [None] * count
        lens = cls(
            count, 1 / near, inverse(far), largest, groups=setting.groups,
            aperture=[usual if one is None else min(one, widest) for one in wide],
            focus_disparity=[middle if one is None else min(max(one, least), near + margin) for one in focused],
        )  # fmt: skip
        lens.learn(config.learn_aperture, config.learn_focus)
        lens.lens_rate, lens.only_sampled = config.lens_rate, config.only_sampled
        return lens

    def rate(self, share: float) -> float:
        return self.lens_rate * 0.1**share

    def rows(self, parameter: str, photos: Tensor) -> Tensor:
        return self.groups[photos] if parameter == "raw_aperture" else photos

    def columns(self, setting: Setting) -> dict[str, Sequence[float | str]]:
        rows = self.table()
        found: dict[str, Sequence[float | str]] = {
            name: [row[name] for row in rows] for name in ("aperture", "K", "focus_depth", "focus_disparity")
        }
        found["lens_radius"] = [row["aperture"] / focal for row, focal in zip(rows, setting.focal, strict=True)]
        found["f_number_exif"] = ["" if one is None else one for one in setting.f_numbers]
        return found

    def values(self) -> dict[str, Tensor]:
        return {"aperture": self.aperture, "focus disparity": self.focus_disparity}

    def summary(self) -> str:
        return f"aperture {spread(self.aperture)}  focus {spread(self.focus_depth)}"


QUANTITY = PhotoLens
