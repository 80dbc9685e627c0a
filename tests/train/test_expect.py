"""What to expect of a scene is said before it is trained."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_world import InMemory, scene

from dofnerf.cli import main
from dofnerf.scenes import write_transforms
from dofnerf.train.expect import expectations, parallax


def words(world):
    return " | ".join(one.words for one in expectations(world))


def with_photos(world, change):
    frames = [replace(f, photo=InMemory(change(i, world.photo(i)))) for i, f in enumerate(world.frames)]
    return replace(world, frames=tuple(frames))


def test_a_good_scene_is_expected_to_work():
    assert expectations(scene(14, (48, 64))) == []


def test_too_little_is_said():
    assert "only 4 photos" in words(scene()) and "4 sparse points" in words(scene(points=True))
    assert "no photo is held out" in words(scene(test=()))
    hopeless = [one.words for one in expectations(scene(2, test=())) if one.hopeless]
    assert hopeless[0].startswith("2 photos")


def test_no_parallax_is_hopeless():
    world = scene(10)
    assert parallax(world) > 6
    still = replace(world, frames=tuple(replace(f, camera=world.frames[0].camera) for f in world.frames))
    assert any(one.hopeless and "parallax" in one.words for one in expectations(still))


def test_blur_everywhere_and_jumps_of_exposure_are_said():
    world = scene(10, (48, 64))
    row = np.linspace(0, 1, 64, dtype=np.float32)[None, :, None]
    soft = with_photos(world, lambda i, photo: np.broadcast_to(row, (48, 64, 3)).copy())
    assert "blurred everywhere" in words(soft) and "blurred" not in words(world)
    jumps = with_photos(world, lambda i, photo: photo * (0.5 if i % 3 else 1.0))
    assert "exposure jumps by up to" in words(jumps) and "exposure" not in words(world)


@pytest.mark.parametrize("force", [False, True])
def test_the_hopeless_is_refused_unless_forced(force, tmp_path, capsys):
    write_transforms(scene(2, test=()), tmp_path / "place")
    flags = [
        "--splats",
        "50",
        "--pinhole-steps",
        "1",
        "--lens-steps",
        "0",
        "--sub-aperture-steps",
        "0",
        "--hold-every",
        "0",
    ]
    command = ["train", str(tmp_path / "place"), "--out", str(tmp_path / "run"), *flags, *["--force"] * force]
    assert main(command) == (0 if force else 2)
    captured = capsys.readouterr()
    assert "expect   2 photos to train on: at least 3 are needed" in captured.out
    assert force or "--force goes on all the same" in captured.err
    assert (tmp_path / "run").exists() == force
