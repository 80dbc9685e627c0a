"""Lengths follow the scene's own scale; a run that shows nothing is no success."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_world import config, scene

from dofnerf.camera import Camera
from dofnerf.cli import main
from dofnerf.scenes import Points, write_transforms
from dofnerf.train import preset, train


def scaled(world, factor):
    """The same scene in other units."""
    frames = []
    for frame in world.frames:
        pose = frame.camera.camera_to_world.copy()
        pose[:, 3] *= factor
        camera = replace(frame.camera, camera_to_world=pose)
        frames.append(replace(frame, camera=camera, lens=None, depth=None))
    points = world.points and Points(world.points.xyz * factor, world.points.rgb, world.points.error)
    return replace(world, frames=tuple(frames), near=world.near * factor, far=world.far * factor, points=points)


def small(field):
    if field != "splat":
        return config((10, 8, 6), field=field)
    steps = {"pinhole_steps": 10, "lens_steps": 8, "sub_aperture_steps": 6, "splats": 400, "sub_apertures": 3}
    return preset("fast", "splat").changed({"method": steps, "lens": {"search_width": 24}})


@pytest.mark.parametrize("field", ["splat", "hash"])
def test_the_unit_of_length_does_not_matter(field):
    world, pictures = scene(points=True), {}
    for factor in (1.0, 1e-6, 1e6):
        place = scaled(world, factor)
        run = train(place, small(field))
        lens = run.lenses[0]
        views = [run.render(place.camera(i)) for i in range(3)]
        views += [run.render(place.camera(3), lens.aperture, lens.focus_depth, layers=layers) for layers in (1, 4)]
        pictures[factor] = torch.stack([view.image for view in views])
        assert min(float(view.alpha.mean()) for view in views) > 0.5
    for factor in (1e-6, 1e6):
        error = float((pictures[factor] - pictures[1.0]).square().mean())
        assert -10 * math.log10(max(error, 1e-12)) > 45, factor
    truth = torch.stack([torch.from_numpy(world.sharp(i)) for i in range(3)])
    scores = [-10 * math.log10(float((shown[:3] - truth).square().mean())) for shown in pictures.values()]
    assert max(scores) - min(scores) < 0.05


def test_a_depth_range_of_fifteen_decades_shows_something():
    world = replace(scene(), near=1e-6, far=1e9)
    run = train(world, small("splat"))
    assert float(run.render(world.camera(0)).alpha.mean()) > 0.5


def test_a_run_that_shows_nothing_says_so(tmp_path, capsys, monkeypatch):
    from dofnerf.models.splat.model import SplatModel

    write_transforms(scene(), tmp_path / "place")
    view = SplatModel.view

    def nothing(self, camera: Camera, *rest):
        shown = view(self, camera, *rest)
        return shown._replace(alpha=torch.zeros_like(shown.alpha))

    monkeypatch.setattr(SplatModel, "view", nothing)
    flags = ["--splats", "100", "--pinhole-steps", "2", "--lens-steps", "0", "--sub-aperture-steps", "0"]
    assert main(["train", str(tmp_path / "place"), "--out", str(tmp_path / "run"), *flags]) == 1
    error = capsys.readouterr().err
    assert "shows nothing" in error and "depth" in error and "Traceback" not in error
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
