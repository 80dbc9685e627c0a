"""The lens in gsplat's training script: with a stand-in of the script's Runner, and of gsplat's rasteriser."""

from __future__ import annotations

import ast
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cameras_around import look_at
from dofnerf import Lens, scatter
from dofnerf.models.splat.raster import from_colour
from gsplat_stand_in import rasterization

FILE = Path(__file__).parents[2] / "plugins/gsplat/lens_in_gsplat.py"
SIZE, FOCAL = 40, 50.0


class Runner:
    """What `with_lens` needs of simple_trainer.Runner (gsplat 1.4 to 1.5), and a training step as short as possible.

    Splats stand on a slope between depths 2 and 6, of a few pixels each, before four cameras side by side.
    """

    def __init__(self, local_rank: int, world_rank: int, world_size: int, cfg: SimpleNamespace) -> None:
        dice = np.random.default_rng(0)
        depth = 1 / dice.uniform(1 / 6, 1 / 2, 900)
        places = np.stack(
            [(1 - 2 * (6 / depth - 1) / 2) * 0.42 * depth, dice.uniform(-0.42, 0.42, 900) * depth, -depth], 1
        )
        poses = [look_at((0.05 * k, 0.0, 0.0), (0.05 * k, 0.0, -4.0)).camera_to_world for k in range(4)]
        flipped = np.stack(
            [np.concatenate([pose * [1, -1, -1, 1], [[0, 0, 0, 1]]]) for pose in poses]
        )  # as gsplat has it
        self.parser = SimpleNamespace(points=places.astype(np.float32), camtoworlds=flipped)
        self.device, self.cfg, self.trainset = "cpu", cfg, range(4)
        self.app_optimizers: list[torch.optim.Optimizer] = []
        colours = from_colour(torch.from_numpy(dice.uniform(0.05, 0.95, (900, 1, 3))).float())
        self.splats = {
            "means": torch.from_numpy(places).float(),
            "scales": torch.from_numpy(np.log(1.2 * depth / FOCAL)).float()[:, None].repeat(1, 3),
            "quats": torch.tensor([1.0, 0, 0, 0]).repeat(900, 1),
            "opacities": torch.full((900,), 4.0),
            "colors": colours,
        }

    def rasterize_splats(self, camtoworlds, Ks, width, height, **kwargs):
        kwargs.pop("image_ids", None)
        splats = self.splats
        return rasterization(
            splats["means"], splats["quats"], splats["scales"].exp(), torch.sigmoid(splats["opacities"]),
            splats["colors"], torch.linalg.inv(camtoworlds), Ks, width, height, **kwargs,
        )  # fmt: skip

    def view(self, photo: int, **kwargs):
        pose = torch.from_numpy(self.parser.camtoworlds[photo : photo + 1]).float()
        middle = torch.tensor([[[FOCAL, 0, SIZE / 2], [0, FOCAL, SIZE / 2], [0, 0, 1]]])
        return self.rasterize_splats(camtoworlds=pose, Ks=middle, width=SIZE, height=SIZE, sh_degree=0, **kwargs)


@pytest.fixture
def with_lens(monkeypatch):
    monkeypatch.syspath_prepend(str(FILE.parent))
    yield __import__("lens_in_gsplat").with_lens
    sys.modules.pop("lens_in_gsplat", None)


def test_it_is_under_twenty_lines() -> None:
    (made,) = [node for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.ClassDef)]
    assert made.end_lineno - made.lineno + 1 < 20


def test_the_script_learns_the_lenses_and_evaluates_sharply(with_lens) -> None:
    true = [Lens(14.0, 2.2), Lens(14.0, 5.0), Lens(14.0, 2.6), Lens(14.0, 4.0)]
    runner = with_lens(Runner)(0, 0, 1, SimpleNamespace())
    assert 1.9 < runner.near < 2.3
    with torch.no_grad():
        sharp = [runner.view(i, render_mode="RGB+ED")[0] for i in range(4)]
        photos = [scatter(s[..., :3], one.coc_radius(s[..., 3])) for s, one in zip(sharp, true, strict=True)]
    assert torch.equal(runner.view(0, render_mode="RGB")[0], sharp[0][..., :3])  # evaluation has no image_ids
    runner.splats["colors"].requires_grad_()
    for group in runner.app_optimizers[0].param_groups:
        group["lr"] = 0.1  # few steps
    for step in range(100):
        photo = step % 4
        renders, _, _ = runner.view(photo, image_ids=torch.tensor([photo]), render_mode="RGB")
        loss = (renders[..., :3] - photos[photo]).abs().mean()
        loss.backward()
        for optimizer in runner.app_optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    assert runner.splats["colors"].grad.abs().max() > 0 and math.isfinite(float(loss))
    for found, one in zip(runner.lens.focus_depth.tolist(), true, strict=True):
        assert found == pytest.approx(one.focus_depth, rel=0.15)
    assert runner.lens.aperture.tolist() == pytest.approx([14.0] * 4, rel=0.25)
