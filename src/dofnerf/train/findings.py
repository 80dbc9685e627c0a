"""What a scene has that training takes into account, in one line each: brackets, masks, and where the depth range comes
from; and whether that range is what the points, or in the end the trained scene, show."""

from __future__ import annotations

import math

import numpy as np
import torch

from dofnerf.models import Model
from dofnerf.scenes import Scene
from dofnerf.scenes.overview import describe_brackets, describe_masks

_FEWEST = 50  # points or pixels
_TAIL = 0.01  # share of the disparities at either end that do not count
_OUTSIDE, _WIDER = 0.1, 4.0  # of the range of disparities: how far outside, or how many times as wide, is worth a word
_VIEWS, _ACROSS = 8, 64  # of the trained scene that are looked at, and their pixels


def findings(scene: Scene) -> list[str]:
    """What is known before training."""
    sources = {"file": "by the scene's files", "points": "by its sparse points", "cameras": ""}
    where = sources[scene.range_from]
    found = [describe_brackets(scene), describe_masks(scene)]
    found.append(where and f"depth range {scene.near:.4g} to {scene.far:.4g} {where}")
    if scene.points is not None and where:
        seen = [scene.visible(i).depth for i in scene.train]
        found.append(compare_range(scene, 1 / np.concatenate(seen), "its sparse points lie"))
    return [words for words in found if words]


@torch.no_grad()
def look_at_range(scene: Scene, model: Model) -> str:
    """Whether the trained scene lies outside of the depth range that it was given; empty if not."""
    views = []
    for i in scene.train[:: max(1, len(scene.train) // _VIEWS)]:
        camera = scene.camera(i)
        shown = model.view(camera.resized(min(camera.width, _ACROSS)))
        views.append(shown.disparity[shown.alpha > 0.5].cpu().numpy())
    return compare_range(scene, np.concatenate(views), "what was trained lies", too_wide=False)


def compare_range(scene: Scene, disparities: np.ndarray, what: str, too_wide: bool = True) -> str:
    """A sentence if the disparities (N,) say that the scene's near or far is wrong; empty if not."""
    if len(disparities) < _FEWEST:
        return ""
    low, high = (float(end) for end in np.quantile(disparities, [_TAIL, 1 - _TAIL]))
    far, near = 1 / scene.far, 1 / scene.near
    span = near - far
    given = f"the depth range {scene.near:.4g} to {scene.far:.4g} may be wrong"
    true = f"{what} at {1 / high:.3g} to {1 / low if low > 0 else math.inf:.3g}"
    if high > near + _OUTSIDE * span or low < far - _OUTSIDE * span:
        return f"{given}: {true}; correct near and far, or leave them away to have them measured"
    if too_wide and span > _WIDER * (high - low):
        return f"{given}, since it is much wider than needed: {true}"
    return ""
