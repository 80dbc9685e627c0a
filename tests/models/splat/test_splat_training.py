"""Splats in the trainer: they begin on the scene's points, learn scene and lens, grow, stop, resume and come back."""

import numpy as np
import pytest
import torch
from tiny_world import QUIET, scene

from dofnerf.models.data import training_data
from dofnerf.models.losses import residual, sparse_gradient_prior, thickness_loss
from dofnerf.models.splat.config import SplatConfig
from dofnerf.models.splat.growth import Growth
from dofnerf.models.splat.model import begin_splats
from dofnerf.models.splat.training import SplatMethod, SplatSteps
from dofnerf.models.workers import ALONE
from dofnerf.train import Run, loop, preset, train
from dofnerf.train.folder import Recorder
from dofnerf.train.losses import Loss


def small(steps=(30, 50, 0), **own):
    made = preset("fast", "splat")
    counts = dict(zip(("pinhole_steps", "lens_steps", "sub_aperture_steps"), steps, strict=True))
    method = {"splats": 400, "gradient_prior": 0.0, **counts, **own}
    exact = {"pose": {"refine_poses": False}, "focal": {"refine_focal": False}}  # as the tiny world's are
    return made.changed({"lens": {"search_width": 24, "max_radius": 8.0}, **exact, "method": method})


def error(run, world, **lens):
    off = [run.render(world.camera(i), **lens).image - torch.from_numpy(world.sharp(i)) for i in world.train]
    return float(torch.stack(off).square().mean())


def test_splats_are_the_default():
    assert preset("fast").field == preset("best").field == "splat" and preset("paper").field == "nerf"
    with pytest.raises(ValueError, match="not the paper's"):
        preset("paper", "splat")


@pytest.mark.parametrize(
    ("size", "count"), [((9, 9), 10_000), ((168, 252), 21_168), ((378, 504), 60_000), ((672, 1008), 169_344)]
)
def test_larger_photos_have_more_gaussians(size, count):
    assert SplatConfig().count(size) == count <= SplatConfig().count((2000, 3000)) == 200_000
    assert SplatConfig(splats=7).count(size) == 7


def test_they_learn_the_scene():
    world = scene()
    run = train(world, small())
    assert error(run, world) < 0.75 * error(train(world, small((1, 0, 0))), world)
    assert error(run, world, aperture=20.0, focus_depth=np.inf) > error(run, world)
    assert run.has_lens and bool((run.lens.aperture > 0).all())


@pytest.mark.parametrize("own", [{"blur": "scatter"}, {"degree": 0}, {"grow": False}])
def test_every_way_trains(own):
    assert train(scene(), small((2, 2, 2), **own)).learner.progress.step == 6


def test_a_step_is_cheaper_than_a_ramp_and_flat_is_cheapest():
    """As much rise in one place costs less than spread over many; by how much, from the powers of it."""
    flat, step, ramp = (torch.zeros(9, 9, 3) for _ in range(3))
    step[:, 4:] = 0.8
    ramp += torch.linspace(0, 0.8, 9)[:, None]
    costs = [float(sparse_gradient_prior(image)) for image in (flat, step, ramp)]
    assert costs == sorted(costs)
    one = (3 * 0.8**2 + 1e-4) ** 0.2
    assert costs[1] == pytest.approx((one + 7 * 1e-4**0.2) / 8, rel=1e-5)
    assert costs[2] == pytest.approx((3 * 0.1**2 + 1e-4) ** 0.2, rel=1e-4)
    left = torch.cat([torch.ones(9, 3), torch.zeros(9, 6)], dim=1)
    assert float(sparse_gradient_prior(step, left)) == pytest.approx(3 / 8 * costs[0])  # the step has weight 0
    assert float(sparse_gradient_prior(torch.rand(1, 9, 3))) == 0
    assert float(sparse_gradient_prior(step + 1)) == pytest.approx(costs[0])  # what is whiter than white does not show


def test_a_photo_that_may_be_cut_off_says_only_this_bright_or_brighter():
    shown = torch.tensor([1.6, 1.6, 0.9, 1.6], requires_grad=True)
    off = residual(shown, torch.tensor([1.0, 0.97, 0.97, 0.5]))
    torch.testing.assert_close(off.detach(), torch.tensor([0.0, 0.0, -0.07, 1.1]))
    off.sum().backward()
    assert shown.grad.tolist() == [0, 0, 1, 1]
    bright, dark = torch.tensor([1.5]), torch.tensor([0.7])
    assert (
        float(residual(dark, torch.tensor([0.97]), (bright + dark) / 2)) == 0
    )  # together they are brighter than white
    assert float(residual(bright, torch.tensor([0.97]), (bright + dark - 0.4) / 2)) > 0


