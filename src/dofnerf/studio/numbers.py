"""Several numbers in one flag."""

from __future__ import annotations

import math


def vector(flag: str, text: str) -> tuple[float, float, float]:
    """Three finite numbers written X,Y,Z."""
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{flag} must be three numbers X,Y,Z such as 0,-1,2.5, found {text!r}") from None
    if not all(math.isfinite(value) for value in (x, y, z)):
        raise ValueError(f"{flag} must be finite, found {text!r}")
    return x, y, z
