"""Rasterising by gsplat. Without CUDA a stand-in takes the place of its kernels: what their documentation says of
shapes and rules, in plain PyTorch, so that the way in and out is tested everywhere; the kernels themselves only on
CUDA."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from small_splats import camera, learning, random_gaussians

from dofnerf.models.splat.raster import draw, gpu, project, rasterise, reference


def isect_tiles(means, radii, depths, tile, across, down):
    """Pairs of tile and Gaussian, by tile and then by depth; `pairs` holds the tile in its upper 32 bits."""
    assert means.shape[-1] == radii.shape[-1] == 2 and radii.dtype == torch.int32
    found = []
    for i, ((x, y), (rx, ry)) in enumerate(zip(means[0].tolist(), radii[0].tolist(), strict=True)):
        if rx > 0 and ry > 0:
            columns = range(max(math.floor((x - rx) / tile), 0), min(math.floor((x + rx) / tile) + 1, across))
            rows = range(max(math.floor((y - ry) / tile), 0), min(math.floor((y + ry) / tile) + 1, down))
            found += [(row * across + column, float(depths[0, i]), i) for row in rows for column in columns]
    found.sort()
    return None, torch.tensor([t << 32 for t, _, _ in found]), torch.tensor([i for _, _, i in found])


def isect_offset_encode(pairs, images, across, down):
    tiles = (pairs >> 32).contiguous()
    return torch.searchsorted(tiles, torch.arange(images * across * down)).reshape(images, down, across)


def rasterize_to_pixels(means, conics, colours, opacities, width, height, tile, offsets, order):  # noqa: PLR0913, PLR0917
    starts = [*offsets[0].reshape(-1).tolist(), len(order)]
    across = offsets.shape[2]
    values, alphas = [], []
    for y in range(height):
        for x in range(width):
            where = (y // tile) * across + x // tile
            light, left = torch.zeros(colours.shape[-1]), torch.ones(())
            for i in order[starts[where] : starts[where + 1]].tolist():
                dx, dy = means[0, i, 0] - (x + 0.5), means[0, i, 1] - (y + 0.5)
                a, b, c = conics[0, i]
                alpha = (opacities[0, i] * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)).clamp(max=0.999)
                if alpha < 1 / 255:
                    continue
                light, left = light + left * alpha * colours[0, i], left * (1 - alpha)
                if left < 1e-4:
                    break
            values.append(light)
            alphas.append(1 - left)
    return torch.stack(values).reshape(1, height, width, -1), torch.stack(alphas).reshape(1, height, width, 1)


STAND_IN = SimpleNamespace(
    isect_tiles=isect_tiles, isect_offset_encode=isect_offset_encode, rasterize_to_pixels=rasterize_to_pixels
)


def solid(seen_by):
    """Gaussians that lose little where gsplat cuts them."""
    gaussians = random_gaussians(seen_by, 12)
    return gaussians._replace(opacity_logits=gaussians.opacity_logits.abs() + 2)


def test_the_stand_in_agrees_with_the_specification(monkeypatch):
    monkeypatch.setitem(sys.modules, "gsplat", STAND_IN)
    seen_by = camera(21, 18)
    pulls, pictures = [], []
    for ours in (gpu.rasterise, reference.rasterise):
        gaussians = learning(solid(seen_by))
        drawn = ours(project(gaussians, seen_by, backend="reference"), seen_by.width, seen_by.height)
        pictures.append(torch.cat([drawn.light, drawn.disparity[..., None], drawn.alpha[..., None]], dim=-1))
        pictures[-1].square().sum().backward()
        pulls.append(gaussians.means.grad)
    assert gpu.lost(project(solid(seen_by), seen_by)) <= 0.03
    torch.testing.assert_close(pictures[0].detach(), pictures[1].detach(), atol=0.01, rtol=0)
    assert (pulls[0] - pulls[1]).norm() < 0.05 * pulls[1].norm()


def test_much_blur_is_the_twin_s(monkeypatch):
    monkeypatch.setitem(sys.modules, "gsplat", None)  # to import it would fail
    seen_by = camera(21, 18)
    blurred = project(solid(seen_by), seen_by, 200.0, 0.1)
    assert gpu.lost(blurred) > 0.03
    torch.testing.assert_close(
        gpu.rasterise(blurred, 21, 18).light, rasterise(blurred, 21, 18, "reference").light, atol=0, rtol=0
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_gsplat_agrees_with_the_specification():
    pytest.importorskip("gsplat")
    seen_by = camera(120, 90)
    gaussians = type(solid(seen_by))(*(tensor.cuda() for tensor in solid(seen_by)))
    for found, wanted in zip(
        draw(gaussians, seen_by, backend="gpu"), draw(gaussians, seen_by, backend="reference"), strict=True
    ):
        torch.testing.assert_close(found, wanted, atol=0.01, rtol=0)


def test_without_cuda_it_says_so():
    with pytest.raises(ValueError, match="the gpu backend takes float32 on cuda"):
        draw(random_gaussians(camera()), camera(), backend="gpu")
