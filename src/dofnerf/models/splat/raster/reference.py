"""The rasteriser in plain PyTorch: the specification, used on devices without a kernel. Gradients by autograd.

Every pixel evaluates every Gaussian, so time is O(N · pixels). Pixels come in chunks, which the backward pass
recomputes, so memory is bounded.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dofnerf.camera import Camera
from dofnerf.models.splat import gaussians as limits
from dofnerf.models.splat.gaussians import Drawn, Gaussians, Projected, Style
from dofnerf.optics.lens import coc_radius_from_disparity
from dofnerf.optics.light import to_linear

PAIRS = 1 << 22  # of a Gaussian and a pixel, in memory at once
# Constants of the real spherical harmonics, with the signs of 3D Gaussian splatting
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


def project(
    gaussians: Gaussians, camera: Camera, aperture: Tensor, focus_disparity: Tensor, radius: float, style: Style
) -> Projected:
    """As `raster.project`."""
    with torch.no_grad():
        everything = _on_screen(gaussians, camera, aperture, focus_disparity, radius, style)
    drawn = (everything.reach > 0).nonzero()[:, 0]
    some = Gaussians(
        *(tensor[drawn] for tensor in gaussians)
    )  # the others get no gradient, even if they are not finite
    table = _on_screen(some, camera, aperture, focus_disparity, radius, style).table
    return everything._replace(table=torch.zeros_like(everything.table).index_copy(0, drawn, table))


def _on_screen(
    gaussians: Gaussians, camera: Camera, aperture: Tensor, focus_disparity: Tensor, radius: float, style: Style
) -> Projected:
    means = gaussians.means
    to_camera = means.new_tensor(camera.camera_to_world[:, :3].T * [[1], [-1], [-1]])  # x right, y down, z ahead
    local = (means - means.new_tensor(camera.position)) @ to_camera.T
    centre = means.new_tensor([camera.cx, camera.cy])
    focal = means.new_tensor([camera.fx, camera.fy])
    depth = local[:, 2]
    slope = local[:, :2] / depth[:, None]
    where = centre + focal * slope

    spread = _screen_axes(gaussians, to_camera, focal / depth[:, None], slope, camera)
    cov = spread @ spread.transpose(1, 2)
    flat = torch.linalg.cross(spread[:, 0], spread[:, 1]).square().sum(-1)  # det cov, without its cancellation
    trace = cov[:, 0, 0] + cov[:, 1, 1]
    blur = coc_radius_from_disparity(1 / depth, aperture, focus_disparity)
    grown = limits.LOW_PASS + (radius * blur).square() / 4  # a disc of radius r has the variance r²/4 along each axis
    kept = 0.0 if style.antialiased else limits.LOW_PASS
    det = flat + grown * trace + grown.square()
    det_kept = (flat + kept * trace + kept**2).clamp(min=1e-30)
    conic = torch.stack([cov[:, 1, 1] + grown, -cov[:, 0, 1], cov[:, 0, 0] + grown], dim=-1) / det[:, None]
    solid = torch.sigmoid(gaussians.opacity_logits)
    opacity = solid * torch.sqrt(det_kept / det)

    kinds = min(gaussians.harmonics.shape[1], (style.degree + 1) ** 2)
    seen = torch.nn.functional.normalize(local @ to_camera, dim=-1)
    colour = (basis(seen, kinds)[..., None] * gaussians.harmonics[:, :kinds]).sum(1) + 0.5
    table = torch.cat(
        [where, conic, opacity[:, None], to_linear(colour.clamp(min=0), style.light), 1 / depth[:, None]], dim=-1
    )

    reach = _reach(solid.detach(), opacity.detach())
    half = torch.sqrt(reach[:, None] * (torch.diagonal(cov.detach(), dim1=1, dim2=2) + grown.detach()[:, None]))
    half = half + blur.detach().abs()[:, None]  # a sub-aperture may shift it as far
    inside = (where + half > 0).all(-1) & (where - half < means.new_tensor([camera.width, camera.height])).all(-1)
    drawn = (depth > style.near) & inside & (det < limits.LARGEST) & torch.isfinite(table).all(-1) & (reach > 0)
    return Projected(table, torch.where(drawn, reach, 0.0), depth.detach())


def _screen_axes(gaussians: Gaussians, to_camera: Tensor, zoom: Tensor, slope: Tensor, camera: Camera) -> Tensor:
    """(N, 2, 3): the three axes of each Gaussian on the screen, by the perspective's Jacobian at its mean (EWA)."""
    size = slope.new_tensor([camera.width, camera.height])
    centre = slope.new_tensor([camera.cx, camera.cy])
    focal = slope.new_tensor([camera.fx, camera.fy])
    low, high = -centre / focal, (size - centre) / focal
    margin = limits.MARGIN * (high - low) / 2
    slope = torch.minimum(torch.maximum(slope, low - margin), high + margin)
    nothing = torch.zeros_like(zoom[:, 0])
    tilt = -zoom * slope
    jacobian = torch.stack(
        [torch.stack([zoom[:, 0], nothing, tilt[:, 0]], -1), torch.stack([nothing, zoom[:, 1], tilt[:, 1]], -1)], dim=1
    )
    axes = rotation_matrices(gaussians.rotations) * gaussians.log_scales.exp()[:, None, :]
    return jacobian @ to_camera @ axes


