"""`dofnerf lens RUN`: what each photo's lens did, with standard errors, in real units where the scale is known."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from dofnerf.camera import FULL_FRAME
from dofnerf.files import atomic, write_image
from dofnerf.files.guard import visible
from dofnerf.files.outputs import check_file
from dofnerf.studio.flags import OPTIONAL, check_positive, check_within, default

if TYPE_CHECKING:
    from dofnerf.train.measured import MeasuredLens
    from dofnerf.train.scale import PhotoOptics, Scale

SHORTEST_UNIT, LONGEST_UNIT = 1e-6, 1e9  # metres in a scene unit
SENSORS = 0.1, 1000.0  # millimetres
_UNKNOWN = "not known"  # in the table, where the blur does not tell
_ANY_WIDTH = 10_000  # characters
_LEAST_WANTED = ("view", "focal length, mm", "hyperfocal", "hyperfocal, m", "diameter, mm", "EXIF", "stops")


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
    from dofnerf.train.folder import LENS
    from dofnerf.train.measured import measured, notes
    from dofnerf.train.scale import Scale

    check_positive(config, "unit", "sensor_width")
    check_within("--unit", config.unit, SHORTEST_UNIT, LONGEST_UNIT, " metres")
    check_within("--sensor-width", config.sensor_width, *SENSORS, " mm")
    for flag, path, suffixes in (("--csv", config.csv, (".csv",)), ("--plot", config.plot, (".png", ".jpg"))):
        if path is not None:
            check_file(flag, path, suffixes)
    trained = open_run(config.path)
    assert trained.folder is not None
    if config.csv is not None and config.csv.resolve() == (trained.folder / LENS).resolve():
        raise ValueError(f"--csv {config.csv}: is the run's own table, with other columns; give another file")
    if not trained.has_lens:
        raise ValueError(f"{config.path}: this run was trained without a lens model, so it has found no lens")
    optics = trained.optics_by(config.sensor_width)
    scale = optics.scale if config.unit is None else Scale(config.unit, "--unit")
    rows = measured(trained, scale, config.sensor_width)
    console = Console(markup=False, emoji=False)  # names of photos are words
    shown = [replace(one, photo=visible(one.photo)) for one in rows]
    table, left_out = terminal_table(shown, scale, console.width if console.is_terminal else _ANY_WIDTH)
    needed = console.measure(table, options=console.options.update(width=_ANY_WIDTH))
    console.width = max(console.width, needed.minimum if console.is_terminal else needed.maximum)
    console.print(table)
    for line in [*left_out, *(f"note     {words}" for words in notes(shown)), *summary(optics, rows, scale)]:
        print(line)
    if scale is None and config.sensor_width is not None:
        print("note     --sensor-width changes nothing without a scale; add --unit METRES")
    if config.csv is not None:
        write_table(config.csv, rows)
        print(f"wrote    {config.csv}")
    if config.plot is not None:
        from dofnerf.evaluate.charts import measured_plot, pixels_of

        figure = measured_plot(rows, f"{trained.setting.scene}: the lens of each photo, ± 1 standard error", scale)
        write_image(config.plot, pixels_of(figure))
        print(f"wrote    {config.plot}")
    return rows


def terminal_table(rows: list[MeasuredLens], scale: Scale | None, width: int) -> tuple[Any, list[str]]:
    """(a rich.table.Table in so many characters if it can be, words on the columns that are left out for that)."""
    from rich.cells import cell_len
    from rich.table import Table

    lines = [line_of(one, scale) for one in rows]
    used = [name for name in lines[0] if any(line[name] for line in lines)]
    words = {name: [*name.split(), *(line[name] for line in lines)] for name in used}
    wide = {name: max(map(cell_len, parts)) for name, parts in words.items()}
    dropped: list[str] = []
    for name in _LEAST_WANTED:
        if sum(wide[one] + 2 for one in used) > width and name in used:
            used.remove(name)
            dropped.append(name)
    table = Table(box=None, pad_edge=False)
    for name in used:
        first = name == "photo"
        table.add_column(name, justify="left" if first else "right", no_wrap=first, min_width=wide[name])
    for line in lines:
        table.add_row(*(line[name] for name in used))
    names = ", ".join(name.split(", ")[0] for name in dropped)
    return table, [f"columns  left out, for the window is narrow: {names}; --csv FILE has all"] if dropped else []


def line_of(one: MeasuredLens, scale: Scale | None) -> dict[str, str]:
    """A photo's lens as it is printed, by column."""
    ends, unit = one.focus_range(), 1.0 if scale is None else scale.metres
    share = "" if not one.aperture_se else f" ± {100 * one.aperture_se / one.aperture:.1f} %"
    line = {"photo": one.photo, "view": "" if one.view is None else str(one.view)}
    if scale is not None:
        line["f-number"] = _UNKNOWN if one.f_number is None else f"f/{one.f_number:.3g}{share}"
        line["EXIF"] = "" if one.f_number_exif is None else f"f/{one.f_number_exif:g}"
        line["stops wider than EXIF"] = _with_error(one.stops_from_exif, one.stops_from_exif_se)
        line["diameter, mm"] = "" if one.diameter_mm is None else f"{one.diameter_mm:.3g}"
        line["focal length, mm"] = "" if one.focal_length_mm is None else f"{one.focal_length_mm:.3g}"
    else:
        line["aperture"] = f"{one.aperture:.4g}{share}" if one.aperture_known else _UNKNOWN
    line["stops"] = _with_error(one.stops, one.stops_se)
    focus, far = ("focus", "hyperfocal") if scale is None else ("focus, m", "hyperfocal, m")
    line[focus] = f"{unit * one.focus_depth:.3g}" if one.focus_known else _UNKNOWN
    if ends is not None:
        line[focus] += f" ({unit * ends[0]:.3g} … {unit * ends[1]:.3g})"
    line[far] = "" if one.hyperfocal is None else f"{unit * one.hyperfocal:.3g}"
    return line


