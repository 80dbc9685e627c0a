"""`synth blur`: the paper's recipe. Sharp photos and a disparity map each → photos focused near and far, by our own
scatter.

Units. Let 1/z_far and 1/z_near be the ends of the disparity range over all photos of the scene (its 1st and 99th per
cent). A pixel has the normalised disparity d = (1/z − 1/z_far) / (1/z_near − 1/z_far), 0 far away and 1 close by, and a
blur disc of

    radius = blur · |d − focus|  pixels of the photos as written.

`blur` is the blur parameter of BokehMe, which the paper sets to 20, with focus 0.1 and 0.9. We read it as a radius, as
the paper's Algorithm 2 does, at the size of the photos written. The paper does not say at which size it blurred (it
shrinks 4032 × 3024 to 504 × 378 for training): 20 at 504 pixels across is strong, 20 at full size would be 2.5 there.

In scene units this is exactly a thin lens: radius = aperture · |1/z_F − 1/z| with aperture = blur / (1/z_near −
1/z_far) and 1/z_F = 1/z_far + focus · (1/z_near − 1/z_far). One lens, focused twice, for the whole scene.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.files import write_image, write_map
from dofnerf.files.outputs import claim
from dofnerf.files.progress import track
from dofnerf.lab.synth import RECORD, fingerprint
from dofnerf.lab.synth.disparity import DisparityConfig, disparities
from dofnerf.optics.lens import Lens, inverse
from dofnerf.process import alone
from dofnerf.scenes import Frame, Scene
from dofnerf.scenes.export import stems
from dofnerf.scenes.formats import FormatName
from dofnerf.scenes.source import DepthFile, PictureFile, Source

if TYPE_CHECKING:
    from dofnerf.optics.layers import Layers

MOST_LAYERS = 256
LARGEST_BLUR = 4096.0  # pixels
HIDDEN = 4.0  # pixels of blur between a thing and what stands before it, at the least
CONTRADICTS = 1.0  # pixels: if a tenth of the blur differs by more, even the true lens explains photos badly
TAIL = 1.0  # per cent of the pixels that may lie nearer or farther than the normalised range


@dataclass(frozen=True)
class ReadingConfig:
    """How the source scene is read."""

    format: FormatName = "auto"
    """Its format; auto detects it."""
    downscale: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Shrink the photos to 1/downscale of the full size before they are blurred."""
    width: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """Shrink them to this many pixels across, instead of --downscale."""


@dataclass(frozen=True)
class BlurConfig:
    """Make a scene with near- and far-focused photos from sharp photos (the paper's recipe).

    For example:
      dofnerf synth blur fern --downscale 8 --out fern-blurred
      dofnerf synth blur fern --downscale 8 --disparity network --out fern-dpt
      dofnerf synth blur scene --maps disparity --map-kind relative --blur 8 --out blurred
    """

    scene: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SCENE")]
    """The scene: a folder of sharp photos with poses, in any format that dofnerf reads. Stays as it is."""
    out: Path
    """The new scene's folder. Stopped work goes on where it was if the flags are the same."""
    blur: float = 20.0
    """Blur radius, in pixels of the photos written, for a step of 1 in normalised disparity (0 farthest, 1 nearest)."""
    near_focus: float = 0.9
    """Normalised disparity at which the near-focused photos are sharp."""
    far_focus: float = 0.1
    """Normalised disparity at which the far-focused photos are sharp."""
    layers: int = 8
    """Depth layers for occlusion: 1 is the paper's blur, which bleeds at silhouettes."""
    light: float | Literal["srgb"] = 2.2
    """Curve between the photos' values and linear light, in which blur adds up: a gamma, or srgb."""
    depth: DisparityConfig = field(default_factory=DisparityConfig)
    reading: ReadingConfig = field(default_factory=ReadingConfig)

    def check(self) -> None:
        """Refuse what no scene could make right."""
        if not 0 < self.blur <= LARGEST_BLUR:
            raise ValueError(f"--blur must be above 0 and at most {LARGEST_BLUR:g}, found {self.blur:g}")
        for flag, value in (("--near-focus", self.near_focus), ("--far-focus", self.far_focus)):
            if not 0 <= value <= 1:
                raise ValueError(f"{flag} must lie between 0 (farthest) and 1 (nearest), found {value:g}")
        if not self.near_focus > self.far_focus:
            raise ValueError(f"--near-focus {self.near_focus:g} must be larger than --far-focus {self.far_focus:g}")
        if not 1 <= self.layers <= MOST_LAYERS:
            raise ValueError(f"--layers must be 1 to {MOST_LAYERS}, found {self.layers}")
        if self.light != "srgb" and not (self.light > 0 and math.isfinite(self.light)):
            raise ValueError(f"--light must be srgb or a gamma above 0, found {self.light:g}")


