"""Disparity from files, from sparse points and from a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import plates
import pytest
import torch

from dofnerf import scenes
from dofnerf.lab.synth.disparity import Disparities, DisparityConfig, metric
from dofnerf.lab.synth.disparity import disparities as sources
from dofnerf.lab.synth.interpolate import interpolate
from dofnerf.scenes import Points, Scene
from dofnerf.studio import monocular
from dofnerf.studio.monocular import MonocularNetwork


def disparities(scene: Scene, config: DisparityConfig) -> tuple[Disparities, str]:
    """Nothing here may train a run."""
    return sources(scene, config, Path("nowhere"))


def pointed(scene: Scene, count: int = 60, wrong: int = 0) -> Scene:
    """The scene with sparse points that lie on its plates, the first `wrong` of them at depth 3."""
    rng = np.random.default_rng(1)
    pixels = rng.uniform([0, 0], [plates.WIDTH, plates.HEIGHT], (count, 2))
    column, row = pixels.astype(int).T
    depth = plates.depth()[row, column].astype(float)
    depth[:wrong] = 3.0
    xyz = scene.camera(0).unproject(pixels, depth)
    points = Points(xyz, np.zeros((count, 3), dtype=np.uint8), np.full(count, 0.2))
    frames = [replace(frame, seen=np.arange(count)) for frame in scene.frames]
    return replace(scene, frames=tuple(frames[:1]), points=points, train=(0,), test=())


@pytest.fixture
def bare(tmp_path: Path) -> Scene:
    return scenes.load(plates.write(tmp_path / "in", depth_maps=False))


def test_the_scene_s_own_depth_comes_first(tmp_path: Path) -> None:
    disparity, words = disparities(scenes.load(plates.write(tmp_path / "in")), DisparityConfig())
    np.testing.assert_allclose(disparity(1), 1 / plates.depth())
    assert "depth maps" in words


def test_nothing_to_tell_disparity_from(bare: Scene) -> None:
    assert "a run trained on the sharp photos" in disparities(bare, DisparityConfig())[1]
    with pytest.raises(ValueError, match=r"frame 0 \(images/view0.png\): has no depth map"):
        disparities(bare, DisparityConfig("files"))


def test_maps_of_every_kind(bare: Scene, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    truth = 1 / plates.depth()
    for kind, values in (("depth", 1 / truth), ("disparity", truth), ("relative", 100 * truth - 7)):
        for i in range(plates.COUNT):
            np.save(maps / f"view{i}.npy", values)
        disparity, _ = disparities(bare, DisparityConfig(maps=maps, map_kind=kind))
        # A relative map is laid over the scene's range where there are no points.
        wanted = truth if kind != "relative" else np.where(truth > 0.3, 1 / 1.5, 1 / 5)
        np.testing.assert_allclose(disparity(2), wanted, rtol=1e-5)
    np.save(maps / "view1.npy", np.kron(truth, np.ones((2, 2))))
    np.testing.assert_allclose(disparities(bare, DisparityConfig(maps=maps, map_kind="disparity"))[0](1), truth)


def test_bad_maps(bare: Scene, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    config = DisparityConfig(maps=maps)
    with pytest.raises(ValueError, match=r"no map for frame 0 \(images/view0.png\); expected view0.npy"):
        disparities(bare, config)
    for i in range(plates.COUNT):
        np.save(maps / f"view{i}.npy", np.ones((plates.HEIGHT, plates.WIDTH + 5)))
    disparity, _ = disparities(bare, config)
    with pytest.raises(ValueError, match=r"view0.npy: 77×40 pixels do not fit the photos' 72×40"):
        disparity(0)
    holes = plates.depth()
    holes[3, 5] = 0
    np.save(maps / "view1.npy", holes)
    with pytest.raises(ValueError, match=r"view1.npy: depth must be positive, found 0 at column 5, row 3 \(1 such"):
        disparity(1)
    np.save(maps / "view2.npy", np.ones((plates.HEIGHT, plates.WIDTH)))
    with pytest.raises(ValueError, match="is 1 everywhere"):
        disparities(bare, DisparityConfig(maps=maps, map_kind="relative"))[0](2)


def test_points_fill_the_plates_and_stop_at_the_edge(bare: Scene) -> None:
    """The photo has an edge where depth has one; a wrong point in ten is outvoted."""
    scene = pointed(bare, 80, wrong=8)
    seen = scene.visible(0)
    image = np.where(plates.depth()[..., None] == plates.NEAR, 0.2, 0.8).astype(np.float32) * np.ones(
        3, dtype=np.float32
    )
    disparity = interpolate(image, seen.pixels, 1 / seen.depth, seen.error)
    misses = np.abs(disparity - 1 / plates.depth())
    assert np.median(misses) < 0.005 and np.mean(misses > 0.05) < 0.03
    assert 1 / seen.depth.max() - 1e-6 <= disparity.min() and disparity.max() <= 1 / seen.depth.min() + 1e-6
    assert disparities(scene, DisparityConfig("points"))[1] == "sparse points"


def test_points_of_a_real_capture_foretell_those_left_out(captures: Path) -> None:
    scene = scenes.load(captures / "flower", width=252)
    seen, image = scene.visible(3), scene.photo(3)
    asked = np.arange(len(seen.depth)) % 10 == 0
    disparity = interpolate(image, seen.pixels[~asked], 1 / seen.depth[~asked], seen.error[~asked])
    column, row = seen.pixels[asked].astype(int).T
    misses = np.abs(disparity[row, column] - 1 / seen.depth[asked])
    spread = np.ptp(np.percentile(1 / seen.depth, [2, 98]))
    assert np.median(misses) < 0.03 * spread and np.mean(misses > 0.25 * spread) < 0.1


def test_a_relative_map_is_fitted_to_the_points(bare: Scene) -> None:
    scene = pointed(bare, wrong=5)
    np.testing.assert_allclose(metric(40 / plates.depth() + 3, scene, 0), 1 / plates.depth(), rtol=0.01)
    with pytest.raises(ValueError, match="runs against the sparse points"):
        metric(plates.depth(), scene, 0)


class TinyNetwork(torch.nn.Module):
    """A depth network in miniature, called as those of transformers are: predicts brightness, at half the size."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(predicted_depth=torch.nn.functional.avg_pool2d(pixel_values.mean(1), 2))