def _with_error(stops: float | None, error: float | None) -> str:
    return "" if stops is None else f"{stops:+.2f}" + ("" if error is None else f" ± {error:.2f}")


def summary(optics: PhotoOptics, rows: list[MeasuredLens], scale: Scale | None) -> list[str]:
    """What holds for all photos, as lines of text."""
    from dofnerf.train.measured import medians
    from dofnerf.train.scale import BY_EXIF

    told, shape = medians(rows, "stops_from_exif"), optics.shape
    lines = [] if shape is None else [f"shape    {shape.describe()}; f-numbers are by the area of its opening"]
    if scale is None:
        stops = "stops are from the median lens, " if medians(rows, "stops") is not None else ""
        lines.append(f"scale    unknown: {stops}distances in scene units; --unit METRES gives it")
    else:
        lines.append(f"scale    {scale.describe()}")
    if scale is not None and medians(rows, "f_number") is not None:
        known = f"{medians(rows, 'diameter_mm'):.3g} mm wide, f/{medians(rows, 'f_number'):.3g}"
        lines.append(f"lens     {known} at {medians(rows, 'focal_length_mm'):.3g} mm (medians)")
        if optics.sensor_width is None:
            words = f"a sensor {FULL_FRAME:g} mm wide, along the longer side of the picture, is assumed"
            lines.append(f"note     no EXIF gives the focal length: {words}")
    if told is not None:
        count = sum(one.stops_from_exif is not None for one in rows)
        photos = f"median of {count} photos" if count > 1 else "one photo"
        by_exif = scale is not None and scale.by == BY_EXIF
        why = "; the scale comes from EXIF's f-numbers, so only differences between photos tell" if by_exif else ""
        lines.append(f"EXIF     lenses are {told:+.2f} stops wider than it says ({photos}){why}")
    if all(one.aperture_se is None for one in rows) and not any(one.note for one in rows):
        lines.append("note     there are no standard errors: the run is of an earlier version; train again for them")
    return lines


def write_table(path: Path, rows: list[MeasuredLens]) -> None:
    """As CSV, numbers in full; unknown ones are empty."""
    lines = []
    for one in rows:
        line = {name: "" if value is None else value for name, value in asdict(one).items()}
        for name, is_known in (("aperture", line.pop("aperture_known")), ("focus_depth", line.pop("focus_known"))):
            line[name] = line[name] if is_known else ""
        lines.append(line)
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
