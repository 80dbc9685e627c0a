"""LearnedLens: one aperture and one focus per photo, to be learned together with a scene.

Both are bounded smoothly. The aperture lies between 0 and the one that blurs by `max_radius` pixels from one end of the
scene's depth range to the other; the focus is kept as disparity, 5 % of the range wider than the scene each way
(infinity, disparity 0, included where the range comes near it). A bounded value is low + (high − low)·sigmoid(raw), raw
free: it cannot die at a bound as a relu can, and near 0 the aperture moves by a factor, not by a fixed amount.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dofnerf.optics.lens import coc_radius, coc_radius_from_disparity, f_number_from_aperture, inverse

_START_BLUR = 2.5  # pixels at either end of the range; below half a pixel the aperture gets almost no gradient
_MARGIN = 0.05
_EDGE = 1e-4  # starting values stay this share of the range away from its ends, or sigmoid has no slope left


class LearnedLens(nn.Module):
    """Aperture and focus of `num_photos` photos of a scene that lies between depths `near` and `far` (which may be
    inf).

    `aperture` and `focus_disparity` are starting values: a number for all, or one per photo; one at a bound, such as
    aperture 0, starts a ten-thousandth of the range inside, where it can still learn. Photos with the same entry in
    `groups`, such as their f-number, share one aperture.
    """

    raw_aperture: nn.Parameter
    raw_focus: nn.Parameter
    max_aperture: Tensor
    focus_range: Tensor
    groups: Tensor

    def __init__(
        self,
        num_photos: int,
        near: float,
        far: float,
        max_radius: float = 32.0,
        aperture: Tensor | Sequence[float] | float | None = None,
        focus_disparity: Tensor | Sequence[float] | float | None = None,
        groups: Sequence[int] | Tensor | None = None,
    ) -> None:
        super().__init__()
        if num_photos < 1:
            raise ValueError(f"a lens needs photos, found num_photos = {num_photos}")
        if not 0 < near < far:
            raise ValueError(f"the depth range must be 0 < near < far, found {near} … {far}")
        if not (max_radius > 0 and math.isfinite(max_radius)):
            raise ValueError(f"max_radius must be positive, found {max_radius}")
        span = 1 / near - 1 / far
        low, high = max(0.0, 1 / far - _MARGIN * span), 1 / near + _MARGIN * span
        max_aperture = max_radius / max(high - 1 / far, 1 / near - low)
        # Buffers, so that a state loaded into another lens keeps its meaning.
        self.register_buffer("max_aperture", torch.tensor(max_aperture))
        self.register_buffer("focus_range", torch.tensor([low, high]))
        names = torch.arange(num_photos) if groups is None else torch.as_tensor(groups)
        if names.shape != (num_photos,):
            raise ValueError(f"groups must be one for each of {num_photos} photos, found {names.tolist()}")
        members = torch.unique(names, return_inverse=True)[1]
        self.register_buffer("groups", members)
        start = _per_photo(
            "aperture", min(2 * _START_BLUR, max_radius / 2) / span if aperture is None else aperture, num_photos
        )
        sizes = torch.bincount(members)
        shared = torch.zeros(len(sizes)).index_add(0, members, start) / sizes.clamp(min=1)
        self.raw_aperture = nn.Parameter(_unbound("aperture", shared, 0.0, max_aperture))
        middle = (1 / near + 1 / far) / 2
        focus = _per_photo("focus_disparity", middle if focus_disparity is None else focus_disparity, num_photos)
        self.raw_focus = nn.Parameter(_unbound("focus_disparity", focus, low, high))

    def learn(self, aperture: bool = True, focus: bool = True) -> LearnedLens:
        """Learn or freeze each of the two (the paper's ablation)."""
        self.raw_aperture.requires_grad_(aperture)
        self.raw_focus.requires_grad_(focus)
        return self

    @property
    def aperture(self) -> Tensor:
        """(num_photos,), pixels × scene units; half of the paper's K."""
        return (self.max_aperture * torch.sigmoid(self.raw_aperture))[self.groups]

    @property
    def focus_disparity(self) -> Tensor:
        """(num_photos,), 1 / scene units; 0 is infinity."""
        low, high = self.focus_range
        return low + (high - low) * torch.sigmoid(self.raw_focus)

    @property
    def focus_depth(self) -> Tensor:
        """(num_photos,), scene units along the optical axis."""
        return 1 / self.focus_disparity

    @property
    def largest_radius(self) -> Tensor:
        """(num_photos,): the largest blur radius in pixels that each photo's lens gives to anything within the
        range."""
        low, high = self.focus_range
        focus = self.focus_disparity
        return self.aperture * torch.maximum(focus - low, high - focus)

    def coc_radius(self, depth: Tensor, photo: int | Tensor) -> Tensor:
        """Signed blur radius in pixels of `depth` (H, W) in one photo, or (B, …) in the B photos of an index tensor."""
        return coc_radius(depth, *self._of(photo, depth))

    def coc_radius_from_disparity(self, disparity: Tensor, photo: int | Tensor) -> Tensor:
        """The same from 1/depth."""
        return coc_radius_from_disparity(disparity, *self._of(photo, disparity))

    def table(
        self, focal_px: float | None = None, focal_length_mm: float | None = None, unit_mm: float = 1000.0
    ) -> list[dict[str, float]]:
        """One row a photo: in scene units, in the paper's (K), and, where the focal length is known, as lens radius and
        f-number.

        `focal_px` is the focal length in pixels, `focal_length_mm` in millimetres, `unit_mm` one scene unit in
        millimetres.
        """
        rows = []
        values = zip(self.aperture.tolist(), self.focus_disparity.tolist(), strict=True)
        for photo, (aperture, disparity) in enumerate(values):
            row = {
                "photo": photo,
                "aperture": aperture,
                "K": 2 * aperture,
                "focus_depth": inverse(disparity),
                "focus_disparity": disparity,
            }
            if focal_px is not None:
                row["lens_radius"] = aperture / focal_px
                if focal_length_mm is not None:
                    row["f_number"] = f_number_from_aperture(aperture, focal_length_mm, focal_px, unit_mm)
            rows.append(row)
        return rows

    def _of(self, photo: int | Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        aperture, focus = self.aperture[photo], self.focus_disparity[photo]
        shape = aperture.shape + (1,) * (like.ndim - aperture.ndim)
        return aperture.reshape(shape), focus.reshape(shape)


def _per_photo(name: str, value: Tensor | Sequence[float] | float, count: int) -> Tensor:
    values = torch.as_tensor(value, dtype=torch.float32).detach()
    if values.ndim > 1 or (values.ndim == 1 and len(values) != count):
        raise ValueError(f"{name} must be one number or {count}, found shape {tuple(values.shape)}")
    return values.expand(count).clone()


def _unbound(name: str, value: Tensor, low: float, high: float) -> Tensor:
    """The raw parameter whose bounded value this is."""
    if not bool(((value >= low) & (value <= high)).all()):
        raise ValueError(f"{name} must start between {low:g} and {high:g} here, found {value.tolist()}")
    return torch.logit((value - low) / (high - low), eps=_EDGE)
