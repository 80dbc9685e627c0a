"""How well each photo determines its lens, exposure and camera: standard errors from the curvature at the end of
training.

Gauss-Newton, with the scene held fixed. The picture of a photo, rendered as shot, changes with aperture and focus
(finite differences), with the gain of the light, and with turn and shift of the camera (`registration`). With slopes J,
residuals r and weights W, the curvature is H = Jᵀ W J, and the covariance of the solution

    H⁻¹ (Σ over blocks of g gᵀ) H⁻¹,    g = Jᵀ W r of a block of pixels

because residuals of neighbouring pixels are alike: those of a block count as one observation (White's estimate, by
clusters). All parameters are in H together, so what looks alike, such as a change of focus and of aperture in a photo
of one plane, is uncertain in both.

Held fixed, a scene seems to be certain; but it was learned from the same photos. So there are a factor for what it
absorbs of each photo's own errors, and a share that all photos of a run have in common, such as apertures that are all
a little too wide. Both were fitted on synthetic scenes and tested on others (`benchmarks/error_bars.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dofnerf.models.base import BLURS
from dofnerf.models.data import TrainingData, shrunk_mask
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import scatter_layers
from dofnerf.optics.shapes import DISC, Blades, RealLens, Shape
from dofnerf.train.learner import Learner
from dofnerf.train.registration import gain_slopes, motion_slopes, weighed

NAMES = ("aperture", "focus_disparity", "exposure", "turn", "shift")
"""Of the columns: pixels × scene units; 1 / scene units; natural logarithm of the gain; radians; scene units."""
_WIDEST, _WIDEST_SLOW = 256, 96  # pixels across of the pictures that are compared; of models that render slowly
_BLOCK, _LEAST_ACROSS = 32, 5  # pixels: side of the blocks that count as one observation; as many side by side
_BLOCKS_EACH = 2  # blocks that tell something, for each parameter: of fewer, their spread says little
_LAYERS = 2  # with 4 it takes nearly twice as long, and standard errors are within 4 % of these in the mean
_STEP = 0.2  # pixels of blur, for finite differences
_MOST = 1e6  # stands for "nothing is known"
_SINGULAR = 1e-6  # eigenvalue of the curvature, of parameters in units of their own: below, a direction is not known
# Fitted by benchmarks/error_bars.py: the factor, and what is common to all photos of a run.
_FACTOR = {"aperture": 5.0, "focus_disparity": 5.0}
_COMMON_APERTURE = 0.016  # of the aperture
_COMMON_FOCUS = 0.052  # pixels of blur
_UNKNOWN = 0.5  # of the aperture, or of the range of disparities: with larger errors, nothing is known


class Slopes(NamedTuple):
    """Of a photo: `off`, the residuals (H, W, 3); `slopes` (H, W, 3, P) of the picture; `weight` (H, W, 3)."""

    off: Tensor
    slopes: Tensor
    weight: Tensor


@torch.no_grad()
def measure(learner: Learner, data: TrainingData, workers: Workers = ALONE) -> Tensor:
    """(M, 5): the standard errors of each photo's `NAMES`, before what is common to all. Each of several processes
    looks at some of the photos."""
    count = len(data.cameras)
    own = [_errors(slopes_of(learner, data, i)) for i in range(count)[workers.part(count)]]
    return workers.join(torch.stack(own) if own else torch.zeros(0, len(NAMES)), count)


@torch.no_grad()
def slopes_of(learner: Learner, data: TrainingData, photo: int) -> Slopes:
    """How the picture of a photo changes with aperture, focus disparity, log gain, three turns and three shifts."""
    tall, wide = data.size
    width = min(wide, _WIDEST if learner.model.is_quick else _WIDEST_SLOW)
    height = max(1, round(tall * width / wide))
    camera = learner.quantities.camera(data.cameras[photo], photo).resized(width, height)
    mask = data.mask(photo)
    counts = None if mask is None else shrunk_mask(mask, width, height)
    sharp, layers = learner.model.layers(camera, _LAYERS)
    light, scale, shape = learner.config.light, width / wide, _rim(learner.lens.shape)
    aperture, focus = (float(value[photo]) for value in (learner.lens.aperture, learner.lens.focus_disparity))

    def picture(wider: float = 0.0, nearer: float = 0.0) -> Tensor:
        radius = scale * (aperture + wider) * (focus + nearer - layers.disparity)
        image = scatter_layers(layers.colour, layers.alpha, radius, shape, light)
        return learner.quantities.develop(image, photo)

    # Central, and both as large in pixels of blur: in a photo of one plane the two slopes are then the same but for a
    # factor, as they should be, and in what is in focus there is none.
    far, near = learner.setting.disparities
    unit = max(scale * aperture, 1e-9)
    closer = min(_STEP / unit, 0.1 * (near - far))
    typical = max(float((focus - sharp.disparity).abs().median()), 1e-3 * (near - far))
    wider = min(closer * aperture / typical, 0.5 * aperture) or closer
    by_aperture = (picture(wider) - picture(-wider)) / (2 * wider)
    by_focus = (picture(0.0, closer) - picture(0.0, -closer)) / (2 * closer)
    image = picture()
    off, weight = weighed(image, data.shrunk(photo, width, height), counts)
    moves, gains = motion_slopes(image, sharp.disparity, camera), gain_slopes(image, light)
    # What is not learned is no unknown: nothing depends on it.
    by_aperture, by_focus = (
        0.0 * slope if frozen else slope
        for slope, frozen in zip((by_aperture, by_focus), learner.lens.frozen, strict=True)
    )
    slopes = [by_aperture[..., None], by_focus[..., None], gains.sum(-1, keepdim=True), moves]
    return Slopes(off, torch.cat(slopes, dim=-1), weight)


def _rim(shape: Shape | None) -> Shape:
    """A shape that is the same for all of the picture: the diaphragm alone of a lens with a character."""
    if not isinstance(shape, RealLens):
        return shape or DISC
    return Blades(shape.blades, rotation=shape.rotation) if shape.blades and shape.roundness < 0.5 else DISC


def covariance(found: Slopes, block: int | None = None) -> np.ndarray:
    """(P, P): of the solution, by blocks of pixels; `block` 0 takes each value as an observation of its own. Infinite
    where the pixels say nothing of a parameter, or not which of several it is, and if few blocks have weight."""
    off, slopes, weight = (part.double().numpy(force=True) for part in found)
    height, width, _, count = slopes.shape
    if block is None:  # where few pixels count, as large as leaves enough of them
        seen = int(weight.any(-1).sum())
        block = max(1, min(_BLOCK, width // _LEAST_ACROSS, math.isqrt(seen // (_BLOCKS_EACH * count))))
    weighted = slopes * weight[..., None]
    curvature = np.einsum("hwcp,hwcq->pq", weighted, slopes)
    size = np.sqrt(np.diag(curvature))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(curvature / np.outer(unit, unit))
    known = values > _SINGULAR
    inverse = (vectors[:, known] / values[known]) @ vectors[:, known].T / np.outer(unit, unit)
    scores = weighted * off[..., None]
    if block:
        scores = scores.sum(2)
        rows, columns = (np.arange(size) // block for size in (height, width))
        number = rows[:, None] * (columns[-1] + 1) + columns
        sums = np.zeros((number.max() + 1, count))
        np.add.at(sums, number, scores)
        observations = len(np.unique(number[weight.any(-1)]))
        if observations < _BLOCKS_EACH * count:
            return np.full((count, count), math.inf)
        sums *= math.sqrt(observations / (observations - count))
    else:
        sums = scores.reshape(-1, count)
    spread: np.ndarray = inverse @ (sums.T @ sums) @ inverse
    nothing = (size == 0) | ((vectors[:, ~known] ** 2).sum(-1) > _SINGULAR)
    spread[nothing], spread[:, nothing] = math.inf, math.inf
    return spread


def standard_errors(learner: Learner, common: bool = True) -> dict[str, list[float | None]]:
    """Of each training photo, by `NAMES` and in their units; None where the photo says nothing, and for what is not
    learned. Empty if none were measured: in a run without a lens, of an earlier version, or before its end. Without
    what is `common` to all photos, they are those of differences between photos."""
    if learner.precision is None:
        return {}
    found = dict(zip(NAMES, _own_errors(learner).unbind(-1), strict=True))
    nothing = {name: (value >= _MOST).tolist() for name, value in found.items()}
    aperture, (far, near) = learner.lens.aperture.detach().double().cpu(), learner.setting.disparities
    for name in NAMES:
        found[name] = found[name] * _FACTOR.get(name, _FACTOR["aperture"])
    if common:
        found["aperture"] = torch.hypot(found["aperture"], _COMMON_APERTURE * aperture)
        found["focus_disparity"] = torch.hypot(found["focus_disparity"], _COMMON_FOCUS / aperture.clamp(min=1e-9))
    most = {"aperture": _UNKNOWN * aperture, "focus_disparity": _UNKNOWN * (near - far) + 0 * aperture}
    return {
        name: [
            None if nothing[name][i] or (name in most and not value <= most[name][i]) else value
            for i, value in enumerate(found[name].tolist())
        ]
        for name in NAMES
    }


def _own_errors(learner: Learner) -> Tensor:
    """(M, 5): what was measured of each photo; `_MOST` for a lens that blurs nothing, and for what is not
    learned. Photos that share an aperture tell it together."""
    assert learner.precision is not None
    raw, (blurs, groups) = learner.precision.detach().cpu().double().clone(), _blurs(learner)
    raw[~blurs, :2] = _MOST
    told = torch.where(raw[:, 0] < _MOST, raw[:, 0].clamp(min=1e-30) ** -2, 0.0)
    told = torch.zeros(len(raw), dtype=told.dtype).index_add_(0, groups, told)[groups]
    raw[:, 0] = torch.where(told > 0, told**-0.5, _MOST)
    for k, frozen in enumerate(learner.lens.frozen):
        raw[:, k] = _MOST if frozen else raw[:, k]
    return raw


def _blurs(learner: Learner) -> tuple[Tensor, Tensor]:
    """(M,) whether each photo's lens blurs anything, and (M,) which aperture it has."""
    return (learner.lens.largest_radius.detach() >= BLURS).cpu(), learner.lens.groups.cpu()


