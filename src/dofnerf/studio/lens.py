"""`dofnerf lens RUN`: what each photo's lens did, with standard errors, in real units where the scale is known."""

from __future__ import annotations

import csv
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dofnerf.camera import FULL_FRAME
from dofnerf.files import atomic, write_image
from dofnerf.files.outputs import check_file
from dofnerf.studio.flags import OPTIONAL, check_positive, default

if TYPE_CHECKING:
    from dofnerf.train.measured import MeasuredLens
    from dofnerf.train.run import Run


@dataclass(frozen=True)
class LensConfig:
    """Say what the lens of every photo did: how wide it was open and where it was focused, each with its standard
    error; in millimetres, metres and f-numbers where the length of a scene unit is known, beside what EXIF says.

    Without a scale, apertures are in stops from the median lens and distances in scene units.

    For example:
      dofnerf lens runs/mine
      dofnerf lens runs/mine --unit 0.52 --csv lenses.csv --plot lenses.png
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    csv: Annotated[Path | None, OPTIONAL] = None
    """Write the table to this file, a .csv, with all digits and columns."""
    plot: Annotated[Path | None, OPTIONAL] = None
    """Draw it into this file, a .png or .jpg."""
    unit: Annotated[float | None, default("what the scene or EXIF says")] = None
    """Metres in a scene unit: measure something that the photos show."""
    sensor_width: Annotated[float | None, default("the photos', by EXIF; 36, full frame")] = None
    """Width of the sensor in millimetres, along the longer side of the picture; gives the focal length."""


def run(config: LensConfig) -> list[MeasuredLens]:
    """Print the table, write what was asked for; returns the rows."""
    from rich.console import Console

    from dofnerf.evaluate.trained import open_run
    from dofnerf.train.measured import measured
    from dofnerf.train.scale import Scale

    check_positive(config, "unit", "sensor_width")
    for flag, path, suffixes in (("--csv", config.csv, (".csv",)), ("--plot", config.plot, (".png", ".jpg"))):
        if path is not None:
            check_file(flag, path, suffixes)
    trained = open_run(config.path)
    if not trained.has_lens:
        raise ValueError(f"{config.path}: this run was trained without a lens model, so it has found no lens")
    scale = None if config.unit is None else Scale(config.unit, "--unit")
    rows = measured(trained, scale, config.sensor_width)
    console = Console(markup=False, emoji=False)  # names of photos are words
    console.width = max(console.width, 150) if not console.is_terminal else console.width
    console.print(terminal_table(rows))
    for line in summary(trained, rows, scale or trained.optics.scale, config.sensor_width):
        print(line)
    if config.csv is not None:
        write_table(config.csv, rows)
        print(f"wrote    {config.csv}")
    if config.plot is not None:
        from dofnerf.evaluate.charts import measured_plot, pixels_of

        figure = measured_plot(rows, f"{trained.setting.scene}: the lens of each photo, ± 1 standard error")
        write_image(config.plot, pixels_of(figure))
        print(f"wrote    {config.plot}")
    return rows


def terminal_table(rows: list[MeasuredLens]) -> Any:
    """A rich.table.Table."""
    from rich.table import Table

    lines = [line_of(one) for one in rows]
    used = [name for name in lines[0] if any(line[name] for line in lines)]
    table = Table(*used, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "left" if column.header == "note" else "right"
    for line in lines:
        table.add_row(*(line[name] for name in used))
    return table


def line_of(one: MeasuredLens) -> dict[str, str]:
    """A photo's lens as it is printed, by column; what is not known is empty."""
    real, ends = one.f_number is not None or one.focus_m is not None, one.focus_range()
    line = {"photo": one.photo}
    share = "" if not one.aperture_se else f" ± {100 * one.aperture_se / one.aperture:.1f} %"
    if real:
        line["f-number"] = "" if one.f_number is None else f"f/{one.f_number:.3g}{share}"
        line["EXIF"] = "" if one.f_number_exif is None else f"f/{one.f_number_exif:g}"
        line["stops wider than EXIF"] = "" if one.stops_from_exif is None else f"{one.stops_from_exif:+.2f}"
        line["diameter, mm"] = "" if one.f_number is None else f"{one.diameter_mm:.3g}"
        line["focal length, mm"] = "" if one.focal_length_mm is None else f"{one.focal_length_mm:.3g}"
    else:
        line["aperture"] = "" if one.stops is None else f"{one.aperture:.4g}{share}"
    line["stops"] = "" if one.stops is None else f"{one.stops:+.2f}" + _plus_minus(one.stops_se, "{:.2f}")
    unit = one.focus_m / one.focus_depth if one.focus_m and math.isfinite(one.focus_depth) else 1.0
    focus = "focus, m" if real else "focus"
    line[focus] = "" if one.stops is None or (ends is None and one.note) else f"{unit * one.focus_depth:.3g}"
    if ends is not None:
        line[focus] += f" ({unit * ends[0]:.3g} … {unit * ends[1]:.3g})"
    far = one.hyperfocal_m if real else one.hyperfocal
    line["hyperfocal, m" if real else "hyperfocal"] = "" if one.stops is None or far is None else f"{far:.3g}"
    line["note"] = one.note
    return line


def _plus_minus(error: float | None, pattern: str) -> str:
    return "" if error is None else " ± " + pattern.format(error)


def summary(trained: Run, rows: list[MeasuredLens], scale: Any, sensor_width: float | None) -> list[str]:
    """What holds for all photos, as lines of text."""
    from dofnerf.train.measured import medians

    told = [one.stops_from_exif for one in rows if one.stops_from_exif is not None]
    if scale is None:
        lines = ["scale    unknown: stops are from the median lens, distances in scene units; --unit METRES gives it"]
    else:
        lines = [f"scale    {scale.describe()}"]
    if scale is not None and medians(rows, "f_number") is not None:
        known = f"{medians(rows, 'diameter_mm'):.3g} mm wide, f/{medians(rows, 'f_number'):.3g}"
        lines.append(f"lens     {known} at {medians(rows, 'focal_length_mm'):.3g} mm (medians)")
        if sensor_width is None and trained.optics.sensor_width is None:
            lines.append(f"note     no EXIF gives the focal length: a sensor {FULL_FRAME:g} mm wide is assumed")
    if told:
        middle = sorted(told)[len(told) // 2]
        by_exif = scale is not None and scale.by == "EXIF"
        why = "; the scale comes from EXIF's f-numbers, so only differences between photos tell" if by_exif else ""
        lines.append(f"EXIF     lenses are {middle:+.2f} stops from it (median of {len(told)} photos){why}")
    if all(one.aperture_se is None for one in rows) and not any(one.note for one in rows):
        lines.append("note     there are no standard errors: the run is of an earlier version; train again for them")
    return lines


def write_table(path: Path, rows: list[MeasuredLens]) -> None:
    """As CSV, numbers in full; unknown ones are empty."""
    lines = [{name: "" if value is None else value for name, value in asdict(one).items()} for one in rows]
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
