"""The plug-in for nerfstudio, against the real nerfstudio: what runs without CUDA.

It is not a dependency (3.5 GB). To run these tests: an environment with nerfstudio 1.1.5, dofnerf and
`pip install --no-deps -e plugins/nerfstudio`; torch and torchvision from the same index, or nothing imports.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import torch

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # nerfstudio compiles a few functions, which needs a C++ compiler
pytest.importorskip("nerfstudio", reason="nerfstudio is not installed (it is no dependency): see this file's docstring")
pytest.importorskip("dofnerf_nerfstudio", reason="pip install --no-deps -e plugins/nerfstudio")

from dofnerf_nerfstudio.scenes import DofnerfDataParserConfig
from dofnerf_nerfstudio.splatfacto import METHOD, LensSplatfacto
from nerfstudio.data.datamanagers.full_images_datamanager import FullImageDatamanagerConfig
from nerfstudio.engine.callbacks import TrainingCallbackAttributes, TrainingCallbackLocation
from nerfstudio.engine.optimizers import Optimizers
from nerfstudio.models import splatfacto
from torch import Tensor

from dofnerf import Camera, coc_radius, load, scatter
from dofnerf.scenes import DEMO
from gsplat_stand_in import rasterization


@pytest.fixture(scope="module")
def parser(tmp_path_factory) -> DofnerfDataParserConfig:
    return DofnerfDataParserConfig(data=DEMO, width=96, cache=tmp_path_factory.mktemp("copies"))


def test_entry_points_are_found_by_nerfstudio() -> None:
    from nerfstudio.configs.dataparser_configs import all_dataparsers
    from nerfstudio.configs.method_configs import all_methods

    assert {e.name for e in entry_points(group="nerfstudio.method_configs")} >= {"dofnerf-splatfacto"}
    method = all_methods["dofnerf-splatfacto"]
    assert isinstance(all_dataparsers["dofnerf-data"], DofnerfDataParserConfig)
    theirs = all_methods["splatfacto"].optimizers  # ours has theirs, and the lens
    assert set(method.optimizers) == {*theirs, "lens"}
    for name, one in theirs.items():
        assert method.optimizers[name]["optimizer"].lr == one["optimizer"].lr


def test_command_line_takes_the_method(capsys) -> None:
    from nerfstudio.scripts.train import entrypoint

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr("sys.argv", ["ns-train", "dofnerf-splatfacto", "--help"])
        entrypoint()
    text = capsys.readouterr().out
    assert end.value.code == 0 and "--pipeline.model.lens-searches" in text and "--optimizers.lens.optimizer.lr" in text


def test_scenes_keep_photos_cameras_and_points(parser) -> None:
    """Every sparse point projects to the same pixel as in our own scene."""
    scene = load(DEMO, width=96)
    found = parser.setup().get_dataparser_outputs("train")
    assert len(found.image_filenames) == len(scene.train) and len(found.cameras) == len(scene.train)
    xyz = found.metadata["points3D_xyz"].double().numpy()
    for k in (0, 7):
        one, wanted = found.cameras[k], scene.camera(scene.train[k])
        pose = one.camera_to_worlds.double().numpy()
        ours = Camera(pose, float(one.fx), float(one.fy), float(one.cx), float(one.cy), int(one.width), int(one.height))
        pixels, depth = ours.project(xyz)
        expected, deep = wanted.project(scene.points.xyz)
        np.testing.assert_allclose(pixels, expected, atol=0.02)
        np.testing.assert_allclose(depth / found.dataparser_scale, deep, rtol=1e-4)
        assert np.abs(read(found.image_filenames[k]) - scene.photo(scene.train[k])).max() < 0.003
    held_out = parser.setup().get_dataparser_outputs("val")
    assert len(held_out.image_filenames) == len(scene.test)


def read(path: Path) -> np.ndarray:
    from dofnerf.files import read_image

    return read_image(path)


def no_network(**_) -> torch.nn.Module:
    """LPIPS, which would download its weights."""
    return torch.nn.Identity()


@pytest.fixture(scope="module")
def trained(parser):
    """The model and data manager that ns-train would make, on the CPU; two steps, a search, and two steps with a lens.

    The photos are the model's own renders at the start, through lenses of one aperture focused near or far by turns.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "cuda", lambda self, *_, **__: self)
        patch.setattr(splatfacto, "rasterization", rasterization)
        patch.setattr("torchmetrics.image.lpip.LearnedPerceptualImagePatchSimilarity", no_network)
        data = FullImageDatamanagerConfig(dataparser=parser, cache_images_type="uint8").setup(device="cpu")
        config = METHOD.config.pipeline.model
        config.num_downscales, config.lens_searches, config.background_color = 0, (2,), "black"
        torch.manual_seed(0)
        points = data.train_dataparser_outputs.metadata
        model: LensSplatfacto = config.setup(
            scene_box=data.train_dataset.scene_box,
            num_train_data=len(data.train_dataset),
            metadata=data.train_dataset.metadata,
            device="cpu",
            grad_scaler=None,
            seed_points=(points["points3D_xyz"], points["points3D_rgb"]),
        )
        with torch.no_grad():
            model.gauss_params["opacities"].fill_(3.0)
            model.gauss_params["scales"] -= 0.3
        true = shoot(model, data)
        groups = model.get_param_groups()
        optimizers = Optimizers({name: METHOD.config.optimizers[name] for name in groups}, groups)
        pipeline = type("Pipeline", (), {"datamanager": data, "model": model})()
        attributes = TrainingCallbackAttributes(
            optimizers=optimizers, grad_scaler=None, pipeline=pipeline, trainer=None
        )
        callbacks = model.get_training_callbacks(attributes)
        steps = []
        model.train()
        for step in range(4):
            for callback in callbacks:
                callback.run_callback_at_location(step, TrainingCallbackLocation.BEFORE_TRAIN_ITERATION)
            camera, batch = data.next_train(step)
            optimizers.zero_grad_all()
            before = model.lens.raw_aperture.detach().clone()
            outputs = model(camera)
            loss = sum(model.get_loss_dict(outputs, batch, model.get_metrics_dict(outputs, batch)).values())
            loss.backward()
            optimizers.optimizer_step_all()
            steps.append((camera.metadata["cam_idx"], outputs, model.lens.raw_aperture.grad, before))
        yield model, data, steps, true