def _given(learner: Learner) -> list[list[bool]]:
    """Of each training photo, whether its aperture was given and not learned; and whether its focus was."""
    told = learner.setting.apertures, learner.setting.focuses
    return [
        [frozen and one is not None for one in values or [None] * len(learner.setting.photos)]
        for frozen, values in zip(learner.lens.frozen, told, strict=True)
    ]


def known_lenses(learner: Learner) -> tuple[list[bool], list[bool]]:
    """Of each training photo, whether the aperture is known, by its blur or that of photos that share it, or given; and
    whether the focus is."""
    errors, (blurs, groups) = standard_errors(learner), _blurs(learner)
    shared = torch.zeros(len(blurs), dtype=torch.int).index_add_(0, groups, blurs.int())[groups]
    told = [[error is not None for error in errors[name]] for name in NAMES[:2]] if errors else None
    told = told or [(shared > 0).tolist(), blurs.tolist()]
    aperture, focus = (
        [known or one for known, one in zip(*both, strict=True)] for both in zip(told, _given(learner), strict=True)
    )
    return aperture, focus


def lens_notes(learner: Learner) -> list[str]:
    """For each training photo, what its blur does not tell, and what was given; empty if it tells all. No list if
    nothing was measured."""
    errors, notes = standard_errors(learner), []
    if not errors:
        return []
    names, words, frozen = NAMES[:2], ("aperture", "focus"), learner.lens.frozen
    given = _given(learner)
    for i, blurs in enumerate(_blurs(learner)[0].tolist()):
        missing = [words[k] for k in range(2) if errors[names[k]][i] is None and not frozen[k]]
        told = f"its blur tells nothing of its {' and '.join(missing)}" if missing else ""
        told = told if blurs or len(missing) < 2 else "sharp all over: tells neither aperture nor focus"
        how = ["given, not measured" if one[i] else "not learned" for one in given]
        fixed = [f"its {words[k]} was {how[k]}" for k in range(2) if frozen[k]]
        notes.append("; ".join(part for part in (told, *fixed) if part))
    return notes


def error_columns(learner: Learner) -> dict[str, list[float | str]]:
    """For the table of photos: standard errors of what was learned, in the units of the table; empty where unknown."""
    errors, learned = standard_errors(learner), learner.quantities.by_name
    if not errors:
        return {}
    columns = {"aperture_se": (errors["aperture"], 1.0), "focus_disparity_se": (errors["focus_disparity"], 1.0)}
    if "exposure" in learned:
        columns["exposure_stops_se"] = errors["exposure"], 1 / math.log(2)
    if "pose" in learned:
        columns |= {"turned_degrees_se": (errors["turn"], 180 / math.pi), "shifted_se": (errors["shift"], 1.0)}
    found: dict[str, list[float | str]] = {
        name: ["" if value is None else unit * value for value in values] for name, (values, unit) in columns.items()
    }
    return {**found, "lens_note": list(lens_notes(learner))}


def _errors(found: Slopes) -> Tensor:
    variance = np.diag(covariance(found))
    known = [*variance[:3], variance[3:6].sum(), variance[6:].sum()]
    return torch.tensor([min(math.sqrt(max(value, 0.0)), _MOST) for value in known])
