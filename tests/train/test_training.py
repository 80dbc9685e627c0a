"""Whole tiny runs: both stages learn, twins, determinism, the three stages' options."""

import math
import os
import signal
from dataclasses import replace

import pytest
import torch
from tiny_world import QUIET, config, scene

import dofnerf
from dofnerf.cli import parse
from dofnerf.models.data import Setting
from dofnerf.optics import LearnedLens
from dofnerf.train import Run, loop, preset, train, without_lens
from dofnerf.train.learner import Learner


def psnr(run, world, i):
    return -10 * math.log10(
        float((run.render(world.camera(i)).image - torch.from_numpy(world.sharp(i))).square().mean())
    )


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.learner.tensors().values(), b.learner.tensors().values(), strict=True)
    )


def test_training_learns_the_scene():
    world = scene(size=(30, 36))
    made = config((100, 30, 20), refits=())
    run = train(world, made.changed({"method": {"rays": 384}}))
    untrained = Run(Learner.like(run.config, run.setting, {}))
    assert psnr(run, world, 3) > max(16, psnr(untrained, world, 3) + 4)
    aperture = run.lens.aperture.detach()
    assert 0 < float(aperture.min()) <= float(aperture.max()) <= float(run.lens.max_aperture)


@pytest.mark.parametrize(
    "lens",
    [
        {},
        {"search": False},
        {"in_focus": 0.5, "refits": ()},
        {"layers": 3, "search": False},
        {"only_sampled": False, "search": False},
    ],
    ids=str,
)
def test_the_same_seed_gives_the_same_run(lens):
    world = scene()
    made = config((2, 4, 3), **lens)
    torch.set_num_threads(2)  # the order in which threads come by must not matter
    try:
        first, second = train(world, made), train(world, made)
        assert same(first, second)
        assert lens or not same(first, train(world, replace(made, seed=1)))
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("field", ["nerf", "dsnerf"])
def test_the_papers_fields_train_too(field):
    run = train(scene(points=True), config((3, 2, 2), field=field))
    assert run.learner.progress.step == 7


def test_sparse_points_pull_depth():
    world = scene(points=True)
    made = config((60, 0, 0))
    with_points, without = (
        made.changed({"method": {"depth_weight": weight, "depth_rays": 32, "spread_weight": 0.0}})
        for weight in (1.0, 0.0)
    )

    def error(run):
        disparity = run.render(world.camera(0)).disparity
        pixels, depth = world.camera(0).project(world.points.xyz)
        columns, rows = pixels.astype(int).T
        return float((1 / disparity[rows, columns] / torch.from_numpy(depth) - 1).abs().mean())

    assert error(train(world, with_points)) < error(train(world, without))


@pytest.mark.parametrize(("aperture", "focus"), [(True, False), (False, True), (False, False)])
def test_ablation_switches(aperture, focus):
    run = train(scene(), config((3, 4, 3), learn_aperture=aperture, learn_focus=focus))
    fresh = Learner.like(run.config, run.setting, {}).lens
    assert bool((run.lens.raw_aperture != fresh.raw_aperture).any()) == aperture
    assert bool((run.lens.raw_focus != fresh.raw_focus).any()) == focus


def test_twins_have_the_same_budget_and_no_lens():
    ours, twin, sharp = (preset(name) for name in ("fast", "pinhole", "sharp-photos"))
    assert ours.method.total == twin.method.total == sharp.method.total
    assert ours.method.without_lens() == twin.method == sharp.method
    assert twin.method.lens_steps == twin.method.sub_aperture_steps == 0
    assert sharp.photos == "sharp"
    assert preset("sharp-oracle") == sharp == replace(sharp, preset="sharp-oracle")  # as it was once called
    for old in (["--preset", "sharp-oracle"], ["--preset=sharp-oracle"]):
        assert parse(["train", "demo", *old])[0].preset == "sharp-photos"
    run = train(scene(), without_lens(config((2, 1, 1))))
    assert not run.has_lens


def test_the_papers_preset_is_the_papers():
    made = preset("paper")
    assert made.field == "nerf"
    assert (made.method.pinhole_steps, made.method.lens_steps, made.method.rays) == (200_000, 200_000, 1024)
    assert (made.method.patch_size, made.method.anchor_stride) == (48, 16)
    assert (made.method.sampling.coarse, made.method.sampling.fine) == (64, 64)
    assert made.method.rate_at(0) == 5e-4
    assert made.method.rate_at(250_000) == pytest.approx(5e-5)
    assert not made.lens.search and (made.lens.start_blur, made.lens.start_focus) == (5.0, 0.5)


