"""What each photo's lens did, as a measurement: with standard errors, and in millimetres, metres and f-numbers where
the length of a scene unit is known, beside what EXIF says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from dofnerf.camera import FULL_FRAME
from dofnerf.models.base import BLURS
from dofnerf.optics.lens import f_number_from_aperture
from dofnerf.train.precision import lens_notes, standard_errors
from dofnerf.train.run import Run
from dofnerf.train.scale import Scale

_CONFUSION = 1 / 1500  # of the picture's diagonal: the usual circle of confusion


@dataclass(frozen=True)
class MeasuredLens:
    """The lens of one training photo. Values that end in `_se` are standard errors; None is unknown.

    In scene units: `aperture` (pixels × scene units), `diameter` of the lens, `focus_depth`, and the `hyperfocal`
    distance, focused at which infinity is blurred to a disc of 1/1500 of the picture's diagonal. `stops`: how much
    wider (above 0) than the median lens. `focus_disparity_se` is that of 1 / focus_depth: errors of focus are even in
    disparity, not in depth.

    Where the scale is known: `diameter_mm`, `focus_m`, `hyperfocal_m`, `f_number`. `focal_length_mm` is EXIF's, or
    follows from the field of view and the width of the sensor. `f_number_exif`, and `stops_from_exif`: how much wider
    the lens is than EXIF says.
    """

    photo: str
    aperture: float
    aperture_se: float | None
    focus_depth: float
    focus_disparity_se: float | None
    diameter: float
    hyperfocal: float
    stops: float | None
    stops_se: float | None
    focal_length_mm: float | None = None
    diameter_mm: float | None = None
    f_number: float | None = None
    focus_m: float | None = None
    hyperfocal_m: float | None = None
    f_number_exif: float | None = None
    stops_from_exif: float | None = None
    note: str = ""

    def focus_range(self, errors: float = 1.0) -> tuple[float, float] | None:
        """From the nearest to the farthest focus depth within so many standard errors; None if it is unknown."""
        if self.focus_disparity_se is None:
            return None
        middle, off = 1 / self.focus_depth, errors * self.focus_disparity_se
        return 1 / (middle + off), 1 / (middle - off) if middle > off else math.inf


def measured(run: Run, scale: Scale | None = None, sensor_width: float | None = None) -> list[MeasuredLens]:
    """Of each training photo of a run that has lenses. `scale` and `sensor_width` (millimetres) replace what the run
    knows."""
    known, setting = run.optics, run.setting
    scale = scale or known.scale
    sensor = sensor_width or known.sensor_width or FULL_FRAME
    errors = standard_errors(run.learner)
    notes, unknown = lens_notes(run.learner), [None] * len(setting.photos)
    blurs = (run.lens.largest_radius.detach() >= BLURS).tolist()
    diagonal, found = math.hypot(*setting.size), []
    for i, (name, lens) in enumerate(zip(setting.photos, run.lenses, strict=True)):
        se = errors.get("aperture", unknown)[i]
        radius = lens.aperture / setting.focal[i]
        told = (setting.focal_mm or unknown)[i] if sensor_width is None else None
        focal = told or setting.focal[i] / max(setting.size) * sensor
        hyperfocal = 2 * lens.aperture / (_CONFUSION * diagonal)
        real: dict[str, float | None] = {}
        if scale is not None:
            number = f_number_from_aperture(lens.aperture, focal, setting.focal[i], 1000 * scale.metres)
            real = {
                "focal_length_mm": focal,
                "diameter_mm": 2000 * scale.metres * radius,
                "f_number": number if blurs[i] else None,
                "focus_m": scale.metres * lens.focus_depth,
                "hyperfocal_m": scale.metres * hyperfocal,
            }
        exif = setting.f_numbers[i]
        if exif and real.get("f_number"):
            real["stops_from_exif"] = 2 * math.log2(exif / real["f_number"])  # type: ignore[operator]
        wider = 2 * math.log2(radius / known.radius) if known.radius and blurs[i] and radius > 0 else None
        found.append(
            MeasuredLens(
                name,
                lens.aperture,
                se,
                lens.focus_depth,
                errors.get("focus_disparity", unknown)[i],
                2 * radius,
                hyperfocal,
                wider,
                None if se is None or wider is None else 2 / math.log(2) * se / lens.aperture,
                **real,
                f_number_exif=exif,
                note=notes[i] if notes else "",
            )
        )
    return found


def medians(lenses: list[MeasuredLens], name: str) -> float | None:
    """The median of a value over the photos that have it."""
    values = [value for one in lenses if (value := getattr(one, name)) is not None]
    return median(values) if values else None