class TinyProcessor:
    def __call__(self, images, return_tensors: str) -> dict[str, torch.Tensor]:
        assert return_tensors == "pt"
        return {"pixel_values": torch.from_numpy(np.asarray(images).astype(np.float32) / 255).permute(2, 0, 1)[None]}


def library(**config: str) -> SimpleNamespace:
    """What we use of transformers."""
    return SimpleNamespace(
        AutoImageProcessor=SimpleNamespace(from_pretrained=lambda name: TinyProcessor()),
        AutoModelForDepthEstimation=SimpleNamespace(
            from_pretrained=lambda name, use_safetensors: TinyNetwork(SimpleNamespace(**config))
        ),
    )


def test_a_network_gives_disparity_of_the_photo_s_size() -> None:
    image = np.linspace(0.1, 0.9, 24, dtype=np.float32)[None, :, None] * np.ones((10, 1, 3), dtype=np.float32)
    near = MonocularNetwork("tiny", library(model_type="dpt")).disparity(image)
    far = MonocularNetwork("tiny", library(model_type="depth_anything", depth_estimation_type="metric")).disparity(
        image
    )
    assert near.shape == far.shape == (10, 24)
    np.testing.assert_allclose(near[5], image[0, :, 0], atol=0.03)
    np.testing.assert_allclose(far, 1 / near, rtol=1e-5)


def test_a_network_s_own_way_to_the_photo_s_size_is_used() -> None:
    class Finishing(TinyProcessor):
        def post_process_depth_estimation(self, outputs, source_sizes=None, target_sizes=None):
            assert source_sizes == target_sizes == [(10, 24)]
            return [{"predicted_depth": torch.full((10, 24), 0.5)}]

    stand_in = library(model_type="zoedepth")
    stand_in.AutoImageProcessor.from_pretrained = lambda name: Finishing()
    disparity = MonocularNetwork("tiny", stand_in).disparity(np.zeros((10, 24, 3), dtype=np.float32))
    np.testing.assert_allclose(disparity, 2.0)


def test_the_recipe_with_a_network(bare: Scene, monkeypatch) -> None:
    monkeypatch.setattr(monocular, "_transformers", lambda: library(model_type="dpt"))
    disparity, words = disparities(bare, DisparityConfig("network", model="tiny"))
    assert words == "the network tiny"
    assert disparity(0).min() == pytest.approx(1 / 5, rel=1e-5) and disparity(0).max() == pytest.approx(
        1 / 1.5, rel=1e-5
    )


def test_what_a_network_may_lack(bare: Scene, monkeypatch) -> None:
    def missing(name: str) -> None:
        raise OSError("tiny is not a local folder\nand more")

    stand_in = library()
    stand_in.AutoImageProcessor.from_pretrained = missing
    with pytest.raises(ValueError, match=r"^--model tiny: cannot be loaded \(tiny is not a local folder\); [^\n]+$"):
        MonocularNetwork("tiny", stand_in)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(ValueError, match="pip install 'dofnerf\\[depth\\]'"):
        disparities(bare, DisparityConfig("network"))


def test_a_real_network_in_miniature(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    backbone = transformers.Dinov2Config(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14,
        out_features=["stage1", "stage2"], reshape_hidden_states=False,
    )  # fmt: skip
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=8, reassemble_factors=[1, 1], neck_hidden_sizes=[8, 8],
        fusion_hidden_size=8, head_hidden_size=4, patch_size=14,
    )  # fmt: skip
    transformers.DepthAnythingForDepthEstimation(config).save_pretrained(tmp_path)
    transformers.DPTImageProcessor(size={"height": 28, "width": 28}).save_pretrained(tmp_path)
    disparity = MonocularNetwork(str(tmp_path)).disparity(
        np.random.default_rng(0).random((30, 40, 3), dtype=np.float32)
    )
    assert disparity.shape == (30, 40) and np.isfinite(disparity).all()
