"""`dofnerf train`: a scene's photos in, a run's folder out.

Its flags are the settings themselves: those of the method of the chosen --field, with the values of the chosen --preset
as defaults, of what photos learn, of losses, and of what is written. A flag of another field is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import tyro

from dofnerf import scenes
from dofnerf.files.outputs import check_folder
from dofnerf.models import methods
from dofnerf.models.workers import is_first_process
from dofnerf.optics.light import Curve
from dofnerf.scenes.formats import FormatName
from dofnerf.train import train
from dofnerf.train.config import PresetName, TrainConfig, all_settings, check_share, shortened
from dofnerf.train.expect import expect
from dofnerf.train.folder import KeepConfig
from dofnerf.train.losses import losses
from dofnerf.train.photos import quantities
from dofnerf.train.run import Run
from dofnerf.train.trainer import Device

_FLAT = tyro.conf.arg(name="")  # flags without the group's name before them


@dataclass(frozen=True)
class TrainCommand:
    """Train on a scene: a sharp field, and the aperture and focus of every photo.

    For example:
      dofnerf train fern --downscale 8 --out fern-run
      dofnerf train fern --downscale 8 --out fern-run --resume
      dofnerf train capture --preset best --share-aperture all --out capture-run
      dofnerf train fern --preset paper --field nerf --out fern-paper
      torchrun --nproc-per-node 2 -m dofnerf train fern --photos-per-step 2    (one run by two processes)
    """

    EVERYDAY: ClassVar[tuple[str, ...]] = (
        "out", "preset", "field", "steps", "resume", "live", "device", "share_aperture", "width", "downscale",
        "hold_every", "seed",
    )  # fmt: skip
    FLAGS: ClassVar[tuple[Any, ...]] = (tyro.conf.DisallowNone,)

    scene: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SCENE")]
    """The scene: a folder (LLFF, COLMAP, transforms.json, triplets, light field), its transforms.json, or demo, which
    is in the package."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: NAME-run in the current folder)")] = None
    """The run's folder: config, checkpoint, table of photos, previews, log."""
    preset: PresetName = "fast"
    """fast (minutes), best (quality first), paper (the paper's settings), pinhole (as fast, without a lens model) or
    sharp-photos (that, trained on the all-in-focus photos)."""
    field: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: splat; nerf for the preset paper)")] = None
    """What the scene is made of: splat (3D Gaussians), hash, nerf or dsnerf."""
    steps: float = 1.0
    """Share of the preset's steps: less is quicker, and worse."""
    resume: bool = False
    """Go on with the run in the folder, exactly as if it had never stopped, given the same flags; begin if there is
    none."""
    live: bool = False
    """Serve the viewer on this machine while it trains: the scene and the lens of every photo as they come (splats)."""
    force: bool = False
    """Train even where it is hopeless: with fewer than 3 photos, or without parallax."""
    device: Device = "auto"
    """Where to compute; auto takes CUDA where it works, else the CPU."""
    format: FormatName = "auto"
    """The scene's format; auto looks."""
    light: Curve = 2.2
    """Gamma of the photos, or srgb: blur adds linear light."""
    keep: Annotated[KeepConfig, _FLAT] = dataclasses.field(default_factory=KeepConfig)
    reading: Annotated[scenes.ReadOptions, _FLAT, tyro.conf.OmitArgPrefixes] = dataclasses.field(
        default_factory=scenes.ReadOptions
    )

    def training(self) -> TrainConfig:
        """The settings of the run."""
        made, of_photos, of_losses = all_settings(self.preset, self.field)
        return replace(
            made,
            seed=self.reading.seed,
            light=self.light,
            method=getattr(self, "method"),  # noqa: B009
            quantities=quantities.chosen({name: getattr(self, name) for name in of_photos}),
            losses=losses.chosen({name: getattr(self, name) for name in of_losses}),
        )


