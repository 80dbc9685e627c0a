"""LearnedLens: one aperture and one focus per photo, learned together with a scene.

Both are low + (high − low)·sigmoid(raw): unlike a relu, that has a gradient at the bounds, and near 0 the aperture
changes by a factor. The largest aperture blurs by `max_radius` pixels from one end of the scene's depth range to the
other. The focus is a disparity, and may lie outside the scene's range, for what is in focus need not be seen: up to as
far beyond the far end as the range is wide (infinity at most), and a little nearer than the near end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dofnerf.optics.lens import (
    Lens,
    check_depth,
    coc_radius_from_disparity,
    f_number_from_aperture,
    html_table,
    inverse,
)
from dofnerf.optics.shapes import Shape

_START_BLUR = 2.5  # pixels at either end of the range; below half a pixel the aperture gets almost no gradient
_NEARER = 0.15  # of the range of disparities: how much nearer than the nearest thing focus may be
_EDGE = 1e-4  # starting values stay this share of the range away from its ends, or sigmoid has no slope left


class LearnedLens(nn.Module):
    """Aperture and focus of `num_photos` photos of a scene between depths `near` and `far` (inf is allowed).

    `aperture` and `focus_disparity` are starting values, one number or one per photo; a value at a bound, such as
    aperture 0, starts 1e-4 of the range inside, where it has a gradient. Photos with the same entry in `groups`, such
    as their f-number, share one aperture.
    """

    raw_aperture: nn.Parameter
    raw_focus: nn.Parameter
    max_aperture: Tensor
    focus_range: Tensor
    seen: Tensor
    groups: Tensor
    shape: Shape | None = None  # of all photos' lens, if it is not a disc

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
        low, high = max(0.0, 1 / far - span), 1 / near + _NEARER * span
        max_aperture = max_radius / span
        # Buffers, so that a state loaded into another lens keeps its meaning.
        self.register_buffer("max_aperture", torch.tensor(max_aperture))
        self.register_buffer("focus_range", torch.tensor([low, high]))
        self.register_buffer("seen", torch.tensor([1 / far, 1 / near]), persistent=False)
        names = torch.arange(num_photos) if groups is None else torch.as_tensor(groups)
        if names.shape != (num_photos,):
            raise ValueError(f"groups must be one for each of {num_photos} photos, found {names.tolist()}")
        members = torch.unique(names, return_inverse=True)[1]
        self.register_buffer("groups", members)
        aperture = min(2 * _START_BLUR, max_radius / 2) / span if aperture is None else aperture
        start, sizes = _per_photo("aperture", aperture, num_photos), torch.bincount(members)
        shared = torch.zeros(len(sizes)).index_add(0, members, start) / sizes.clamp(min=1)
        self.raw_aperture = nn.Parameter(_unbound("aperture", shared, 0.0, max_aperture))
        focus_disparity = (1 / near + 1 / far) / 2 if focus_disparity is None else focus_disparity
        focus = _per_photo("focus_disparity", focus_disparity, num_photos)
        self.raw_focus = nn.Parameter(_unbound("focus_disparity", focus, low, high))

    @torch.no_grad()
    def widen(self, factor: float) -> None:
        """Make all apertures wider by a factor, as far as their range goes."""
        share = (factor * torch.sigmoid(self.raw_aperture)).clamp(_EDGE, 1 - _EDGE)
        self.raw_aperture.copy_(torch.logit(share))

    def learn(self, aperture: bool = True, focus: bool = True) -> LearnedLens:
        """Learn or freeze each of the two (the paper's ablation)."""
        self.raw_aperture.requires_grad_(aperture)
        self.raw_focus.requires_grad_(focus)
        return self

    @property
    def frozen(self) -> tuple[bool, bool]:
        """Whether aperture and focus are not learned."""
        return not self.raw_aperture.requires_grad, not self.raw_focus.requires_grad

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
        """(num_photos,), pixels: the largest blur radius of each photo's lens within the scene's depth range."""
        low, high = self.seen
        focus = self.focus_disparity
        return self.aperture * torch.maximum(focus - low, high - focus)

    def lens(self, photo: int | Tensor) -> Lens:
        """The lens of one photo, or of the B photos of an index tensor: `aperture` and focus are then (B,)."""
        return Lens(self.aperture[photo], shape=self.shape, focus_disparity=self.focus_disparity[photo])

    def coc_radius(self, depth: Tensor, photo: int | Tensor) -> Tensor:
        """Signed blur radius in pixels of `depth` (H, W) in one photo, or (B, …) in the B photos of an index tensor."""
        check_depth(depth)
        return self.coc_radius_from_disparity(1 / depth, photo)

    def coc_radius_from_disparity(self, disparity: Tensor, photo: int | Tensor) -> Tensor:
        """The same from 1/depth."""
        one = self.lens(photo)
        shape = one.aperture.shape + (1,) * (disparity.ndim - one.aperture.ndim)
        return coc_radius_from_disparity(disparity, one.aperture.reshape(shape), one.focus_disparity.reshape(shape))

    def _repr_html_(self) -> str:
        """The table, in a notebook."""
        rows = self.table()
        heads = list(rows[0])
        return html_table([heads, *(list(row.values()) for row in rows)])

    def table(
        self, focal_px: float | None = None, focal_length_mm: float | None = None, unit_mm: float = 1000.0
    ) -> list[dict[str, float]]:
        """One row a photo: aperture, the paper's K, focus; with the focal length also lens radius and f-number.

        `focal_px` is the focal length in pixels, `focal_length_mm` in millimetres, `unit_mm` one scene unit in
        millimetres.
        """
        rows = []
        for photo, (a, d) in enumerate(zip(self.aperture.tolist(), self.focus_disparity.tolist(), strict=True)):
            row = {"photo": photo, "aperture": a, "K": 2 * a, "focus_depth": inverse(d), "focus_disparity": d}
            if focal_px is not None:
                row["lens_radius"] = a / focal_px
                if focal_length_mm is not None:
                    row["f_number"] = f_number_from_aperture(a, focal_length_mm, focal_px, unit_mm)
            rows.append(row)
        return rows


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