@dataclass(frozen=True)
class Blurred:
    """A sharp photo seen through `lens`, given its depth."""

    sharp: Source
    depth: Source
    lens: Lens
    layers: int
    light: float | Literal["srgb"]

    @property
    def label(self) -> str:
        return self.sharp.label

    def load(self) -> np.ndarray:
        import torch

        from dofnerf.optics.layers import scatter_layers
        from dofnerf.optics.scattering import scatter

        if self.layers == 1:
            radius = self.lens.coc_radius_from_disparity(torch.from_numpy(_disparity(self.depth)))
            return scatter(torch.from_numpy(self.sharp.load()), radius, light=self.light).numpy()
        split = _split(self.sharp, self.depth, self.layers, self.lens.aperture, self.light)
        radius = self.lens.coc_radius_from_disparity(split.disparity)
        return scatter_layers(split.colour, split.alpha, radius, light=self.light).numpy()


@lru_cache(maxsize=1)
def _split(sharp: Source, depth: Source, layers: int, aperture: float, light: float | Literal["srgb"]) -> Layers:
    """The layers of a photo, for its near- and its far-focused picture; they reach as far as any blur in it."""
    import torch

    from dofnerf.optics.layers import split_layers

    disparity = _disparity(depth)
    reach = math.ceil(aperture * float(np.ptp(disparity))) + 1
    return split_layers(torch.from_numpy(sharp.load()), torch.from_numpy(disparity), layers, reach, light)


def _disparity(depth: Source) -> np.ndarray:
    return (1 / depth.load().astype(np.float64)).astype(np.float32)


@alone
def run(config: BlurConfig) -> Path:
    """Make the scene; returns the path of its transforms.json."""
    config.check()
    reading = config.reading
    source = scenes.load(
        config.scene, format=reading.format, downscale=reading.downscale, width=reading.width, mix="photo"
    )
    source = sharp_only(source)
    disparity, words = disparities(source, config.depth, config.out / "depth-run")
    settings = asdict(replace(config, scene=Path(), out=Path())) | {"scene": fingerprint(source)}
    settings.pop("out")
    for name in ("maps", "run"):
        path = getattr(config.depth, name)
        settings["depth"][name] = None if path is None else path.resolve().name
    claim(config.out, RECORD, config.scene, "dofnerf synth blur", settings)
    print(f"scene    {source.describe()}")
    print(f"depth    from {words}", flush=True)

    folder, (width, height) = config.out, source.size
    frames = []
    names = stems(source)
    if not all((folder / "depth" / f"{name}.npy").exists() for name in names):
        disparity(0)  # trains, where depth comes from a run that is not there yet
    for i in track(range(len(source)), "depth"):
        name = names[i]
        sharp, depth = folder / "sharp" / f"{name}.png", folder / "depth" / f"{name}.npy"
        if not sharp.exists():
            write_image(sharp, source.photo(i))
        if not depth.exists():
            with np.errstate(divide="ignore"):  # disparity 0 is infinitely far
                write_map(depth, 1 / disparity(i))
        photo = PictureFile(sharp, width, height)
        frames.append(
            replace(source.frames[i], photo=photo, sharp=photo, depth=DepthFile(depth, width, height), lens=None)
        )
    far, near = disparity_range(frames)
    lenses = [lens_for(config.blur, focus, far, near) for focus in (config.near_focus, config.far_focus)]
    focus = " and ".join(f"{lens.focus_depth:.4g}" for lens in lenses)
    print(f"range    depth {1 / near:.4g} to {_depth(far)}")
    print(f"lens     aperture {lenses[0].aperture:.4g} px × scene units, focused at {focus}")
    print(f"agrees   {agreement(frames, lenses[0].aperture).words()}", flush=True)

    _split.cache_clear()  # it knows files by name, and another run may have written them
    frames = [photographed(frame, lenses, i, config) for i, frame in enumerate(frames)]
    farthest = max(source.far, 1 / far) if far > 0 else source.far
    made = replace(source, frames=tuple(frames), near=min(source.near, 1 / near), far=farthest)
    target = scenes.write_transforms(made, folder, resume=True, track=partial(track, label="blur"))
    print(f"wrote    {folder}")
    return target


