"""The thin lens: how large a point's blur is, and how a camera's f-number becomes our `aperture`.

Symbols. `depth` and `focus_depth` are distances along the optical axis in scene units (`inf` is allowed), `disparity`
is their inverse. `aperture` = focal length in pixels × radius of the lens in scene units = half of the paper's K. The
blur radius is

    coc_radius = aperture · (1/focus_depth − 1/depth)        in pixels, positive behind the focal plane (half of Eq. 5)

Eq. 4 of the paper, the exact thin lens, is the same with the factor F / (F − f): it does not depend on the depth of the
point, so Eq. 5 falls short of it by the share f / F (5 % for a 50 mm lens focused at 1 m, 0.5 % at 10 m). The factor is
the ratio of the image distance v = f·F / (F − f) to f. Structure-from-motion measures v in pixels, not f; with *its*
focal length in `aperture`, Eq. 5 is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from dofnerf.optics.shapes import Shape

_Array = TypeVar("_Array", bound=Any)  # float, numpy array or tensor


def inverse(value: Any) -> Any:
    """1 / value, depth ↔ disparity: of 0, infinity."""
    return math.inf if isinstance(value, int | float) and value == 0 else 1 / value


@dataclass(frozen=True, init=False)
class Lens:
    """A thin lens: how wide it is open, where it is focused, and the shape of its aperture (a disc unless given).

    `aperture` in pixels × scene units; `focus_depth` in scene units along the optical axis (inf is infinity), or
    `focus_disparity`, its inverse, instead: the other one follows. Numbers, or scalar tensors that learn.
    """

    aperture: Any
    focus_depth: Any
    focus_disparity: Any
    _shape: Shape | None

    def __init__(
        self,
        aperture: Tensor | float,
        focus_depth: Tensor | float = math.inf,
        shape: Shape | None = None,
        *,
        focus_disparity: Tensor | float | None = None,
    ) -> None:
        if focus_disparity is None:
            focus_disparity = inverse(focus_depth)
        elif focus_depth is math.inf:
            focus_depth = inverse(focus_disparity)
        else:
            raise ValueError("focus_depth and focus_disparity say the same thing: give one of them")
        self._set(aperture=aperture, focus_depth=focus_depth, focus_disparity=focus_disparity, _shape=shape)

    def _set(self, **values: Any) -> Lens:
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self

    @property
    def shape(self) -> Shape:
        """The shape of its aperture."""
        from dofnerf.optics.shapes import DISC

        return self._shape or DISC

    def coc_radius(self, depth: _Array) -> _Array:
        """Signed blur radius in pixels at `depth` (scene units): + behind the focal plane."""
        return self.coc_radius_from_disparity(1 / depth)  # type: ignore[return-value]

    def coc_radius_from_disparity(self, disparity: _Array) -> _Array:
        """The same from 1 / depth, in which blur is linear; disparity 0 is infinitely far."""
        return coc_radius_from_disparity(disparity, self.aperture, self.focus_disparity)

    def scaled(self, width: float, old_width: float = 1.0) -> Lens:
        """The same lens before a picture `width` instead of `old_width` pixels wide (or `width` times as wide)."""
        return copy(self)._set(aperture=self.aperture * width / old_width)

    def at(self, focus_depth: Tensor | float = math.inf, *, focus_disparity: Tensor | float | None = None) -> Lens:
        """The same lens focused elsewhere."""
        return Lens(self.aperture, focus_depth, self._shape, focus_disparity=focus_disparity)

    def with_shape(self, shape: Shape) -> Lens:
        """The same lens with an aperture of another shape."""
        return copy(self)._set(_shape=shape)

    def _repr_html_(self) -> str:
        """A table, in a notebook; of several lenses, a column each."""
        values = {"aperture": self.aperture, "focus depth": self.focus_depth, "focus disparity": self.focus_disparity}
        rows = [(name, *_numbers(value)) for name, value in values.items()]
        return html_table([*rows, ("shape", escape(self.shape.name))])

    def f_number(self, focal_length_mm: float, focal_px: float, unit_mm: float = 1000.0) -> float:
        """Its f-number; `focal_px` is the focal length in pixels, `unit_mm` one scene unit in millimetres."""
        return f_number_from_aperture(float(self.aperture), focal_length_mm, focal_px, unit_mm)

    @classmethod
    def from_f_number(
        cls, f_number: float, focal_length_mm: float, focal_px: float, focus_depth: float = math.inf,
        unit_mm: float = 1000.0, shape: Shape | None = None,
    ) -> Lens:  # fmt: skip
        """A lens opened to f/`f_number`; see `aperture_from_f_number`."""
        return cls(aperture_from_f_number(f_number, focal_length_mm, focal_px, unit_mm), focus_depth, shape)


PINHOLE = Lens(0.0)


def coc_radius(depth: Tensor, aperture: Tensor | float, focus_disparity: Tensor | float) -> Tensor:
    """Signed blur radius in pixels, half of Eq. 5's diameter: + behind the focal plane, 0 on it. Shapes broadcast."""
    check_depth(depth)
    return coc_radius_from_disparity(1 / depth, aperture, focus_disparity)