def test_the_lens_starts_where_it_is_told():
    world = scene()
    setting = Setting.of(world)
    far, near = 1 / world.far, 1 / world.near
    for blur, focus in ((5.0, 0.5), (1.0, 0.25), (3.0, 1.0)):
        made = config(start_blur=blur, start_focus=focus, max_radius=16.0)
        lens = Learner.like(made, setting, {}).lens
        assert lens.aperture.tolist() == pytest.approx([blur / (near - far)] * 4, rel=1e-5)
        assert lens.focus_disparity.tolist() == pytest.approx([far + focus * (near - far)] * 4, rel=1e-5)
    # The paper's: half of ten pixels, in the middle of the range. So blur is 2.5 pixels at either end.
    paper = Learner.like(replace(config(), quantities=preset("paper").quantities), setting, {}).lens
    ends = [abs(float(paper.coc_radius_from_disparity(torch.tensor(end), 0).detach())) for end in (far, near)]
    assert ends == pytest.approx([2.5, 2.5], rel=1e-4)
    fresh = LearnedLens(4, world.near, world.far, 16.0)
    assert torch.allclose(paper.raw_aperture, fresh.raw_aperture) and torch.allclose(
        paper.raw_focus, fresh.raw_focus, atol=1e-6
    )
    with pytest.raises(ValueError, match="start_focus"):
        config(start_focus=1.5)


def test_wide_photos_may_be_blurred_by_more_pixels():
    setting = Setting.of(scene())
    for width, most in ((252, 16.0), (1000, 16.0), (3000, 48.0)):
        made = config(max_radius=16.0)
        lens = Learner.like(made, replace(setting, size=(width, width * 2 // 3)), {}).lens
        far, near = setting.disparities
        assert float(lens.max_aperture) * (near - far) == pytest.approx(most, rel=1e-5)


def test_shared_apertures(tmp_path):
    run = train(scene(), config((2, 3, 0), share_aperture="all", search=False))
    assert len(set(run.lens.aperture.tolist())) == 1 < len(set(run.lens.focus_disparity.tolist()))
    with pytest.raises(ValueError, match="EXIF"):
        train(scene(), config((2, 3, 0), share_aperture="exif"))


def test_a_run_on_sharp_photos_needs_them():
    world = scene()
    blind = replace(world, frames=tuple(replace(frame, sharp=None) for frame in world.frames))
    with pytest.raises(ValueError, match="all-in-focus"):
        train(blind, config((2, 0, 0), name="sharp-photos"))


def test_public_names_and_render():
    world = scene()
    run = dofnerf.train(world, config((2, 1, 1)), keep=QUIET)
    assert isinstance(run, dofnerf.Run) and dofnerf.Run is Run
    camera = world.camera(0)
    sharp, blurred = run.render(camera), run.render(camera, aperture=6.0, focus_depth=math.inf)
    assert sharp.image.shape == blurred.image.shape == (20, 24, 3)
    assert not torch.equal(sharp.image, blurred.image)
    run.render(camera, aperture=3.0)  # focused on what its middle shows
    for wrong in ({"aperture": -1.0}, {"aperture": math.nan}, {"aperture": 1.0, "focus_depth": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            run.render(camera, **wrong)


@pytest.mark.parametrize("wrong", [lambda: preset("quick"), lambda: preset("fast", "clay"), lambda: config((0, 0, 0))])
def test_mistakes_are_named(wrong):
    with pytest.raises(ValueError):
        wrong()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_no_cuda_is_one_clear_line():
    with pytest.raises(ValueError, match="no CUDA device"):
        train(scene(), config((1, 0, 0)), device="cuda")


@pytest.mark.parametrize("long", ["find_lens", "register_photos"])
def test_no_signal_waits_for_the_end_of_something_long(long, tmp_path, monkeypatch):
    def slow(*given):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("went on")

    monkeypatch.setattr(loop, long, slow)
    made = config((2, 2, 0)).changed({"pose": {"refine_poses": True}})
    with pytest.raises(KeyboardInterrupt):
        train(scene(), made, out=tmp_path / "run", keep=QUIET)
    assert Run.load(tmp_path / "run").learner.progress.step <= 2
