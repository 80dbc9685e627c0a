"""Where the disparity of each photo comes from: files, sparse points, a trained run, a depth network.

All give disparity = 1 / depth along the optical axis, in 1 / scene units. A *relative* map (a network's, or a greyscale
file) knows disparity only up to scale and shift; it is fitted to the sparse points that the photo sees, and where a
scene has none its own range is laid over the scene's depth range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf.files import read_map
from dofnerf.files.pictures import MAP_SUFFIXES
from dofnerf.scenes import Scene
from dofnerf.scenes.source import resize

if TYPE_CHECKING:
    from dofnerf.camera import Camera
    from dofnerf.train import Run

Disparities = Callable[[int], np.ndarray]
FEWEST_POINTS = 16
LAYERS = 48  # of depth, in which a run's surfaces are sought


@dataclass(frozen=True)
class DisparityConfig:
    """How far away everything in the sharp photos is."""

    disparity: Literal["auto", "files", "points", "network", "run"] = "auto"
    """files: the scene's depth maps, or those of --maps. run: a run trained on the sharp photos (--run, else one is
    trained first), so that all photos agree. points: spread from the sparse points that each photo sees, along the
    photo's edges. network: a monocular depth network through transformers. auto: files, else run."""
    maps: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """A folder of maps named as the photos are, with suffix .npy, .exr, .png or .tif, instead of the scene's own."""
    map_kind: Literal["depth", "disparity", "relative"] = "depth"
    """What --maps hold: depth in scene units along the optical axis, disparity in 1 / scene units, or relative
    disparity of any scale and shift, larger is nearer (a greyscale PNG)."""
    run: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(optional)")] = None
    """The folder of a run trained on this scene's sharp photos; without it, one is trained and kept in the new scene's
    folder (depth-run)."""
    depth_steps: float = 0.5
    """Steps of that training, as a share of those of the preset pinhole."""
    model: str = "Intel/dpt-large"
    """The network: a name on the Hugging Face hub (the default is the paper's DPT), or a folder with its files."""


def disparities(scene: Scene, config: DisparityConfig, keep: Path) -> tuple[Disparities, str]:
    """A function from a view to its disparity map (H, W) float32, and where it comes from in words. A run that has to
    be trained for it is kept in the folder `keep`."""
    kind = config.disparity
    has_files = config.maps is not None or all(frame.depth is not None for frame in scene.frames)
    has_points = all(len(scene.visible(i).depth) >= FEWEST_POINTS for i in range(len(scene)))
    if config.maps is not None and kind not in ("auto", "files"):
        raise ValueError(f"--maps and --disparity {kind} contradict each other: give one of them")
    if config.run is not None and kind not in ("auto", "run"):
        raise ValueError(f"--run and --disparity {kind} contradict each other: give one of them")
    if kind == "auto":
        kind = "run" if config.run is not None or not has_files else "files"
    if kind == "run":
        if config.run is None:
            return _from_training(scene, config.depth_steps, keep), f"a run trained on the sharp photos, kept in {keep}"
        return _from_run(config.run, scene), f"the run {config.run}"
    if kind == "files":
        if config.maps is not None:
            return _from_folder(scene, config.maps, config.map_kind), f"{config.map_kind} maps in {config.maps}"
        if not has_files:
            i = next(i for i, frame in enumerate(scene.frames) if frame.depth is None)
            raise ValueError(f"{_frame(scene, i)}: has no depth map; give --maps FOLDER or another --disparity")
        return lambda i: _inverse(scene.depth(i), f"{_frame(scene, i)}: depth"), "the scene's depth maps"
    if kind == "points":
        if not has_points:
            counts = [len(scene.visible(i).depth) for i in range(len(scene))]
            i = int(np.argmin(counts))
            few = f"sees {counts[i]} sparse points, fewer than {FEWEST_POINTS}"
            raise ValueError(f"{_frame(scene, i)}: {few}; use another --disparity")
        return lambda i: _from_points(scene, i), "sparse points"
    from dofnerf.studio.monocular import MonocularNetwork

    network = MonocularNetwork(config.model)
    return lambda i: metric(network.disparity(scene.photo(i)), scene, i), f"the network {config.model}"


def _from_run(path: Path, scene: Scene) -> Disparities:
    """What a run that was trained on this scene, at any size, sees from its cameras."""
    from dofnerf.train import Run

    run = Run.load(path)
    return lambda i: surface_disparity(run, scene.camera(i))


def surface_disparity(run: Run, camera: Camera) -> np.ndarray:
    """(H, W): the disparity at which half of a pixel's light is absorbed.

    The mean over what a pixel shows, which renders have, lies between a thin thing and what is behind it: photos
    blurred by it are those of a narrower lens.
    """
    import torch

    layers = run.model.layers(camera, LAYERS)[1]  # the farthest first, and opaque
    alpha, disparity = layers.alpha.flip(0), layers.disparity.flip(0)
    absorbed = 1 - torch.cumprod(1 - alpha, dim=0) >= 0.5
    first = absorbed.to(torch.uint8).argmax(dim=0, keepdim=True)
    return disparity.gather(0, first)[0].cpu().numpy()


