"""A stranger's aperture shape, one file, drawn by everything that draws blur: through the command line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dofnerf import plugins
from dofnerf.cli import main
from dofnerf.files import read_image, write_image, write_map
from dofnerf.files.ply import Splats, write_splats
from dofnerf.optics import scatter, shape_of
from dofnerf.optics.shapes import SHAPES

pytest.importorskip("dofnerf.studio.flags", reason="the flag --shape comes with it")
HEART = Path(__file__).parent / "heart_shape.py"
RADIUS, SIZE = 16, 49


@pytest.fixture(autouse=True)
def heart(monkeypatch):
    """As a user sets it; forgotten afterwards."""
    monkeypatch.setenv(plugins.VARIABLE, str(HEART))
    yield
    SHAPES.pop("heart", None)
    plugins._loaded.discard(str(HEART))


def truth(turned: float = 0.0) -> np.ndarray:
    """Whether the centre of each of SIZE × SIZE pixels lies in a heart of RADIUS pixels; behind the focal plane."""
    row, column = np.mgrid[:SIZE, :SIZE] - SIZE // 2
    angle = np.arctan2(-row, column) - math.pi / 2 - turned
    return np.hypot(row, column) <= RADIUS * (0.35 + 0.65 * np.sqrt(np.abs(np.sin(angle / 2))))


def overlap(image: np.ndarray, expected: np.ndarray) -> float:
    """Intersection over union of what is lit and what should be."""
    lit = image.mean(-1) > 0.5 * np.percentile(image.mean(-1), 95)
    return float((lit & expected).sum() / (lit | expected).sum())


def test_refocus_draws_it(tmp_path):
    """One white pixel behind the focal plane becomes a heart; in front of it, a heart upside down."""
    image = np.zeros((SIZE, SIZE, 3), np.float32)
    image[SIZE // 2, SIZE // 2] = 1
    write_image(tmp_path / "dot.exr", image)
    for depth, focus, turned in ((2.0, 1.0, 0.0), (1.0, 2.0, math.pi)):
        write_map(tmp_path / "depth.npy", np.full((SIZE, SIZE), depth, np.float32))
        out = tmp_path / "heart.exr"
        flags = ["--shape", "heart", "--norm", "unit", "--aperture", str(2 * RADIUS), "--focus", str(focus)]
        assert main(["refocus", str(tmp_path / "dot.exr"), str(tmp_path / "depth.npy"), *flags, "--out", str(out)]) == 0
        assert overlap(read_image(out), truth(turned)) > 0.9
        assert overlap(read_image(out), truth(turned + math.pi)) < 0.8


def test_the_exact_lens_takes_its_points_from_it():
    plugins.load_plugins()
    points = shape_of("heart").points((1,), 20_000, torch.Generator().manual_seed(0))[0].numpy()
    counts, _, _ = np.histogram2d(
        -points[:, 1], points[:, 0], bins=SIZE, range=[[-SIZE / 2 / RADIUS, SIZE / 2 / RADIUS]] * 2
    )
    assert overlap(np.repeat(counts[..., None], 3, -1), truth()) > 0.9
    inside = counts[truth()]
    assert inside.std() < 0.35 * inside.mean()  # evenly, but for the rim and for chance


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from small_shots import write_run

    folder = tmp_path_factory.mktemp("heart") / "run"
    write_run(folder)
    return folder


@pytest.mark.parametrize("flags", [["--lens-samples", "1500"], [], ["--layers", "1"]], ids=["exact", "layers", "one"])
def test_render_draws_it(tmp_path, flags):
    """A small bright splat behind the focal plane becomes a heart, by the exact lens and by the quick ways."""
    source = tmp_path / "dot.ply"
    dot = np.array([[0.0, 0.0, -4.0]], np.float32), np.full((1, 3), -4.0, np.float32), np.eye(1, 4, dtype=np.float32)
    write_splats(source, Splats(*dot, np.full(1, 6.0, np.float32), np.full((1, 1, 3), 60.0, np.float32)))
    where = [
        "--eye",
        "0,0,0",
        "--look-at",
        "0,0,-1",
        "--up",
        "0,1,0",
        "--fov",
        "40",
        "--width",
        str(SIZE),
        "--height",
        str(SIZE),
    ]
    lens = ["--shape", "heart", "--aperture", str(4 * RADIUS), "--focus", "2", *flags]
    out = tmp_path / "heart.exr"
    assert main(["render", str(source), *where, *lens, "--out", str(out)]) == 0
    assert overlap(read_image(out), truth()) > 0.8
    assert overlap(read_image(out), truth()) > overlap(read_image(out), truth(math.pi)) + 0.1


def test_the_page_knows_it(run, tmp_path):
    out = tmp_path / "page.html"
    assert (
        main(["export", str(run), "--html", "--single-view", "--shape", "heart", "--aperture", "8", "--out", str(out)])
        == 0
    )
    scene = json.loads(re.search(r"const SCENE = (\{.*?\});", out.read_text(encoding="utf-8"), re.DOTALL)[1])
    count = len(scene["rim"])
    angle = 2 * np.pi * np.arange(count) / count
    np.testing.assert_allclose(
        scene["rim"], 0.35 + 0.65 * np.sqrt(np.abs(np.sin((angle - math.pi / 2) / 2))), atol=1e-5
    )


def test_gradients_pass_through_it():
    plugins.load_plugins()
    image = torch.rand(3, 4, 1, dtype=torch.float64, requires_grad=True)
    radius = torch.rand(3, 4, dtype=torch.float64).mul(2).add(0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda i, r: scatter(i, r, shape_of("heart", 0, 20.0)), (image, radius), atol=1e-6)


def test_unknown_shapes_are_refused(run, tmp_path, capsys):
    assert main(["render", str(run), "--shape", "star", "--aperture", "3", "--out", str(tmp_path / "x.png")]) == 2
    assert "heart" in capsys.readouterr().err
