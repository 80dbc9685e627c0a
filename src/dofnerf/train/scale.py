"""How wide the photos' lens is and how long a scene unit is: what stops and f-numbers are relative to.

Poses from photos have no scale. Where the scene does not say it, EXIF may: the lens of a photo has the radius
f / (2 N) in millimetres by its EXIF, and aperture / focal length in pixels, in scene units, by training.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from dofnerf.camera import FULL_FRAME
from dofnerf.models.base import BLURS
from dofnerf.models.data import Setting
from dofnerf.optics import LearnedLens, Shape

BY_EXIF = "EXIF"
_DEVIATION = 1.4826  # median absolute deviation → standard deviation of a normal distribution


@dataclass(frozen=True)
class Scale:
    """A scene unit in `metres`; `by` names who says so; `spread` is the relative standard deviation over the photos, of
    one of them: their median is surer."""

    metres: float
    by: str
    spread: float | None = None

    def describe(self) -> str:
        """In words, such as "1 scene unit = 0.52 m by EXIF, photos differ by 3 %"."""
        spread = "" if self.spread is None else f", photos differ by {100 * self.spread:.2g} %"
        return f"1 scene unit = {self.metres:.3g} m by {self.by}{spread}"


@dataclass(frozen=True)
class PhotoOptics:
    """What is known of the photos' lens: its `radius` in scene units, the median of the photos whose lens is known;
    the `scale`; the `sensor_width` in millimetres, along the longer side, by EXIF's focal lengths; its `shape`, if a
    character was learned, and how much of that is open: `filled`, see `Shape`."""

    radius: float | None = None
    scale: Scale | None = None
    sensor_width: float | None = None
    shape: Shape | None = None
    filled: float = 1.0
    focal_mm: tuple[float, ...] = ()
    """Of each photo: EXIF's focal length, or that of its field of view on the sensor."""


def photo_optics(
    setting: Setting, lens: LearnedLens | None, known: list[bool] | None = None, sensor_width: float | None = None
) -> PhotoOptics:
    """That of a run's photos; `lens` is None for a run without one. `known` says of which photos the aperture is known:
    if it is of none, those that are blurred count, but tell no scale; nor does an aperture that was given.
    `sensor_width` stands instead of EXIF's focal lengths."""
    told, across = setting.focal_mm or (None,) * len(setting.photos), max(setting.size)
    if sensor_width is not None:
        told = (None,) * len(told)
    sensors = [mm * across / px for mm, px in zip(told, setting.focal, strict=True) if mm]
    sensor = sensor_width or (median(sensors) if sensors else None)
    focal = tuple(mm or px / across * (sensor or FULL_FRAME) for mm, px in zip(told, setting.focal, strict=True))
    scale = None if setting.metres is None else Scale(setting.metres, "the scene's file")
    if lens is None:
        return PhotoOptics(None, scale, sensor, focal_mm=focal)
    counted = known if known and any(known) else (lens.largest_radius.detach() >= BLURS).tolist()
    filled = 1.0 if lens.shape is None else lens.shape.filled
    apertures = lens.aperture.detach().tolist()
    radii = {i: apertures[i] / setting.focal[i] for i, one in enumerate(counted) if one}
    if scale is None:
        is_told = not lens.frozen[0] and (known is None or any(known))
        numbers = {i: setting.f_numbers[i] for i in radii} if sensor and is_told else {}
        scale = scale_by_exif([focal[i] / (2 * n) / (filled * radii[i]) for i, n in numbers.items() if n])
    return PhotoOptics(median(radii.values()) if radii else None, scale, sensor, lens.shape, filled, focal)


def scale_by_exif(millimetres: list[float]) -> Scale | None:
    """The scale by what each photo says that a scene unit is, in millimetres; None if none says it."""
    if not millimetres:
        return None
    middle = median(millimetres)
    spread = _DEVIATION * median(abs(one / middle - 1) for one in millimetres) if len(millimetres) > 1 else None
    return Scale(middle / 1000, BY_EXIF, spread)