@pytest.mark.parametrize(
    "wrong, reason",
    [
        ({"gradient_prior": -1.0}, "0 or more"),
        ({"gradient_prior": float("nan")}, "0 or more"),
        ({"gradient_loss": -1.0}, "0 or more"),
        ({"flatness": -1.0}, "--flatness must be 0 or more"),
        ({"degree": 3}, "--degree must be 0, 1 or 2"),
        ({"splats": -1}, "--splats must be 0 to"),
        ({"prior_blur": -1.0}, "--prior-blur must be 0 or more"),
        ({"photos_per_step": 0}, "--photos-per-step must be 1 to 16"),
        ({"photos_per_step": 17}, "--photos-per-step must be 1 to 16"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        SplatConfig(**wrong)


def losses_of(stage, **own):
    """A step's loss without and with the sparse-gradient prior, and what the price is of."""
    world, config = scene(), small((2, 2, 2), **own)
    config = config.changed({"lens": {"search": False}})  # every photo has the lens that it starts with
    run = train(world, config)
    data = training_data(world, "given", torch.device("cpu"))
    found = []
    for edges in (0.0, 0.5):
        one = config.changed({"method": {"gradient_prior": edges}})
        steps = SplatSteps(data, run.model, run.learner.quantities, one, run.learner.memory)
        steps.before(0, torch.Generator())
        found.append(float(steps(stage, torch.Generator().manual_seed(1)).loss.detach()))
    photo = int(run.learner.memory["order"][0])
    sharp, lens = run.model.picture(data.cameras[photo], degree=0), run.learner.quantities.lens
    radius = float(lens.aperture[photo].detach()) * (
        float(lens.focus_disparity[photo].detach()) - sharp.disparity.detach()
    )
    return *found, 4 * 0.5 * float(sparse_gradient_prior(sharp.image.detach(), (radius / 8).square().clamp(max=1)))


def gradients(loss, learner):
    """Of all that learns, by name."""
    values = dict(learner.model.named_parameters())
    for kind, one in learner.quantities.by_name.items():
        values |= {f"{kind}.{name}": value for name, value in one.named_parameters()}
    found = torch.autograd.grad(loss, list(values.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(values, found, strict=True))


@pytest.mark.parametrize("stage", ["pinhole", "lens", "sub-apertures"])
def test_photos_of_a_step_have_the_mean_of_their_gradients(stage):
    world, config = scene(), small((2, 2, 4), flatness=0.1, early_sub_apertures=3).changed({"lens": {"search": False}})
    learner = train(world, config).learner
    data, wanted, losses = training_data(world, "given", torch.device("cpu")), [], []
    chance = torch.Generator().manual_seed(5)
    for step in (2, 3):  # the second and third photo of a round
        one = SplatSteps(data, learner.model, learner.quantities, config, learner.memory)
        one.before(step, chance)
        losses.append(one(stage, chance))
        wanted.append(gradients(losses[-1].loss, learner))
    both = SplatSteps(
        data, learner.model, learner.quantities, config.changed({"method": {"photos_per_step": 2}}), learner.memory
    )
    both.before(2, chance)
    outcome = both(stage, torch.Generator().manual_seed(5))
    for name, value in gradients(outcome.loss, learner).items():
        torch.testing.assert_close(value, (wanted[0][name] + wanted[1][name]) / 2, rtol=1e-4, atol=1e-8)
    assert float(outcome.error) == pytest.approx(sum(float(one.error) for one in losses) / 2)
    assert outcome.rays == sum(one.rays for one in losses)
    assert outcome.photos.tolist() == [int(one.photos) for one in losses] == learner.memory["order"][2:4].tolist()
    assert (outcome.through_lens is None) == (stage == "pinhole")
    learner.losses = [Brightness(None)]
    whole = learner._with_losses(outcome, ALONE) - outcome.loss
    assert float(whole.detach()) == pytest.approx(sum(float(one.shown.detach().mean()) for one in losses) / 2, rel=1e-5)


class Brightness(Loss):
    """An added loss, which asks for single pictures."""

    is_on = True

    def __call__(self, outcome, learner):
        assert outcome.shown.shape == outcome.target.shape == (20, 24, 3)
        return outcome.shown.mean()


@pytest.mark.parametrize("photos", [1, 2, 3, 7, 16])
def test_a_stage_has_as_many_photos_however_many_a_step_takes(photos):
    own, taken, step = SplatConfig(5, 7, 4, photos_per_step=photos), [], 0
    while step < own.total:
        batch = own.together(step)
        assert len({own.stage_of(one) for one in batch}) == 1 and len(batch) <= photos
        taken += batch
        step = batch.stop
    assert taken == list(range(16))
    growth = Growth(1240, at_once=photos)
    taken_together = [step for step in range(0, 1240, photos) if growth.is_due(step)]
    due = [photos * sum(first <= step < first + 100 for step in taken_together) for first in range(200, 900, 100)]
    assert min(due) > 0 and sum(due) == pytest.approx(7 * 25, rel=0.3)


def test_searches_are_made_once_though_their_steps_are_taken_with_others(monkeypatch):
    searched, find = [], loop.find_lens
    monkeypatch.setattr(loop, "find_lens", lambda *given: (searched.append(given[0].progress.step), find(*given)))
    made = small((4, 9, 6), photos_per_step=4).changed({"lens": {"refits": (0.5,)}})
    assert loop.searches(train(scene(), made).learner) == {4, 12} and searched == [4, 12]
    searched.clear()
    made = small((4, 9, 6), photos_per_step=3).changed({"lens": {"refits": (0.5,)}})
    assert train(scene(), made).learner.progress.step == 19 and searched == [4, 10]


def test_edges_cost_while_the_lens_is_seen_in_parts_and_only_then():
    free, paid, price = losses_of("sub-apertures")
    assert price > 0.01 and paid - free == pytest.approx(price, rel=1e-4)
    for stage, own in (("pinhole", {}), ("lens", {}), ("sub-apertures", {"blur": "scatter"})):
        free, paid, _ = losses_of(stage, **own)
        assert paid == free


def test_thickness_is_that_of_the_thinnest_axis_in_pixels():
    scales = torch.tensor([[0.2, 3.0, 5.0], [8.0, 1.2, 2.0], [9.0, 9.0, 0.6]]).log().requires_grad_()
    pixel = torch.tensor([1.0, 1.0, 0.5])  # so they are 0.2, 1.2 and 1.2 pixels thick; 0.3 are as good as a surface
    loss = thickness_loss(scales, pixel)
    assert float(loss.detach()) == pytest.approx(2 * np.log(4) / 3)
    loss.backward()
    torch.testing.assert_close(scales.grad, torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, 1.0]]) / 3)


def test_gaussians_are_flattened_once_there_is_a_lens():
    world = scene()

    def thickness(steps, flatness):
        model = train(world, small(steps, flatness=flatness)).model
        return float(torch.stack([model.thickness_loss(world.camera(i)).detach() for i in world.train]).mean())

    assert thickness((4, 16, 0), 0.1) < 0.8 * thickness((4, 16, 0), 0.0)
    assert thickness((4, 0, 0), 0.1) == thickness((4, 0, 0), 0.0)


def test_all_rates_fall_alike():
    run = train(scene(), small((2, 2, 2)))
    whole = SplatMethod().groups(run.model, run.config)
    assert [group.rate(6) / group.rate(0) for group in whole] == pytest.approx([run.config.method.decay] * len(whole))


def test_a_stopped_run_ends_as_if_it_had_not(tmp_path, monkeypatch):
    world, made = scene(), small((4, 8, 2))
    whole = train(world, made)

    def stop(self, learner, outcome):
        if learner.progress.step == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "watch", stop)
        patch.setattr(Recorder, "is_due", lambda self: True)
        with pytest.raises(KeyboardInterrupt):
            train(world, made, out=tmp_path / "run", keep=QUIET)
    train(world, made, out=tmp_path / "run", resume=True, keep=QUIET)
    again = Run.load(tmp_path / "run").learner.tensors()
    for name, value in whole.learner.tensors().items():
        assert torch.equal(again[name], value), name


