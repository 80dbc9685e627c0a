"""Every flag of `dofnerf train`, for every field: it changes the run's settings, or is refused with the reason.

The flags are walked from the settings themselves, so a new setting is tested as soon as it is there.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from dofnerf.cli import main, parse
from dofnerf.models import methods
from dofnerf.train import preset
from dofnerf.train.command import flags_of
from dofnerf.train.config import all_settings
from dofnerf.train.plain import to_plain

FIELDS = sorted(methods())


def other(value, hint):
    """Words for the command line that mean another value of this type, one that is allowed."""
    choices = [one for part in (hint, *get_args(hint)) if get_origin(part) is Literal for one in get_args(part)]
    if choices:
        return [str(next(one for one in choices if one != value))]
    if isinstance(value, int):
        return [str(4 if value == 2 else 2 if value < 4 else value + 2)]
    if isinstance(value, float):
        return [str(value / 2 or 0.5)]
    if isinstance(value, str):
        return ["scatter"]  # the blur of splats, whose names are registered
    assert isinstance(value, tuple), value
    return ["0.3", "0.6"]


def settings(config, prefix=""):
    """(flag, how to change it) of each setting of a dataclass."""
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, flag = getattr(config, field.name), f"{prefix}{field.name.replace('_', '-')}"
        if dataclasses.is_dataclass(value):
            yield from settings(value, f"{flag}.")
        elif isinstance(value, bool):
            prefix_, _, name = flag.rpartition(".")
            yield f"--{prefix_ + '.' if prefix_ else ''}{'no-' if value else ''}{name}", []
        else:
            yield f"--{flag}", other(value, hints[field.name])


def all_flags(field):
    made, of_photos, of_losses = all_settings("fast", field)
    for one in (made.method, *of_photos.values(), *of_losses.values()):
        yield from settings(one)


def leaves(value, name=""):
    """Every single value in nested dictionaries, by its path; not of what the run is about."""
    if not isinstance(value, dict):
        yield name, value
    else:
        for key, one in value.items():
            if name or key in ("method", "quantities", "losses"):
                yield from leaves(one, f"{name}.{key}")


def training(*flags):
    config, _ = parse(["train", "demo", *flags])
    return config.training()


@pytest.mark.parametrize("field", FIELDS)
def test_every_flag_changes_the_settings(field):
    usual, flags = training("--field", field), list(all_flags(field))
    assert usual == preset("fast", field)
    given = training("--field", field, *(word for flag, words in flags for word in (flag, *words)))
    before, after = (dict(leaves(to_plain(config))) for config in (usual, given))
    changed = {name for name in before | after if after.get(name) != before.get(name)}
    assert len(flags) > 25 and len(changed) == len(flags), set(after) - changed


@pytest.mark.parametrize("field", FIELDS)
def test_every_flag_of_other_fields_is_refused(field, capsys, tmp_path):
    own, refused = set(flags_of(methods()[field].preset("fast").config)), set()
    for name, method in methods().items():
        for flag, words in settings(method.preset("fast").config):
            if flag in own or flag in refused:
                continue
            refused.add(flag)
            assert main(["train", "demo", "--field", field, "--out", str(tmp_path / "run"), flag, *words]) == 2
            line = capsys.readouterr().err
            assert line.count("\n") == 1 and f"{flag} is for " in line and name in line and f"not {field}" in line
    assert refused and not (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [["--seed", "4"], ["--light", "srgb"], ["--preset", "best"], ["--steps", "0.5"]])
def test_common_flags_change_the_settings(flags):
    assert training(*flags) != training()


def test_names_of_0_1_0_still_work():
    made = training("--lens-ray-steps", "7", "--lens-points", "4", "--edges", "0.5", "--no-grow")
    assert (made.method.sub_aperture_steps, made.method.sub_apertures, made.method.gradient_prior) == (7, 4, 0.5)
    made = training("--detail", "0.3", "--together", "0.2", "--no-vote")
    assert (made.method.gradient_loss, made.losses["aperture_consistency"].aperture_consistency) == (0.3, 0.2)
    assert not made.lens.common_aperture
    assert training("--field", "hash", "--lens-ray-steps", "7").method.lens_ray_steps == 7


def test_the_reason_names_the_family(capsys):
    assert main(["train", "demo", "--patch-size", "8"]) == 2
    assert "--patch-size is for volumetric fields (dsnerf, hash, nerf), not splat" in capsys.readouterr().err


def test_help_shows_the_flags_of_the_field(capsys):
    for field, own, foreign in (("hash", "--rays", "--splats"), ("splat", "--splats", "--rays")):
        for words in ("--help", "--help-all"):
            with pytest.raises(SystemExit):
                main(["train", "--field", field, words])
            text = capsys.readouterr().out
            assert own in text and foreign not in text
            assert text.index("--preset") < text.index(own)


def test_when_training_diverges_the_advice_is_a_flag_of_the_field():
    for name, method in methods().items():
        for flag in method.rate_flags.replace(" or ", ", ").split(", "):
            assert flag in set(flags_of(method.preset("fast").config)), (name, flag)