def command_for(arguments: Sequence[str]) -> type[TrainCommand]:
    """The command's config for the --field, --preset and --steps among the arguments; refuses flags of other fields."""
    given = {name: _peek(arguments, f"--{name}") for name in ("field", "preset", "steps")}
    if given["field"] is not None and given["field"] not in methods():
        raise ValueError(f"--field {given['field']}: there is no such field; there are {', '.join(methods())}")
    preset = next((name for name in get_args(PresetName) if name == given["preset"]), "fast")
    made, of_photos, of_losses = all_settings(preset, given["field"])
    made = shortened(made, _share(given["steps"]))
    groups = {"method": made.method, **of_photos, **of_losses}
    parts = [(name, Annotated[type(one), _FLAT], dataclasses.field(default=one)) for name, one in groups.items()]
    made_class = dataclasses.make_dataclass("TrainConfig", parts, bases=(TrainCommand,), frozen=True)
    made_class.__doc__ = TrainCommand.__doc__
    made_class.EVERYDAY = (*TrainCommand.EVERYDAY, *made.method.EVERYDAY)  # type: ignore[attr-defined]
    _refuse_others(arguments, made.field, set(flags_of(made.method)))
    return made_class


def flags_of(config: Any, prefix: str = "") -> Iterator[str]:
    """The flags, with their other names, that a dataclass of settings has on the command line."""
    hints = get_type_hints(type(config), include_extras=True)
    for one in fields(config):
        value, marks = getattr(config, one.name), getattr(hints[one.name], "__metadata__", ())
        name = prefix + one.name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from flags_of(value, prefix if _FLAT in marks else f"{name}.")
            continue
        aliases = [alias for mark in marks for alias in getattr(mark, "aliases", None) or ()]
        for flag in (f"--{name}", *aliases):
            yield flag
            if isinstance(value, bool):
                yield f"--{prefix}no-{flag.removeprefix('--' + prefix)}"


def run(config: TrainCommand) -> Run:
    """Train as the config says; returns the run."""
    training = config.training()
    if config.out is not None:
        check_folder("--out", config.out)
    scene = scenes.load(config.scene, format=config.format, options=config.reading)
    out = config.out or Path(f"{scene.name}-run")
    if is_first_process():
        print(f"scene    {scene.describe()}")
        words = f"{training.field}, preset {training.preset}, {training.method.total} steps"
        print(f"train    {words}; folder {out}", flush=True)
        expect(scene, config.force)
    done = train(scene, training, out=out, resume=config.resume, device=config.device, keep=config.keep, quiet=False)
    if not is_first_process():
        return done
    for name, one in done.learner.quantities.by_name.items():
        if (done.has_lens or not one.uses_lens) and (words := one.summary()):
            print(f"{name:<8} {words.replace('  ', ', ')}")
    if (scale := done.optics.scale) is not None:
        print(f"scale    {scale.describe()}")
    print(f"wrote    {out} in {done.learner.progress.seconds:.0f} s")
    return done


def _peek(arguments: Sequence[str], flag: str) -> str | None:
    """The value of a flag, before the others are understood."""
    found = None
    for one, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if one == flag:
            found = following
        elif one.startswith(f"{flag}="):
            found = one.partition("=")[2]
    return found


def _share(text: str | None) -> float:
    try:
        share = 1.0 if text is None else float(text)
    except ValueError:
        return 1.0  # the parser says what is wrong
    check_share(share)
    return share


def _refuse_others(arguments: Sequence[str], field: str, own: set[str]) -> None:
    """Refuse flags that only other fields have."""
    others = {name: set(flags_of(one.preset("fast").config)) for name, one in methods().items() if name != field}
    for argument in arguments:
        flag = argument.partition("=")[0].replace("_", "-")
        having = [name for name, flags in others.items() if flag in flags]
        if argument.startswith("--") and having and flag not in own:
            family = " and ".join(dict.fromkeys(methods()[name].family for name in having))
            raise ValueError(f"{flag} is for {family} ({', '.join(having)}), not {field}")
