"""Checkpoints: one safetensors file with the tensors of a learner, and with JSON beside them that says what they are.

Numbers and words only, so loading runs no code. The file is replaced as a whole or not at all. Names and shapes are
compared with what the config would make before anything large is made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from dofnerf.files import atomic
from dofnerf.models import method
from dofnerf.models.config import TrainConfig
from dofnerf.models.setting import Setting
from dofnerf.train.learner import Learner, Standing
from dofnerf.train.plain import from_plain, to_plain

FILE = "checkpoint.safetensors"
_FORMAT = "dofnerf run 1"


def pack(learner: Learner) -> bytes:
    """A learner as the bytes of a checkpoint."""
    words = {"format": _FORMAT, "config": to_plain(learner.config), "setting": to_plain(learner.setting)}
    words["standing"] = to_plain(learner.standing)
    words["moments"] = sorted(learner.adam.state_dict()["state"])
    return safetensors.torch.save(learner.tensors(), {"dofnerf": json.dumps(words, allow_nan=False)})


def write(path: Path, packed: bytes) -> None:
    """Write it beside the old one, then replace that."""
    with atomic(path) as temporary:
        temporary.write_bytes(packed)


def sweep_up(folder: Path) -> None:
    """Remove what a writer that was killed left behind."""
    for path in folder.glob(f".{Path(FILE).stem}-*{Path(FILE).suffix}"):
        path.unlink(missing_ok=True)


def unpack(packed: bytes, device: torch.device | str = "cpu", label: str = "checkpoint") -> Learner:
    """The learner of a checkpoint's bytes; ValueError, in one line that names `label`, if they are not one."""
    words = _words(packed, label)
    try:
        config = config_from(words["config"])
        setting = from_plain(Setting, words["setting"], "setting")
        standing = from_plain(Standing, words["standing"], "standing")
        tensors = safetensors.torch.load(packed)
        prefix = "model."
        shapes = {name.removeprefix(prefix): value.shape for name, value in tensors.items() if name.startswith(prefix)}
        _compare(tensors, config, setting, shapes)
        learner = Learner.like(config, setting, shapes, device)
        _compare_all(tensors, learner, words["moments"])
        learner.restore(tensors, standing)
    except (ValueError, KeyError, RuntimeError, IndexError, TypeError, safetensors.SafetensorError) as error:
        line = " ".join(str(error).split())[:160]
        raise ValueError(f"{label}: the checkpoint is damaged or from another version ({line})") from None
    return learner


def config_from(plain: dict[str, Any]) -> TrainConfig:
    """A TrainConfig of `to_plain`'s words; the field's own part by the field's name."""
    config = from_plain(TrainConfig, plain)
    return replace(config, field_config=from_plain(method(config.field).config, config.field_config, "field_config"))


def _words(packed: bytes, label: str) -> dict[str, Any]:
    """The JSON of a checkpoint."""
    try:
        length = int.from_bytes(packed[:8], "little")
        header = json.loads(packed[8 : 8 + length])
        words = json.loads(header["__metadata__"]["dofnerf"])
        if not isinstance(words, dict) or words["format"] != _FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{label}: not a checkpoint of dofnerf (damaged, or of another kind)") from None
    return words


def _compare(
    tensors: dict[str, torch.Tensor], config: TrainConfig, setting: Setting, shapes: dict[str, torch.Size]
) -> None:
    """Refuse tensors that do not fit the config or each other, before the config makes anything."""
    with torch.device("meta"):
        model = method(config.field).like(config, setting, shapes)
    wanted = {f"model.{name}": tuple(value.shape) for name, value in model.state_dict().items()}
    count = len(setting.photos)
    wanted |= {"lens.raw_focus": (count,), "lens.groups": (count,)}
    for name, shape in wanted.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "none"
            raise ValueError(f"{name} should have shape {shape}, found {found}")
    apertures = len(setting.apertures) or count
    if not len(setting.focal) == len(setting.f_numbers) == len(setting.groups) == apertures == count:
        raise ValueError(f"{count} photos, but not as many focal lengths, f-numbers and groups")


def _compare_all(tensors: dict[str, torch.Tensor], learner: Learner, moments: list[int]) -> None:
    """Refuse a state that lacks a part, or has one of another shape. `moments` numbers the parameters that Adam has
    moved."""
    wanted = {name: value.shape for name, value in learner.tensors().items()}
    parameters = [value for group in learner.adam.param_groups for value in group["params"]]
    for index in moments:
        shape = parameters[index].shape
        wanted |= {
            f"adam.{index}.exp_avg": shape,
            f"adam.{index}.exp_avg_sq": shape,
            f"adam.{index}.step": torch.Size(),
        }
    for name, shape in wanted.items():
        if name not in tensors or tensors[name].shape != shape:
            raise ValueError(f"{name} is missing or has another shape")