def _from_training(scene: Scene, steps: float, keep: Path) -> Disparities:
    """The same, of a run that is trained when the first map is asked for, or resumed."""
    from dofnerf.train import preset, shortened, train
    from dofnerf.train.config import check_share

    check_share(steps, "--depth-steps")

    @lru_cache(maxsize=1)
    def trained() -> Disparities:
        train(scene, shortened(preset("pinhole"), steps), out=keep, resume=True, quiet=False)
        return _from_run(keep, scene)

    def disparity(i: int) -> np.ndarray:
        return trained()(i)

    return disparity


def metric(relative: np.ndarray, scene: Scene, i: int) -> np.ndarray:
    """Relative disparity (H, W) → 1 / scene units, by the points that photo i sees, else by its depth range."""
    low, high = float(relative.min()), float(relative.max())
    if not (np.isfinite(high - low) and high > low):
        raise ValueError(f"{_frame(scene, i)}: the disparity map is {low:g} everywhere")
    relative = (relative.astype(np.float64) - low) / (high - low)
    seen = scene.visible(i)
    if len(seen.depth) < FEWEST_POINTS:
        near, far = scene.frames[i].bounds or (scene.near, scene.far)
        return (1 / far + relative * (1 / near - 1 / far)).astype(np.float32)
    column, row = seen.pixels.astype(np.int64).T
    slope, shift = _fit(relative[row, column], 1 / seen.depth)
    if not slope > 0:
        words = "the disparity map runs against the sparse points; is it depth, or of another photo?"
        raise ValueError(f"{_frame(scene, i)}: {words}")
    # What the fit puts beyond infinity lies far beyond the farthest point.
    return np.maximum(slope * relative + shift, 0.5 / seen.depth.max()).astype(np.float32)


def _fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and shift of y ≈ slope·x + shift, by least squares, reweighted so that outliers hardly count."""
    terms = np.stack([x, np.ones_like(x)], axis=1)
    weight = np.ones_like(x)
    solution = np.zeros(2)
    for _ in range(20):
        root = np.sqrt(weight)
        solution = np.linalg.lstsq(terms * root[:, None], y * root, rcond=None)[0]
        residual = np.abs(terms @ solution - y)
        weight = 1 / (1 + (residual / max(2 * float(np.median(residual)), 1e-12)) ** 2)
    return float(solution[0]), float(solution[1])


def _from_points(scene: Scene, i: int) -> np.ndarray:
    from dofnerf.lab.synth.interpolate import interpolate

    seen = scene.visible(i)
    return interpolate(scene.photo(i), seen.pixels, 1 / seen.depth, seen.error)


def _from_folder(scene: Scene, folder: Path, kind: str) -> Disparities:
    """Maps of a folder, found by the photos' names; all must be there before the work starts."""
    if not folder.is_dir():
        raise ValueError(f"--maps {folder}: there is no such folder")
    files = []
    for i, frame in enumerate(scene.frames):
        names = [f"{Path(frame.name).stem}{suffix}" for suffix in (".npy", ".exr", *MAP_SUFFIXES)]
        found = next((folder / name for name in names if (folder / name).is_file()), None)
        if found is None:
            raise ValueError(f"--maps {folder}: no map for {_frame(scene, i)}; expected {names[0]} or another suffix")
        files.append(found)
    width, height = scene.size

    def disparity(i: int) -> np.ndarray:
        values, full = read_map(files[i])
        if abs(values.shape[0] * width / values.shape[1] - height) > 1 or values.shape[1] < width:
            raise ValueError(
                f"{files[i]}: {values.shape[1]}×{values.shape[0]} pixels do not fit the photos' {width}×{height}; "
                "a map has the size of its photo, or is larger of the same shape"
            )
        values = resize(values, width, height)
        if kind == "relative":
            return metric(values, scene, i)
        if full > 1:
            raise ValueError(
                f"{files[i]}: whole numbers have no unit; save the map as .npy or .exr, or use --map-kind relative"
            )
        if kind == "depth":
            return _inverse(values, f"{files[i]}: depth")
        bad = ~((values >= 0) & np.isfinite(values))
        _refuse(bad, values, f"{files[i]}: disparity must be finite and not negative")
        return values

    return disparity


def _inverse(depth: np.ndarray | None, what: str) -> np.ndarray:
    assert depth is not None
    _refuse(~(depth > 0), depth, f"{what} must be positive")
    return (1 / depth.astype(np.float64)).astype(np.float32)


def _frame(scene: Scene, i: int) -> str:
    return f"frame {i} ({scene.frames[i].name})"


def _refuse(bad: np.ndarray, values: np.ndarray, what: str) -> None:
    if bad.any():
        row, column = np.argwhere(bad)[0]
        where = f"column {column}, row {row} ({int(bad.sum())} such pixels)"
        raise ValueError(f"{what}, found {values[row, column]:g} at {where}")
