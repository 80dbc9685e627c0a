"""`dofnerf train`: a scene's photos in, a run's folder out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from dofnerf import scenes
from dofnerf.files.outputs import check_folder
from dofnerf.models import methods
from dofnerf.models.config import Sharing, TrainConfig
from dofnerf.models.splat.model import BlurKind
from dofnerf.models.splat.training import SplatConfig
from dofnerf.models.workers import may_speak
from dofnerf.scenes.formats import FormatName
from dofnerf.train.folder import KeepConfig
from dofnerf.train.presets import Preset, check_share, preset, shortened
from dofnerf.train.run import Run
from dofnerf.train.trainer import Device, train

_AS_PRESET = tyro.conf.arg(help_behavior_hint="(default: the preset's)")
Count = Annotated[int | None, _AS_PRESET]
Number = Annotated[float | None, _AS_PRESET]
Switch = Annotated[bool | None, _AS_PRESET]


@dataclass(frozen=True)
class StepChanges:
    """Changes to the preset: how long, and how much a step looks at."""

    pinhole_steps: Count = None
    """Steps on random rays (splats: on whole photos), before there is a lens."""
    lens_steps: Count = None
    """Steps on patches blurred by concentrate and scatter (splats: whole photos, each Gaussian blurred by its
    depth)."""
    lens_ray_steps: Count = None
    """Steps on pixels seen through the exact thin lens (splats: on whole photos, the lens in parts)."""
    rays: Count = None
    """Rays a step."""
    patch_size: Count = None
    """Pixels along a side of a patch."""
    anchor_stride: Count = None
    """Pixels between the places that patches may have."""
    lens_points: Count = None
    """Rays through the lens for each pixel of the exact stage; even (splats: parts of the lens)."""


@dataclass(frozen=True)
class RateChanges:
    """Changes to the preset: how fast the field learns, and from what."""

    rate: Number = None
    """The field's learning rate (Adam)."""
    depth_weight: Number = None
    """Weight of the loss that pulls depth to the scene's sparse points, as DS-NeRF does; works with every field."""


@dataclass(frozen=True)
class LensChanges:
    """Changes to the preset: how the lens is found."""

    learn_aperture: Switch = None
    """Learn each photo's aperture, yes or no."""
    learn_focus: Switch = None
    """Learn each photo's focus, yes or no."""
    search: Switch = None
    """Search for aperture and focus of each photo at the start of the lens's stages."""
    vote: Switch = None
    """Let all photos vote for one aperture in the search; one whose blur clearly differs gets its own."""
    sharp_first: Switch = None
    """Before there is a lens, listen to photos where they show detail (splats)."""
    start_blur: Number = None
    """Blur radius in pixels, from one end of the depth range to the other, that photos start with."""
    start_focus: Number = None
    """Where photos start to be focused: 0 at the far end of the disparities, 1 at the near end."""
    refits: Annotated[tuple[float, ...] | None, _AS_PRESET] = None
    """Search again after these shares of the steps with a lens."""
    refit_all: Switch = None
    """Search again for all photos, or for those alone for which no lens has been found."""
    lens_rate: Number = None
    """The lens's learning rate, in logits."""
    together: Number = None
    """How strongly apertures are drawn to each other while they learn: 0 not at all; splats 0.004, other fields 0."""
    only_sampled: Switch = None
    """Move only the lenses of the photos in a batch."""
    share_aperture: Annotated[Sharing | None, _AS_PRESET] = None
    """Photos that share an aperture: none, those of one f-number by EXIF, or all."""
    max_radius: Number = None
    """The largest blur radius in pixels that can be learned."""
    layers: Count = None
    """Layers of blurred patches: 1 is the paper's blur, more are right at occlusions."""
    in_focus: Number = None
    """Share of the patch steps and of the lens rays that goes to pixels in focus, one ray each."""
    noise_free: Switch = None
    """Leave the noise of few lens rays out of the loss, yes or no."""


@dataclass(frozen=True)
class SplatChanges:
    """Changes to the preset: splats only."""

    splats: Count = None
    """How many Gaussians in all (0: half as many as a photo has pixels, 10 000 to 60 000)."""
    degree: Count = None
    """Degree of the spherical harmonics by which colour depends on direction: 0, 1 or 2."""
    blur: Annotated[BlurKind | None, _AS_PRESET] = None
    """gaussian: each Gaussian is blurred by its own depth; scatter: the picture is, as in the paper."""
    detail: Number = None
    """Weight of the differences between neighbouring pixels' errors, in photos that have a lens."""
    edges: Number = None
    """Price of edges in the sharp picture: few strong ones rather than many weak ones."""
    grow: Switch = None
    """Move Gaussians that are hardly seen to where the error is."""


