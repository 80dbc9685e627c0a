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

import torch
from torch import Tensor


def coc_radius(depth: Tensor, aperture: Tensor | float, focus_disparity: Tensor | float) -> Tensor:
    """Signed blur radius in pixels, half of Eq. 5's diameter: + behind the focal plane, 0 on it. Shapes broadcast."""
    check_depth(depth)
    return coc_radius_from_disparity(1 / depth, aperture, focus_disparity)


def coc_radius_from_disparity(disparity: Tensor, aperture: Tensor | float, focus_disparity: Tensor | float) -> Tensor:
    """The same from 1/depth, in which blur is linear; disparity 0 is infinitely far."""
    _check_not_negative("aperture", aperture)
    _check_not_negative("focus_disparity", focus_disparity)
    return aperture * (focus_disparity - disparity)


def coc_radius_exact(
    depth: Tensor, aperture: Tensor | float, focus_depth: Tensor | float, focal_length: float
) -> Tensor:
    """Half of Eq. 4's diameter, where `aperture` was made with the lens's focal length f (not the image distance).

    `focal_length` is f in scene units. Infinity focus is the limit, where Eq. 4 and Eq. 5 agree.
    """
    focus = torch.as_tensor(focus_depth, dtype=depth.dtype, device=depth.device)
    if not bool((focus > focal_length).all()):
        raise ValueError(f"focus_depth must be beyond the focal length {focal_length:g} (both in scene units)")
    magnification = 1 / (1 - focal_length / focus)
    return coc_radius(depth, aperture, 1 / focus) * magnification


def approximation_error(focus_depth: float, focal_length: float) -> float:
    """By what share Eq. 5 falls short of Eq. 4: f / F, the same for every depth (both in one unit)."""
    return focal_length / focus_depth


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


def check_depth(depth: Tensor) -> None:
    """Refuse depth that is NaN, zero or negative, naming the first such pixel; `inf` is the sky and is fine."""
    bad = ~(depth > 0)
    if bool(bad.any()):
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"depth must be positive: found {float(depth[where]):g} at index {where} ({int(bad.sum())} such)"
        )


def _check_not_negative(name: str, value: Tensor | float) -> None:
    values = torch.as_tensor(value)
    if not bool((values >= 0).all()):  # also catches NaN
        raise ValueError(f"{name} must be 0 or more, found {float(values[~(values >= 0)].reshape(-1)[0]):g}")


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite, found {value}")
