"""How wide the photos' lens is and how long a scene unit is: what stops and f-numbers are relative to.

Poses from photos have no scale. Where the scene does not say it, EXIF may: the lens of a photo has the radius
f / (2 N) in millimetres by its EXIF, and aperture / focal length in pixels, in scene units, by training.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from dofnerf.models.base import BLURS
from dofnerf.models.data import Setting
from dofnerf.optics import LearnedLens, Shape

_DEVIATION = 1.4826  # median absolute deviation → standard deviation of a normal distribution


@dataclass(frozen=True)
class Scale:
    """A scene unit in `metres`; `by` names who says so; `spread` is the relative standard deviation over the photos."""

    metres: float
    by: str
    spread: float | None = None

    def describe(self) -> str:
        """In words, such as "1 scene unit = 0.52 m ± 3 % by EXIF"."""
        within = "" if self.spread is None else f" ± {100 * self.spread:.2g} %"
        return f"1 scene unit = {self.metres:.3g} m{within} by {self.by}"


@dataclass(frozen=True)
class PhotoOptics:
    """What is known of the photos' lens: its `radius` in scene units, the median of the photos that it blurs;
    the `scale`; the `sensor_width` in millimetres along the longer side, by EXIF's focal lengths; its `shape`, if a character was learned."""

    radius: float | None = None
    scale: Scale | None = None
    sensor_width: float | None = None
    shape: Shape | None = None


def photo_optics(setting: Setting, lens: LearnedLens | None) -> PhotoOptics:
    """That of a run's photos; `lens` is None for a run without one."""
    focal_mm = setting.focal_mm or (None,) * len(setting.photos)
    sensors = [mm * max(setting.size) / px for mm, px in zip(focal_mm, setting.focal, strict=True) if mm]
    sensor = median(sensors) if sensors else None
    scale = None if setting.metres is None else Scale(setting.metres, "the scene's file")
    if lens is None:
        return PhotoOptics(None, scale, sensor)
    blurs = (lens.largest_radius.detach() >= BLURS).tolist()
    apertures = lens.aperture.detach().tolist()
    radii = {i: apertures[i] / setting.focal[i] for i, known in enumerate(blurs) if known}
    if scale is None:
        pairs = ((focal_mm[i], setting.f_numbers[i], radius) for i, radius in radii.items())
        scale = scale_by_exif([mm / (2 * number) / radius for mm, number, radius in pairs if mm and number])
    return PhotoOptics(median(radii.values()) if radii else None, scale, sensor, lens.shape)


def scale_by_exif(millimetres: list[float]) -> Scale | None:
    """The scale by what each photo says that a scene unit is, in millimetres; None if none says it."""
    if not millimetres:
        return None
    middle = median(millimetres)
    spread = _DEVIATION * median(abs(one / middle - 1) for one in millimetres) if len(millimetres) > 1 else None
    return Scale(middle / 1000, "EXIF", spread)
