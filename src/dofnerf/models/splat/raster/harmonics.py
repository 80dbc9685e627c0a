"""Real spherical harmonics up to degree 3, with the signs that 3D Gaussian splatting uses: colour that depends on
direction."""

from __future__ import annotations

import torch
from torch import Tensor

C0 = 0.28209479177387814
C1 = 0.4886025119029199
C2 = (1.0925484305920792, -1.0925484305920792, 0.31539156525252005, -1.0925484305920792, 0.5462742152960396)
C3 = (
    -0.5900435899266435,
    2.890611442640554,
    -0.4570457994644658,
    0.3731763325901154,
    -0.4570457994644658,
    1.445305721320277,
    -0.5900435899266435,
)


def basis(directions: Tensor, count: int) -> Tensor:
    """The first `count` (1, 4, 9 or 16) harmonics of unit `directions` (…, 3) → (…, count)."""
    x, y, z = directions.unbind(-1)
    xx, yy, zz = x * x, y * y, z * z
    values = [torch.full_like(x, C0)]
    if count > 1:
        values += [-C1 * y, C1 * z, -C1 * x]
    if count > 4:
        values += [C2[0] * x * y, C2[1] * y * z, C2[2] * (2 * zz - xx - yy), C2[3] * x * z, C2[4] * (xx - yy)]
    if count > 9:
        values += [
            C3[0] * y * (3 * xx - yy),
            C3[1] * x * y * z,
            C3[2] * y * (4 * zz - xx - yy),
            C3[3] * z * (2 * zz - 3 * xx - 3 * yy),
            C3[4] * x * (4 * zz - xx - yy),
            C3[5] * z * (xx - yy),
            C3[6] * x * (xx - 3 * yy),
        ]
    return torch.stack(values, dim=-1)


def from_colour(colour: Tensor) -> Tensor:
    """Display colour (…, 3) → the one coefficient (…, 3) of degree 0 that shows it from everywhere."""
    return (colour - 0.5) / C0