def coc_radius_from_disparity(disparity: _Array, aperture: Any, focus_disparity: Any) -> _Array:
    """The same from 1/depth, in which blur is linear; disparity 0 is infinitely far."""
    _check_not_negative("aperture", aperture)
    _check_not_negative("focus_disparity", focus_disparity)
    return aperture * (focus_disparity - disparity)


def focal_length_pixels(focal_length_mm: float, sensor_width_mm: float, width: int) -> float:
    """Focal length in pixels of a picture `width` pixels wide."""
    _check_positive(focal_length_mm=focal_length_mm, sensor_width_mm=sensor_width_mm, width=width)
    return focal_length_mm / sensor_width_mm * width


def aperture_from_f_number(f_number: float, focal_length_mm: float, focal_px: float, unit_mm: float = 1000.0) -> float:
    """`aperture` of a lens opened to f/`f_number`; `unit_mm` is one scene unit in millimetres (1000: metres)."""
    _check_positive(f_number=f_number, focal_length_mm=focal_length_mm, focal_px=focal_px, unit_mm=unit_mm)
    lens_radius_mm = focal_length_mm / (2 * f_number)
    return focal_px * lens_radius_mm / unit_mm


def f_number_from_aperture(aperture: float, focal_length_mm: float, focal_px: float, unit_mm: float = 1000.0) -> float:
    """The inverse of `aperture_from_f_number`; a closed aperture (0) is f/infinity."""
    _check_positive(focal_length_mm=focal_length_mm, focal_px=focal_px, unit_mm=unit_mm)
    _check_not_negative("aperture", aperture)
    return math.inf if aperture == 0 else focal_length_mm * focal_px / (2 * aperture * unit_mm)


def html_table(rows: Sequence[Sequence[Any]]) -> str:
    """A table of HTML whose first column names the rows; numbers in four digits. Text must be escaped already."""
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>" for first, *rest in cells]
    return f"<table>{''.join(lines)}</table>"


def _numbers(value: Any) -> list[float]:
    if isinstance(value, int | float):
        return [float(value)]
    return [float(one) for one in value.detach().reshape(-1).tolist()]


def check_depth(depth: Tensor) -> None:
    """Refuse depth that is NaN, zero or negative, naming the first such pixel; `inf` is the sky and is fine."""
    bad = ~(depth > 0)
    if bool(bad.any()):
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"depth must be positive: found {float(depth[where]):g} at index {where} ({int(bad.sum())} such)"
        )


def _check_not_negative(name: str, value: Tensor | float) -> None:
    if isinstance(value, int | float):
        bad = [] if value >= 0 else [value]  # NaN is bad too
    else:
        bad = value[~(value >= 0)].reshape(-1).tolist()
    if bad:
        raise ValueError(f"{name} must be 0 or more, found {bad[0]:g}")


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite, found {value}")