@dataclass(frozen=True)
class TrainCommandConfig:
    """Train on a scene: a sharp field, and the aperture and focus of every photo.

    For example:
      dofnerf train fern --downscale 8 --out fern-run
      dofnerf train fern --downscale 8 --out fern-run --resume
      dofnerf train capture --preset best --share-aperture all --out capture-run
      dofnerf train fern --preset paper --field nerf --out fern-paper
      torchrun --nproc-per-node 2 -m dofnerf train fern --field hash --out fern-run     (one run by two processes)
    """

    scene: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SCENE")]
    """The scene: a folder (LLFF, COLMAP, transforms.json, triplets, light field) or its transforms.json; demo is the
    one in the package."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: NAME-run in the current folder)")] = None
    """The run's folder: config, checkpoint, lens table, previews, log."""
    preset: Preset = "fast"
    """fast: minutes; best: quality first; paper: the paper's settings; pinhole and sharp-oracle: the twins of fast,
    without a lens, on the photos and on all-in-focus ones."""
    field: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: splat; nerf for the preset paper)")] = None
    """What the scene is made of: splat (3D Gaussians), hash, nerf or dsnerf."""
    steps: float = 1.0
    """Share of the preset's steps: less is quicker, and worse."""
    resume: bool = False
    """Go on with the run in the folder, exactly as if it had never stopped, given the same flags; begin if there is
    none."""
    device: Device = "auto"
    """Where to compute: cpu, cuda, or cuda if there is one."""
    format: FormatName = "auto"
    """The scene's format; auto looks."""
    stages: StepChanges = dataclasses.field(default_factory=StepChanges)
    rates: RateChanges = dataclasses.field(default_factory=RateChanges)
    lens: LensChanges = dataclasses.field(default_factory=LensChanges)
    gaussians: SplatChanges = dataclasses.field(default_factory=SplatChanges)
    keep: KeepConfig = dataclasses.field(default_factory=KeepConfig)
    reading: scenes.ReadOptions = dataclasses.field(default_factory=scenes.ReadOptions)

    def training(self) -> TrainConfig:
        """The preset with the changes."""
        if self.field is not None and self.field not in methods():
            raise ValueError(f"--field {self.field}: there is no such field; there are {', '.join(methods())}")
        check_share(self.steps)
        config = shortened(preset(self.preset, self.field), self.steps)
        if self.gaussians != SplatChanges():
            if not isinstance(config.field_config, SplatConfig):
                flags = "--splats, --degree, --blur, --detail, --edges and --grow"
                raise ValueError(f"{flags} are for --field splat, not {config.field}")
            config = replace(config, field_config=_changed(config.field_config, self.gaussians))
        return replace(
            config,
            seed=self.reading.seed,
            steps=_changed(config.steps, self.stages),
            rates=_changed(config.rates, self.rates),
            lens=_changed(config.lens, self.lens),
        )


def run(config: TrainCommandConfig) -> Run:
    """Train as the config says; returns the run."""
    training = config.training()
    if config.out is not None:
        check_folder("--out", config.out)
    scene = scenes.load(config.scene, format=config.format, options=config.reading)
    out = config.out or Path(f"{scene.name}-run")
    if may_speak():
        print(f"scene    {scene.describe()}")
        print(
            f"train    {training.field}, preset {training.preset}, {training.steps.total} steps; folder {out}",
            flush=True,
        )
    done = train(scene, training, out=out, resume=config.resume, device=config.device, keep=config.keep, quiet=False)
    if not may_speak():
        return done
    if done.has_lens:
        aperture, focus = done.lens.aperture.detach(), done.lens.focus_depth.detach()
        print(
            f"lens     aperture {aperture.min():.4g} to {aperture.max():.4g}, focus {focus.min():.4g} to {focus.max():.4g}"
        )
    print(f"wrote    {out} in {done.learner.standing.seconds:.0f} s")
    return done


def _changed(config: Any, changes: Any) -> Any:
    given = {f.name: getattr(changes, f.name) for f in fields(changes)}
    return replace(config, **{name: value for name, value in given.items() if value is not None})