def rotation_matrices(quaternions: Tensor) -> Tensor:
    """(…, 4) as (w, x, y, z), of any length but 0 → (…, 3, 3)."""
    w, x, y, z = torch.nn.functional.normalize(quaternions, dim=-1).unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return torch.stack(rows, dim=-2)


def _reach(solid: Tensor, opacity: Tensor) -> Tensor:
    """The squared Mahalanobis distance at which Gaussians end, ≤ 0 for those too faint.

    Cut off where it has fallen to t of its peak, a Gaussian loses exactly t of its light. The usual cut is at alpha
    1/255, so t = 1 / (255 · opacity). Blur lowers the peak, so the same cut would remove what is far out of focus:
    there, t is 3 %, or what the sharp Gaussian loses if that is more.
    """
    lost = torch.minimum(limits.FAINTEST / opacity.clamp(min=1e-30), (limits.FAINTEST / solid).clamp(min=limits.LOST))
    return -2 * torch.log(lost.clamp(max=1.0)) * (solid > limits.FAINTEST)


def rasterise(projected: Projected, width: int, height: int) -> Drawn:
    """As `raster.rasterise`."""
    table, reach = _near_to_far(projected)
    rows = []
    for first in range(0, width * height, _chunk(table)):
        pixels = _pixels(first, min(first + _chunk(table), width * height), width, table)
        rows.append(checkpoint(_blend, table, reach, pixels, use_reentrant=False))
    whole = torch.cat(rows).reshape(height, width, 5)
    return Drawn(whole[..., :3], whole[..., 3], whole[..., 4])


@torch.no_grad()
def attribute(projected: Projected, values: Tensor) -> Tensor:
    """As `raster.attribute`."""
    height, width, _ = values.shape
    table, reach = _near_to_far(projected)
    flat = values.reshape(height * width, -1)
    total = table.new_zeros(len(table), values.shape[-1])
    for first in range(0, width * height, _chunk(table)):
        last = min(first + _chunk(table), width * height)
        total += _weights(table, reach, _pixels(first, last, width, table)).T @ flat[first:last]
    result = torch.zeros_like(total)
    result[_order(projected)] = total
    return result


def _order(projected: Projected) -> Tensor:
    return torch.sort(projected.depth, stable=True).indices


def _near_to_far(projected: Projected) -> tuple[Tensor, Tensor]:
    order = _order(projected)
    return projected.table[order], projected.reach[order]


def _chunk(table: Tensor) -> int:
    return max(1, PAIRS // max(1, len(table)))


def _pixels(first: int, last: int, width: int, like: Tensor) -> Tensor:
    index = torch.arange(first, last, device=like.device)
    return torch.stack([index % width, index // width], dim=-1).to(like) + 0.5


def _blend(table: Tensor, reach: Tensor, pixels: Tensor) -> Tensor:
    """(P, 5) for `pixels` (P, 2): light, disparity, alpha."""
    weights = _weights(table, reach, pixels)
    return torch.cat([weights @ table[:, 6:10], weights.sum(-1, keepdim=True)], dim=-1)


def _weights(table: Tensor, reach: Tensor, pixels: Tensor) -> Tensor:
    """(P, N): alpha · transmittance of each Gaussian, near to far."""
    dx, dy = (pixels[:, None] - table[:, :2]).unbind(-1)
    a, b, c, opacity = table[:, 2:6].unbind(-1)
    power = -0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy
    inside = (power >= -0.5 * reach) & (reach > 0)
    value = opacity * torch.exp(power.clamp(min=math.log(limits.FAINTEST) - 1))
    alpha = torch.where(inside, value.clamp(max=limits.OPAQUEST), 0.0)
    before = torch.nn.functional.pad(torch.cumprod(1 - alpha.detach(), dim=-1)[:, :-1], (1, 0), value=1.0)
    alpha = torch.where(before >= limits.STOP, alpha, 0.0)
    passed = torch.cumprod(1 - alpha, dim=-1)
    return alpha * torch.nn.functional.pad(passed[:, :-1], (1, 0), value=1.0)


def basis(directions: Tensor, count: int) -> Tensor:
    """The first `count` (1, 4, 9 or 16) real spherical harmonics of unit `directions` (…, 3) → (…, count)."""
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
    """The coefficient (…, 3) of degree 0 that shows a display colour (…, 3) from every direction."""
    return (colour - 0.5) / C0
