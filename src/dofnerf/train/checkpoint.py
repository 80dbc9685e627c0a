"""Checkpoints: one safetensors file with the tensors of a learner, and with JSON beside them that says what they are.

Numbers and words only, so loading runs no code. The file is replaced as a whole or not at all. Names and shapes are
compared with what the config would make before anything large is made. Checksums of every tensor and of the words tell
a damaged file; numbers that nothing could be rendered with are refused in any case.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from dofnerf.files import atomic
from dofnerf.files.guard import LARGEST_NUMBER, LARGEST_SIDE, SMALLEST_NUMBER, parse_json
from dofnerf.models import method
from dofnerf.models.data import Setting
from dofnerf.train.config import TrainConfig, preset
from dofnerf.train.learner import Learner, Progress
from dofnerf.train.losses import losses
from dofnerf.train.photos import quantities
from dofnerf.train.plain import from_plain, to_plain
from dofnerf.train.precision import NAMES as PRECISE

FILE = "checkpoint.safetensors"
_FORMAT = "dofnerf run 2"
_OLD_FORMAT = "dofnerf run 1"  # of 0.1.0
_ODD = ValueError, LookupError, RuntimeError, TypeError, AttributeError, ArithmeticError, AssertionError, MemoryError


def pack(learner: Learner) -> bytes:
    """A learner as the bytes of a checkpoint."""
    words: dict[str, Any] = {
        "format": _FORMAT,
        "config": to_plain(learner.config),
        "setting": to_plain(learner.setting),
    }
    words["progress"] = to_plain(learner.progress)
    words["moments"] = [*learner.adam.state_of()]
    tensors = learner.tensors()
    words["sha256"] = {name: _digest(name, value) for name, value in tensors.items()}
    words["sha256_of_words"] = _digest_of_words(words)
    return safetensors.torch.save(tensors, {"dofnerf": json.dumps(words, allow_nan=False)})


def _digest(name: str, value: torch.Tensor) -> str:
    """The checksum of a tensor, its name, type and shape included."""
    digest = hashlib.sha256(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
    digest.update(value.reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _digest_of_words(words: dict[str, Any]) -> str:
    rest = {key: value for key, value in words.items() if key != "sha256_of_words"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def write(path: Path, packed: bytes) -> None:
    """Write it beside the old one, then replace that."""
    with atomic(path) as temporary:
        temporary.write_bytes(packed)


def unpack(packed: bytes, device: torch.device | str = "cpu", label: str = "checkpoint") -> Learner:
    """The learner of a checkpoint's bytes; ValueError, in one line that names `label`, if they are not one."""
    words = _words(packed, label)
    try:
        config = config_from(words["config"])
        setting = from_plain(Setting, words["setting"], "setting")
        progress = from_plain(Progress, words["progress"], "progress")
        _check_setting(setting)
        tensors = safetensors.torch.load(packed)
        _check_values(tensors, words)
        tensors = {name: value for name, value in tensors.items() if name not in _GONE_TENSORS}
        if words["format"] == _OLD_FORMAT:
            tensors = {_NEW_TENSORS.get(name, name): value for name, value in tensors.items()}
        prefix = "model."
        shapes = {name.removeprefix(prefix): value.shape for name, value in tensors.items() if name.startswith(prefix)}
        _compare(tensors, config, setting, shapes)
        learner = Learner.like(config, setting, shapes, device)
        _compare_all(tensors, learner, words["moments"])
        learner.restore(tensors, progress)
    except (*_ODD, safetensors.SafetensorError) as error:
        line = " ".join(str(error).split())[:160] or type(error).__name__
        raise ValueError(f"{label}: the checkpoint is damaged or from another version ({line})") from None
    return learner


