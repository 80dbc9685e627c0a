"""`dofnerf train` as a person meets it."""

import json

import pytest

from dofnerf.cli import main
from dofnerf.scenes import DEMO
from dofnerf.train import Run
from dofnerf.train.checkpoint import config_from
from dofnerf.train.config import preset
from dofnerf.train.plain import to_plain

FEW = [
    "--width",
    "24",
    "--pinhole-steps",
    "2",
    "--lens-steps",
    "2",
    "--lens-ray-steps",
    "1",
]


SOME = ["--which-frames", "0", "1", "2", "3", "4", "--hold-every", "0"]


def test_a_run_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    flags = ["train", str(DEMO), "--out", str(out), *FEW, *SOME, "--refits", "--seed", "3", "--share-aperture", "all"]
    assert main(flags) == 0
    said = capsys.readouterr().out
    assert "preset fast" in said and "lens     aperture" in said and f"wrote    {out}" in said
    run = Run.load(out)
    assert run.config.seed == 3 and run.config.method.total == 5 and run.config.lens.refits == ()
    assert main(flags) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*flags, "--resume"]) == 0


@pytest.mark.parametrize(
    "flags",
    [
        ["--field", "clay"],
        ["--splats", "-1"],
        ["--lens-rate", "-1"],
        ["--aperture-consistency", "-1"],
        ["--refits", "2"],
        ["--share-aperture", "exif"],
    ],
)
def test_mistakes_are_one_line(flags, tmp_path, capsys):
    assert main(["train", str(DEMO), "--out", str(tmp_path / "run"), *FEW, *flags]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_configurations_survive_json():
    config = preset("best")
    plain = to_plain(config)
    assert config_from(json.loads(json.dumps(plain))) == config
    for wrong in ({"seed": 1.5}, {"seed": True}, {"method": 3}, {"light": "dim"}, {"nonsense": 1}, {"losses": [1]}, []):
        with pytest.raises(ValueError):
            config_from({**plain, **wrong} if isinstance(wrong, dict) else wrong)