@torch.no_grad()
def shoot(model: LensSplatfacto, data) -> tuple[float, Tensor]:
    """Replace the photos by renders of the model; returns the aperture and the focus depth of each."""
    model.eval()
    depths = []
    drawn = [model.get_outputs(data.train_dataset.cameras[i : i + 1]) for i in range(len(data.train_dataset))]
    near, far = torch.cat([one["depth"].flatten() for one in drawn]).quantile(torch.tensor([0.1, 0.9])).tolist()
    aperture = 6 / (1 / near - 1 / far)
    for i, one in enumerate(drawn):
        depths.append(near if i % 2 else far)
        radius = coc_radius(one["depth"][..., 0], aperture, 1 / depths[-1]).clamp(-20, 20)
        data.cached_train[i]["image"] = (255 * scatter(one["rgb"], radius)).round().clamp(0, 255).to(torch.uint8)
    return aperture, torch.tensor(depths)


def test_photos_count_as_sharp_until_a_lens_is_found(trained) -> None:
    _, _, steps, _ = trained
    assert ["sharp" in outputs for _, outputs, _, _ in steps] == [False, False, True, True]
    assert all(torch.isfinite(outputs["rgb"]).all() for _, outputs, _, _ in steps)


def test_the_lens_of_the_photo_is_learned(trained) -> None:
    model, _, steps, _ = trained
    photo, outputs, gradient, before = steps[2]
    assert (outputs["rgb"] - outputs["sharp"]).abs().max() > 0.01
    assert gradient[photo] != 0 and not gradient[torch.arange(len(gradient)) != photo].any()
    assert not torch.equal(model.lens.raw_aperture, before)


def test_the_search_finds_the_lenses(trained) -> None:
    model, _, _, (aperture, focus_depth) = trained
    assert float(model.lens.aperture.median()) == pytest.approx(aperture, rel=0.15)
    error = (model.lens.focus_disparity.detach() * focus_depth - 1).abs()
    assert error.median() < 0.05


def test_evaluation_is_sharp_and_the_sliders_blur(trained) -> None:
    model, data, _, _ = trained
    model.eval()
    camera, _ = data.next_eval(0)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch.Tensor, "cuda", lambda self, *_, **__: self)
        patch.setattr(splatfacto, "rasterization", rasterization)
        sharp = model.get_outputs(camera)
        assert "sharp" not in sharp
        patch.setattr(model.opening, "default_value", 8.0)
        blurred = model.get_outputs(camera)
    assert torch.equal(blurred["sharp"], sharp["rgb"]) and (blurred["rgb"] - sharp["rgb"]).abs().mean() > 0.003


def test_checkpoints_keep_the_lens(trained) -> None:
    model, _, _, _ = trained
    state = {name: value.clone() for name, value in model.state_dict().items()}
    aperture, seen = model.lens.aperture.detach().clone(), model.lens.seen.clone()
    with torch.no_grad():
        model.lens.raw_aperture.fill_(0.0)
        model.lens.seen = torch.zeros(2)
    model.load_state_dict(state | {"lens_range": torch.full((2,), torch.nan)})
    assert not model.lens_is_found  # one from before the search: photos still count as sharp
    model.load_state_dict(state)
    assert model.lens_is_found
    torch.testing.assert_close(model.lens.aperture.detach(), aperture)
    torch.testing.assert_close(model.lens.seen, seen)
