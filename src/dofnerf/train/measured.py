"""What each photo's lens did, as a measurement: with standard errors, and in millimetres, metres and f-numbers where
the length of a scene unit is known, beside what EXIF says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from dofnerf.models.data import Setting
from dofnerf.optics.lens import f_number_from_aperture, inverse
from dofnerf.train.precision import known_lenses, lens_notes, standard_errors
from dofnerf.train.run import Run
from dofnerf.train.scale import BY_EXIF, PhotoOptics, Scale

_CONFUSION = 1 / 1500  # of the picture's diagonal: the usual circle of confusion


@dataclass(frozen=True)
class MeasuredLens:
    """The lens of one training photo, the scene's number `view`. Values that end in `_se` are standard errors; None is
    unknown.

    `aperture` (pixels × scene units) and `focus_depth` are what training ended with, even of a photo whose blur tells
    nothing of them: then `aperture_known` or `focus_known` is false, and all that follows from them is None. If they
    were not learned but given, they are known, without a standard error, and the `note` says so.

    In scene units: `diameter` of the lens, that of a disc as large as its opening, and the `hyperfocal` distance,
    focused at which infinity is blurred to a spot as large as a disc of 1/1500 of the picture's diagonal. `stops`: how
    much wider (above 0) than the median lens; its error is without what all photos have in common. `focus_disparity_se`
    is that of 1 / focus_depth: errors of focus are even in disparity, not in depth.

    Where the scale is known: `diameter_mm`, `focus_m`, `hyperfocal_m`, `f_number`. `focal_length_mm` is EXIF's, or
    follows from the field of view and the size of the sensor. `f_number_exif`, and `stops_from_exif`: how much wider
    the lens is than EXIF says.
    """

    photo: str
    aperture: float
    aperture_se: float | None
    aperture_known: bool
    focus_depth: float
    focus_disparity_se: float | None
    focus_known: bool
    view: int | None = None
    diameter: float | None = None
    hyperfocal: float | None = None
    stops: float | None = None
    stops_se: float | None = None
    focal_length_mm: float | None = None
    diameter_mm: float | None = None
    f_number: float | None = None
    focus_m: float | None = None
    hyperfocal_m: float | None = None
    f_number_exif: float | None = None
    stops_from_exif: float | None = None
    stops_from_exif_se: float | None = None
    note: str = ""

    def focus_range(self, errors: float = 1.0) -> tuple[float, float] | None:
        """From the nearest to the farthest focus depth within so many standard errors; None if it is unknown."""
        if self.focus_disparity_se is None:
            return None
        middle, off = 1 / self.focus_depth, errors * self.focus_disparity_se
        return inverse(middle + off), 1 / (middle - off) if middle > off else math.inf


def measured(run: Run, scale: Scale | None = None, sensor_width: float | None = None) -> list[MeasuredLens]:
    """Of each training photo of a run that has lenses. `scale` and `sensor_width` (millimetres, along the longer side)
    replace what the run knows."""
    setting, (apertures, focuses), known = run.refined, known_lenses(run.learner), run.optics_by(sensor_width)
    scale = scale or known.scale
    unknown: list[Any] = [None] * len(setting.photos)
    errors, notes = standard_errors(run.learner), lens_notes(run.learner) or [""] * len(setting.photos)
    se, apart = (one.get("aperture", unknown) for one in (errors, standard_errors(run.learner, common=False)))
    # A scale by EXIF's f-numbers takes away what all photos have in common.
    against_exif = apart if scale is not None and scale.by == BY_EXIF else se
    views, found = {view.name: i for i, view in enumerate(run.views)}, []
    for i, (name, lens) in enumerate(zip(setting.photos, run.lenses, strict=True)):
        disparity_se = errors.get("focus_disparity", unknown)[i]
        one = MeasuredLens(
            name, lens.aperture, se[i], apertures[i], lens.focus_depth, disparity_se, focuses[i],
            views.get(name), focal_length_mm=None if scale is None else known.focal_mm[i],
            f_number_exif=setting.f_numbers[i], note=notes[i],
        )  # fmt: skip
        if apertures[i]:
            sizes = _size(known, scale, setting, i, lens.aperture)
            sizes |= {"stops_from_exif": None} if run.lens.frozen[0] else {}
            one = replace(one, **sizes, stops_se=_stops(apart[i], lens.aperture))
        if one.stops_from_exif is not None:
            one = replace(one, stops_from_exif_se=_stops(against_exif[i], lens.aperture))
        if scale is not None and focuses[i]:
            one = replace(one, focus_m=scale.metres * lens.focus_depth)
        found.append(one)
    return found


def _stops(error: float | None, aperture: float) -> float | None:
    """A standard error of an aperture, in stops."""
    return None if error is None else 2 / math.log(2) * error / aperture


def _size(known: PhotoOptics, scale: Scale | None, setting: Setting, i: int, aperture: float) -> dict[str, Any]:
    """What follows from the aperture of photo i."""
    radius = aperture / setting.focal[i]
    hyperfocal = 2 * aperture * known.filled / (_CONFUSION * math.hypot(*setting.size))
    found: dict[str, Any] = {
        "diameter": 2 * radius * known.filled,
        "hyperfocal": hyperfocal,
        "stops": 2 * math.log2(radius / known.radius) if known.radius else None,
    }
    if scale is None:
        return found
    focal, exif = known.focal_mm[i], setting.f_numbers[i]
    number = f_number_from_aperture(aperture * known.filled, focal, setting.focal[i], 1000 * scale.metres)
    found |= {"diameter_mm": 1000 * scale.metres * found["diameter"], "f_number": number}
    found["hyperfocal_m"] = scale.metres * hyperfocal
    return found | ({"stops_from_exif": 2 * math.log2(exif / number)} if exif else {})


def medians(lenses: Sequence[MeasuredLens], name: str) -> float | None:
    """The median of a value over the photos that have it."""
    values = [value for one in lenses if (value := getattr(one, name)) is not None]
    return median(values) if values else None


def notes(lenses: Sequence[MeasuredLens]) -> list[str]:
    """What photos do not tell, a line for each kind of photo."""
    names: dict[str, list[str]] = {}
    for one in lenses:
        names.setdefault(one.note, []).append(one.photo)
    return [f"{', '.join(photos)}: {note}" for note, photos in names.items() if note]
