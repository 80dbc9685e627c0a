"""Doing a cell: train and score, and, for some, measure further."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dofnerf.evaluate.charts import PhotoLenses, photo_lenses
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.scores import NO_WEIGHTS, score, sharp_view
from dofnerf.files import write_image
from dofnerf.lab.bench.cell import RUN, Cell, Findings, read_findings, write_findings
from dofnerf.lab.bench.step_cost import rendering_cost, training_cost
from dofnerf.models.volume import VolumeModel
from dofnerf.models.volume.rays import pixel_rays, random_pixels, stack_cameras
from dofnerf.models.volume.weights import ray_weights, thickness_of
from dofnerf.optics.lens import Lens
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, Run, train
from dofnerf.train.measured import MeasuredLens

LOG_STEPS = 20  # so that the bar moves
VIEW = "view.png"
RAYS, BINS = 1024, 20  # of the paper's Fig. 3
NEAR = 0.05  # of the scene's range of disparities


def do_cell(cell: Cell, out: Path, lpips: LpipsConfig, threads: int | None = None) -> Findings:
    """Do it, unless it was done; what it found is kept in its folder. `threads` for torch and our kernels, None: as it
    is."""
    before = read_findings(cell, out)
    if before is not None and (not lacks_lpips(before) or isinstance(lpips.find(), str)):
        return before
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        torch.set_num_threads(threads)
    scene = cell.scene.load()
    if cell.kind == "cost":
        found: Findings = {
            "training": training_cost(scene, cell.config),
            "rendering": rendering_cost(scene, cell.config),
        }
    else:
        run = train(scene, cell.config, out=cell.folder(out) / RUN, resume=True, keep=KeepConfig(2.0, 0, LOG_STEPS))
        found = scored(run, scene, lpips, cell.folder(out))
        if cell.kind == "volume":
            found["volume"] = weights_along_rays(run, scene)
    write_findings(cell, out, found)
    return found


def lacks_lpips(found: Findings) -> bool:
    """Whether it was scored without weights of LPIPS: once there are some, it is scored again."""
    return bool(found.get("mean", {}).get("lpips") == NO_WEIGHTS)


def scored(run: Run, scene: Scene, lpips: LpipsConfig, folder: Path) -> Findings:
    """A run's figures and lenses; its middle held-out view becomes a picture in the folder."""
    found: dict[str, Any] = score(run, scene, lpips.find()).plain()
    found |= {"seconds": run.learner.progress.seconds, "scene": scene.name, "size": list(scene.size)}
    found["view"] = scene.test[len(scene.test) // 2]
    write_image(folder / VIEW, sharp_view(run, scene, found["view"]))
    found["lenses"] = _plain(photo_lenses(run, scene))
    return found


@torch.no_grad()
def weights_along_rays(run: Run, scene: Scene) -> Findings:
    """K_volume of samples on 1024 random rays of the held-out views: how many samples have which weight, and how much
    of all light each bin of weights carries; and the weights along three rays, by depth."""
    if not isinstance(run.model, VolumeModel):
        raise ValueError(
            f"the field {run.config.field} has no samples along rays; the experiment volume is for hash, nerf and "
            f"dsnerf"
        )
    cameras = [scene.camera(i) for i in scene.test]
    generator = torch.Generator().manual_seed(0)
    size = cameras[0].height, cameras[0].width
    pixels = random_pixels(torch.arange(len(cameras)), size, RAYS, generator)
    rays = pixel_rays(stack_cameras(cameras), pixels.photo, pixels.centres)
    shaded = run.model.shade(rays, only_last=True)[-1]
    weights = ray_weights(thickness_of(shaded.density, shaded.distance)).numpy().astype(np.float64)
    edges = np.linspace(0, 1, BINS + 1)
    counts = np.histogram(weights, edges)[0]
    light = np.histogram(weights, edges, weights=weights)[0]
    largest = weights.max(-1)
    depth = shaded.depth.numpy().astype(np.float64)
    return {
        "edges": edges.tolist(),
        "samples": (counts / counts.sum()).tolist(),
        "light": (light / light.sum()).tolist(),
        "largest_median": float(np.median(largest)),
        "near_largest": float(_near_largest(weights).mean()),
        "near_depth": float(_near_depth(weights, 1 / depth, 1 / scene.near - 1 / scene.far).mean()),
        "rays": [{"depth": depth[k].tolist(), "weight": weights[k].tolist()} for k in range(3)],
    }


def _near_largest(weights: np.ndarray) -> np.ndarray:
    """(R,): the share of each ray's light that comes from its heaviest sample and the two beside it."""
    padded = np.pad(weights, ((0, 0), (1, 1)))
    together = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.take_along_axis(together, weights.argmax(-1)[:, None], 1)[:, 0]


def _near_depth(weights: np.ndarray, disparity: np.ndarray, span: float) -> np.ndarray:
    """(R,): the share of each ray's light whose disparity is near the ray's one (its mean), as blur takes it to be."""
    mean = (weights * disparity).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
    return np.where(np.abs(disparity - mean) <= NEAR * span, weights, 0).sum(-1)


def _plain(value: Any) -> Any:
    """As JSON has it, which knows no infinity: None stands for that."""
    if isinstance(value, Lens):
        return {"aperture": _plain(value.aperture), "focus_depth": _plain(value.focus_depth)}
    if isinstance(value, (PhotoLenses, MeasuredLens)):
        return {name: _plain(one) for name, one in vars(value).items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