def test_faint_and_unseen_gaussians_move_to_where_the_error_is_and_nothing_else_changes():
    points = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    model = begin_splats(points, torch.full((40, 3), 0.5), torch.full((40,), 0.1), 1, 2.2)
    adam = torch.optim.Adam(model.parameters(), 0.0)
    sum(value.square().sum() for value in model.parameters()).backward()
    adam.step()
    with torch.no_grad():
        model.opacity_logits[0] = -9.0
    memory = {"error": torch.zeros(40), "coverage": torch.full((40,), 1000.0)}
    memory["coverage"][1] = 0.1
    memory["error"][7], memory["error"][9] = 1.0, 2.0
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    Growth(100).move(model, memory, torch.Generator().manual_seed(0), adam)
    moved = (model.means != before["means"]).any(-1).nonzero()[:, 0].tolist()
    assert set(moved) == {0, 1}
    for index in moved:
        near = (model.means[index] - before["means"][[7, 9]]).norm(dim=-1).min()
        assert near < 5 * 0.1
    through = 1 - torch.sigmoid(before["opacity_logits"][7])
    torch.testing.assert_close((1 - torch.sigmoid(model.opacity_logits[7])) ** 2, through)
    untouched = [i for i in range(40) if i not in (0, 1, 7, 9)]
    for name, value in model.named_parameters():
        assert torch.equal(value[untouched], before[name][untouched]), name
    assert not bool(memory["error"].any() | memory["coverage"].any())