def config_from(plain: dict[str, Any]) -> TrainConfig:
    """A TrainConfig of `to_plain`'s words, or of those that 0.1.0 wrote."""
    if not isinstance(plain, dict) or not isinstance(plain.get("field"), str):
        raise ValueError(f"config: expected named values with a field, found {plain!r:.40}")
    plain = _with_new_names(_new_config(plain) if "field_config" in plain else plain)
    rest = {name: value for name, value in plain.items() if name not in ("quantities", "losses")}
    made = from_plain(TrainConfig, rest, like=preset(plain.get("preset", "fast"), plain["field"]))
    parts: dict[str, Any] = {}
    for kind, known in (("quantities", quantities), ("losses", losses)):
        given = plain.get(kind, {})
        if not isinstance(given, dict):
            raise ValueError(f"config.{kind}: expected named values, found {given!r:.40}")
        parts[kind] = {name: from_plain(known.get(name).Config, one, f"{kind}.{name}") for name, one in given.items()}
    return replace(made, **parts)


# What earlier versions called otherwise: tensors, and the settings of runs, by the part that has them.
_NEW_TENSORS = {"model.blamed": "memory.error", "model.seen": "memory.coverage", "model.order": "memory.order"}
_GONE_TENSORS = {"pose.settled", "focal.settled"}  # whether cameras were looked at for the last time
_OF_SPLATS = {
    "lens_ray_steps": "sub_aperture_steps", "lens_points": "sub_apertures", "edges": "gradient_prior",
    "detail": "gradient_loss",
}  # fmt: skip
_OF_LENS, _OF_CONSISTENCY = {"vote": "common_aperture"}, {"together": "aperture_consistency"}
_OF_SAMPLING = {"coarse", "fine", "samples", "steps", "grid"}  # one dataclass had all of them


