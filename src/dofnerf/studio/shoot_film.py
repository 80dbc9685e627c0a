"""One frame of a film: a moment's camera and lens → a picture."""

from __future__ import annotations

import numpy as np
import torch

from dofnerf.optics import shape_of, to_display, to_linear
from dofnerf.studio.keyframes import Moment
from dofnerf.studio.shot import Opening, photograph, picture_with_depth, sharp_picture
from dofnerf.studio.shot_config import LAYERS
from dofnerf.studio.subject import Subject


def photograph_moment(subject: Subject, moment: Moment, layers: int | None = None, samples: int = 0) -> np.ndarray:
    """(H, W, 3), display values, through the moment's lens; of two openings, the mix of their light. Blur is made as in
    `dofnerf render` with these --layers and --lens-samples."""
    view, light = moment.view, subject.light
    if view.lens is None:
        sharp = subject.model.view(view.camera)
        picture_with_depth(sharp)  # refuses what is not made of numbers
        total = to_linear(sharp.image, light).cpu().numpy()
    else:
        flat = sharp_picture(subject.model, view.camera)[1] if subject.flat and not samples else None
        shares = {moment.blades: 1 - moment.mix}
        if moment.mix > 0:
            shares[moment.other] = shares.get(moment.other, 0.0) + moment.mix
        total = np.zeros((view.camera.height, view.camera.width, 3), np.float32)
        for blades, share in shares.items():
            opening = Opening(shape_of(None, blades, moment.rotation), light, layers or LAYERS, samples)
            if share > 0:
                total += share * photograph(subject.model, view.camera, view.lens, opening, flat)
    shown = to_display(torch.from_numpy(total * 2.0**moment.exposure), light)
    return shown.clamp(0, 1).numpy()