def test_what_a_wall_hides_is_not_seen():
    """200 opaque Gaussians before 10 others, all in the picture."""
    world = scene()
    camera = world.camera(0)
    across = torch.cartesian_prod(torch.linspace(0, camera.width, 20), torch.linspace(0, camera.height, 10))
    wall = torch.from_numpy(camera.unproject(across.numpy(), np.full(200, 2.0))).float()
    behind = torch.from_numpy(camera.unproject(across[95:105].numpy(), np.full(10, 4.0))).float()
    sizes = torch.full((210,), 0.15 * 2 * camera.width / camera.fx)
    model = begin_splats(torch.cat([behind, wall]), torch.full((210, 3), 0.5), sizes, 0, 2.2)
    with torch.no_grad():
        model.opacity_logits[:] = 6.0
    error, seen = model.error_share(camera, None, torch.ones(camera.height, camera.width)).unbind(-1)
    assert float(seen[:10].max()) < 0.2 < float(seen[10:].max())
    torch.testing.assert_close(seen, error)


def test_large_photos_are_shrunk_at_first_and_seen_in_parts_at_last():
    world = scene(size=(40, 60))
    config = small((2, 2, 4), early_pixels=1000, step_pixels=1500).changed({"lens": {"search": False}})
    run = train(world, config)
    data = training_data(world, "given", torch.device("cpu"))
    steps = SplatSteps(data, run.model, run.learner.quantities, config, run.learner.memory)
    shapes = {}
    for step in range(8):
        steps.before(step, torch.Generator())
        shapes[step] = steps("pinhole", torch.Generator().manual_seed(step)).target.shape[:2]
    assert [shapes[step] for step in (0, 3)] == [(26, 39)] * 2  # 1000 pixels
    assert [shapes[step] for step in (4, 5)] == [(22, 34)] * 2  # 1500 / 2
    assert [shapes[step] for step in (6, 7)] == [(32, 47)] * 2  # 1500

    outcome = steps("pinhole", torch.Generator().manual_seed(7))  # a part: the same pixels as of the whole photo
    photo = int(run.learner.memory["order"][7 % 4])
    whole = torch.cat([data.photos[photo], run.model.picture(data.cameras[photo], degree=2).image.detach()], dim=-1)
    part = torch.cat([outcome.target, outcome.shown.detach()], dim=-1)
    windows = whole.unfold(0, 32, 1).unfold(1, 47, 1).permute(0, 1, 3, 4, 2)
    # Not to the bit: perspective is evaluated at most a margin beyond the border, which is the part's here.
    assert float((windows - part).abs().amax(dim=(2, 3, 4)).min()) < 5e-3


def test_a_run_with_parts_of_photos_resumes_exactly(tmp_path):
    world, made = scene(size=(40, 60)), small((2, 2, 4), early_pixels=1000, step_pixels=1200)
    whole = train(world, made)
    train(world, made, out=tmp_path / "run", keep=QUIET)
    for name, value in Run.load(tmp_path / "run").learner.tensors().items():
        assert torch.equal(whole.learner.tensors()[name], value), name
