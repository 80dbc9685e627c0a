"""Display values ↔ linear light. Blur adds light, so it happens in linear light.

A curve is a number γ (display = linear^(1/γ)) or "srgb". Both have a straight toe near black: sRGB by definition, the power so
that its slope at 0 is finite (a pure x^(1/γ) has an infinite gradient there). The toe lies below 1.4/255 of display white.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Curve = float | Literal["srgb"]

TOE = 1e-5  # linear light below which the power curve is straight


def to_linear(display: Tensor, curve: Curve = 2.2) -> Tensor:
    """Display values (any shape) → linear light; values below 0 stay straight."""
    if curve == "srgb":
        return torch.where(display <= 0.04045, display / 12.92, ((display.clamp(min=0.04045) + 0.055) / 1.055) ** 2.4)
    gamma = _check(curve)
    if gamma == 1:
        return display
    knee = TOE ** (1 / gamma)
    return torch.where(display <= knee, display * (TOE / knee), display.clamp(min=knee) ** gamma)


def to_display(linear: Tensor, curve: Curve = 2.2) -> Tensor:
    """The inverse of `to_linear`, with a finite gradient everywhere."""
    if curve == "srgb":
        return torch.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear.clamp(min=0.0031308) ** (1 / 2.4) - 0.055)
    gamma = _check(curve)
    if gamma == 1:
        return linear
    return torch.where(linear <= TOE, linear * (TOE ** (1 / gamma) / TOE), linear.clamp(min=TOE) ** (1 / gamma))


def _check(curve: Curve) -> float:
    if not isinstance(curve, int | float) or not (curve > 0 and math.isfinite(curve)):
        raise ValueError(f"the light curve must be 'srgb' or a gamma above 0, found {curve!r}")
    return float(curve)
