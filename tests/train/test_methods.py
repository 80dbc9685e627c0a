"""The seam between the trainer and a field: one that is not volumetric trains, grows, stops, resumes, recovers and
renders."""

import json
import math
import signal
from dataclasses import replace

import cards_model as cards
import pytest
import safetensors.torch
import torch
from tiny_world import QUIET, scene

from dofnerf.models import _registered, method, methods, register
from dofnerf.models.volume.fields import kinds
from dofnerf.train import Run, preset, train
from dofnerf.train.folder import Recorder


@pytest.fixture(scope="module", autouse=True)
def known():
    register(cards.CardMethod())
    yield
    del _registered["cards"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(scene(), "fast", "cards", out=tmp_path_factory.mktemp("runs") / "whole", keep=QUIET)


def test_every_field_has_a_method():
    assert set(methods()) == {*kinds(), "splat", "cards"}
    with pytest.raises(ValueError, match="there is no field 'clay'; there are cards, dsnerf"):
        method("clay")


def test_presets_differ_by_field():
    assert preset("fast", "cards").method.total == 10 != preset("fast", "hash").method.total
    assert preset("best", "cards").method.total == 46
    twin = preset("pinhole", "cards")
    assert (twin.preset, twin.field, twin.method.pinhole_steps, twin.method.lens_steps) == ("pinhole", "cards", 10, 0)
    assert preset("sharp-photos", "cards").photos == "sharp"


def test_it_learns_and_renders():
    world = scene()
    run = train(world, preset("best", "cards"))

    def error(run, **lens):
        return float((run.render(world.camera(3), **lens).image - torch.from_numpy(world.sharp(3))).square().mean())

    assert error(run) < 0.5 * error(train(world, preset("fast", "cards")))
    seen = run.render(world.camera(3), aperture=6.0)
    assert seen.image.shape == (20, 24, 3) and seen.disparity.shape == seen.alpha.shape == (20, 24)
    assert error(run, aperture=20.0, focus_depth=math.inf) > error(run)
    assert run.has_lens and bool((run.lens.aperture > 0).all())


def test_its_folder_is_a_run_as_any_other(whole):
    run = Run.load(whole.folder)
    assert len(run.model.colour) == 2, "it has grown, and the checkpoint knows"
    camera = scene().camera(1)
    assert torch.equal(run.render(camera).image, whole.render(camera).image)
    log = (whole.folder / "log.txt").read_text()
    assert "\none card at the far end\n" in log and "step 10  lens" in log
    assert (whole.folder / "previews" / "step-000010.png").exists()
    assert len((whole.folder / "lens.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize("at", [2, cards.GROWS_AFTER, 8])
def test_stopped_before_and_after_it_grew_it_ends_as_if_it_had_not(tmp_path, monkeypatch, whole, at):
    watch = Recorder.watch

    def stop(self, learner, outcome):
        watch(self, learner, outcome)
        if learner.progress.step == at:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Recorder, "watch", stop)
    with pytest.raises(KeyboardInterrupt):
        train(scene(), "fast", "cards", out=tmp_path / "run", keep=QUIET)
    monkeypatch.undo()
    assert len(Run.load(tmp_path / "run").model.colour) == 1 + (at >= cards.GROWS_AFTER)
    run = train(scene(), "fast", "cards", out=tmp_path / "run", resume=True, keep=QUIET)
    found, wanted = run.learner.tensors(), whole.learner.tensors()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_recovery_goes_back_to_before_it_grew(monkeypatch):
    real, calls = cards.CardSteps.__call__, iter(range(100))

    def broken(self, stage, generator):
        outcome = real(self, stage, generator)
        return outcome._replace(loss=outcome.loss * math.nan) if next(calls) == 7 else outcome

    monkeypatch.setattr(cards.CardSteps, "__call__", broken)
    run = train(scene(), "fast", "cards")
    assert run.learner.progress.recoveries == 1 and run.learner.progress.step == 10
    assert len(run.model.colour) == 2 and run.learner.healthy()


def test_each_group_has_its_rate(whole):
    colour, cover = whole.learner.adam.param_groups
    assert (cover["lr"], cover["betas"]) == (0.05, (0.9, 0.999))
    assert colour["lr"] == pytest.approx(10 * 0.03 * 0.1**0.9)


def test_tensors_that_do_not_fit_each_other_are_refused(whole, tmp_path):
    packed = (whole.folder / "checkpoint.safetensors").read_bytes()
    words = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])["__metadata__"]
    tensors = safetensors.torch.load(packed)
    third = torch.zeros(3, 1, 12, 12)
    for wrong in ({"model.cover": third}, {"adam.1.exp_avg": third}, {"model.disparity": torch.zeros(())}):
        (tmp_path / "checkpoint.safetensors").write_bytes(safetensors.torch.save({**tensors, **wrong}, words))
        with pytest.raises(ValueError, match="damaged"):
            Run.load(tmp_path)


def test_a_config_of_another_field_is_refused():
    with pytest.raises(ValueError, match="for the field 'cards', not 'hash'"):
        train(scene(), replace(preset("fast", "cards"), seed=1), "hash")