def _with_new_names(plain: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run of an earlier version by the names that they have now."""
    plain = copy.deepcopy(plain)

    def part(*path: str) -> dict[str, Any]:
        found: Any = plain
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}  # what makes no sense is refused later

    splats, sampling = plain["field"] == "splat", part("method", "sampling")
    old_names = {("method",): _OF_SPLATS if splats else {}, ("quantities", "lens"): _OF_LENS}
    for path, names in (old_names | {("losses", "aperture_consistency"): _OF_CONSISTENCY}).items():
        own = part(*path)
        own.update({new: own.pop(old) for old, new in names.items() if old in own})
    if splats and "decay" in part("method"):
        part("method").setdefault("fall", "exponential")  # the only way there was
    if splats and part("method"):
        part("method").setdefault("blur_width", 1.0)
        part("method").setdefault("prior_blur", 0.0)
    if sampling:
        kept = {one.name for one in fields(preset("fast", plain["field"]).method.sampling)}
        for name in _OF_SAMPLING - kept:
            sampling.pop(name, None)
    return plain


def _new_config(old: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run of 0.1.0 as they are now."""
    steps, lens, rates = (dict(old.get(name, {})) for name in ("steps", "lens", "rates"))
    common: dict[str, Any] = {name: old[name] for name in ("field", "preset", "seed") if name in old}
    common |= {"photos": steps.pop("photos", "given"), "light": lens.pop("light", 2.2)}
    moved = {name: lens.pop(name) for name in ("layers", "in_focus", "noise_free", "sharp_first") if name in lens}
    together = lens.pop("together", 0.0)
    if old["field"] == "splat":
        kept = {"pinhole_steps", "lens_steps", "lens_ray_steps", "lens_points", "sharp_first", "decay"}
        own = {name: value for name, value in (steps | moved | rates).items() if name in kept} | old["field_config"]
    else:
        moved.pop("sharp_first", None)
        own = steps | moved | rates | {"sampling": old.get("sampling", {}), "field": old["field_config"]}
    parts = {"aperture_consistency": {"together": together}} if together else {}
    return {**common, "method": own, "quantities": {"lens": lens}, "losses": parts}


def _words(packed: bytes, label: str) -> dict[str, Any]:
    """The JSON of a checkpoint."""
    try:
        length = int.from_bytes(packed[:8], "little")
        header = parse_json(packed[8 : 8 + length], label)
        words = parse_json(header["__metadata__"]["dofnerf"], label)
        if not isinstance(words, dict) or words["format"] not in (_FORMAT, _OLD_FORMAT):
            raise ValueError
        if words["format"] == _OLD_FORMAT:
            words["progress"] = {"rate_scale" if k == "caution" else k: v for k, v in words["standing"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{label}: not a checkpoint of dofnerf (damaged, or of another kind)") from None
    return words


def _check_setting(setting: Setting) -> None:
    """Refuse numbers that no scene has."""
    far, near = setting.disparities
    if not all(1 <= side <= LARGEST_SIDE for side in setting.size):
        raise ValueError(f"photos of {setting.size[0]} × {setting.size[1]} pixels")
    if not 0 < far < near < LARGEST_NUMBER:
        raise ValueError(f"the scene's disparities are {far:g} and {near:g}, expected 0 < far < near")
    if not all(0 < focal < LARGEST_NUMBER for focal in setting.focal):
        raise ValueError("a focal length is not above 0, or absurd")
    if not all(abs(number) < LARGEST_NUMBER for place in setting.positions for number in place):
        raise ValueError("a camera's position is absurd")
    if setting.positions and len(setting.positions) != len(setting.photos):
        raise ValueError(f"{len(setting.photos)} photos, but {len(setting.positions)} positions")
    lengths = [setting.metres, *(known for known in (*setting.focal_mm, *setting.f_numbers) if known != 0)]
    if not all(length is None or SMALLEST_NUMBER < length < LARGEST_NUMBER for length in lengths):
        raise ValueError("a scale, focal length in millimetres or f-number is not above 0, or absurd")
    if not all(0 <= group < len(setting.photos) for group in setting.groups):
        raise ValueError("a photo's group is not among the photos")


def _check_values(tensors: dict[str, torch.Tensor], words: dict[str, Any]) -> None:
    """Refuse tensors that differ from their checksums (files of before these have none), and absurd numbers."""
    sums = words.get("sha256")
    if sums is not None and (not isinstance(sums, dict) or _digest_of_words(words) != words.get("sha256_of_words")):
        raise ValueError("its settings differ from their checksum")
    for name, value in tensors.items():
        if sums is not None and _digest(name, value) != sums.get(name):
            raise ValueError(f"{name} differs from its checksum")
        if value.is_floating_point() and not bool((value.abs() < LARGEST_NUMBER).all()):
            raise ValueError(f"{name} holds NaN, infinity or an absurdly large number")
    groups = tensors.get("lens.groups")
    if groups is not None and groups.numel() and not 0 <= int(groups.min()) <= int(groups.max()) < groups.numel():
        raise ValueError("lens.groups holds a number that is no photo's")


def _compare(
    tensors: dict[str, torch.Tensor], config: TrainConfig, setting: Setting, shapes: dict[str, torch.Size]
) -> None:
    """Refuse tensors that do not fit the config or each other, before the config makes anything."""
    with torch.device("meta"):
        model = method(config.field).like(config, setting, shapes)
        memory = method(config.field).memory(model, len(setting.photos))
    wanted = {f"model.{name}": tuple(value.shape) for name, value in model.state_dict().items()}
    wanted |= {f"memory.{name}": tuple(value.shape) for name, value in memory.items()}
    count = len(setting.photos)
    wanted |= {"lens.raw_focus": (count,), "lens.groups": (count,)}
    if "precision" in tensors:
        wanted["precision"] = (count, len(PRECISE))
    for name, shape in wanted.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "none"
            raise ValueError(f"{name} should have shape {shape}, found {found}")
    apertures = len(setting.apertures) or count
    lengths = len(setting.focal_mm) or count
    if not len(setting.focal) == len(setting.f_numbers) == len(setting.groups) == apertures == lengths == count:
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