def sharp_only(scene: Scene) -> Scene:
    """The scene with its sharp photos; an error where a blurred photo has no sharp one."""
    frames = []
    for i, frame in enumerate(scene.frames):
        blurred = frame.near or frame.far or (frame.lens is not None and frame.lens.aperture > 0)
        if frame.sharp is None and blurred:
            raise ValueError(f"frame {i} ({frame.name}): has no sharp photo to start from")
        frames.append(replace(frame, photo=frame.sharp or frame.photo))
    return replace(scene, frames=tuple(frames))


def disparity_range(frames: list[Frame]) -> tuple[float, float]:
    """(far, near) disparity over all views, in 1 / scene units, without the `TAIL` at either end."""
    ends = []
    for frame in frames:
        assert frame.depth is not None
        values = 1 / frame.depth.load().astype(np.float64).reshape(-1)
        ends.append(values[:: max(len(values) // 20_000, 1)])
    far, near = np.percentile(np.concatenate(ends), [TAIL, 100 - TAIL])
    if not near - far > 1e-6 * near:
        raise ValueError(f"everything lies at depth {_depth(far)}: there is no near and far to focus on")
    return float(far), float(near)


@dataclass(frozen=True)
class Agreement:
    """How far neighbouring views' depth maps differ: blur radii in pixels, of `median` and `most` (90 % are below).

    One lens can have made all photos only if the maps show one scene. Where they differ, the same thing is blurred by
    one radius in one photo and by another in the next.
    """

    median: float
    most: float

    def words(self) -> str:
        found = f"blur of neighbouring photos differs by {self.median:.2f} px (median), {self.most:.2f} px (90 %)"
        return found + ("" if self.most <= CONTRADICTS else ": no lens explains these photos; use --disparity run")


def agreement(frames: list[Frame], aperture: float) -> Agreement:
    """Each view's pixels, put into the nearest other view by their depth, against that view's own depth."""
    places = np.stack([frame.camera.position for frame in frames])
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + np.diag(np.full(len(frames), np.inf))
    differences = []
    for i, j in enumerate(apart.argmin(axis=1)) if len(frames) > 1 else ():
        here, there = frames[i], frames[j]
        assert here.depth is not None and there.depth is not None
        depth, other = here.depth.load(), there.depth.load()
        stride = max(1, int(np.sqrt(depth.size / 5000)))
        row, column = (grid.reshape(-1) for grid in np.mgrid[: depth.shape[0] : stride, : depth.shape[1] : stride])
        camera = [frame.camera.resized(depth.shape[1], depth.shape[0]) for frame in (here, there)]
        seen = depth[row, column]
        far = np.isfinite(seen)
        points = camera[0].unproject(np.stack([column, row], axis=1)[far] + 0.5, seen[far])
        pixels, expected = camera[1].project(points)
        inside = (expected > 0) & camera[1].contains(pixels)
        column, row = pixels[inside].astype(np.int64).T
        found = 1 / other[row, column] - 1 / expected[inside]
        # What is hidden there lies behind what is seen: such pixels say nothing of how far the maps agree.
        hidden = found * aperture > HIDDEN
        differences.append(np.abs(found[~hidden]) * aperture)
    joined = np.concatenate(differences) if differences else np.zeros(0)
    return Agreement(*np.percentile(joined, [50, 90]).tolist()) if len(joined) else Agreement(0.0, 0.0)


def lens_for(blur: float, focus: float, far: float, near: float) -> Lens:
    """The lens in scene units whose radius is blur · |d − focus| for disparity d normalised to [far, near]."""
    focus_disparity = far + focus * (near - far)
    return Lens(blur / (near - far), inverse(focus_disparity))


def photographed(frame: Frame, lenses: list[Lens], i: int, config: BlurConfig) -> Frame:
    """View i with its near- and far-focused photo; the paper's mix trains on near in even views, on far in odd ones."""
    assert frame.sharp is not None and frame.depth is not None
    near, far = (Blurred(frame.sharp, frame.depth, lens, config.layers, config.light) for lens in lenses)
    photo, lens = ((near, lenses[0]), (far, lenses[1]))[i % 2]
    return replace(frame, photo=photo, lens=lens, near=near, far=far, near_lens=lenses[0], far_lens=lenses[1])


def _depth(disparity: float) -> str:
    return f"{1 / disparity:.4g}" if disparity > 0 else "infinity"
