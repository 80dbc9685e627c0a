"""Charts, drawn by matplotlib: the lens of every training photo, the training curve; as pixels or as SVG for the page.

The SVG has text as text and names the page's CSS variables instead of colours, so it follows a dark theme; points have
tooltips.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from dofnerf.optics.lens import PINHOLE, Lens, inverse
from dofnerf.scenes import Scene
from dofnerf.train import Run
from dofnerf.train.measured import MeasuredLens, measured
from dofnerf.train.photos.lens import PhotoLens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, TRUE, FOUND, START = "#333333", "#2b6cb0", "#dd6b20", "#888888"
_VARIABLES = {  # of the page's style
    INK: "--ink", TRUE: "--true", FOUND: "--accent", START: "--soft", "#ffffff": "--card", "#cccccc": "--line",
}  # fmt: skip
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 20, 30, 50, 70, 100, 150, 200, 300, 500)
_HALF_A_STOP = 2**0.25
_F_NUMBERS = (0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 32, 45, 64)
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


@dataclass(frozen=True)
class PhotoLenses:
    """The lenses of training photos with these `numbers` in a scene between depths `near` and `far`: learned, true
    where known, and where the search started if that was one lens for all."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    found: tuple[Lens, ...]
    true: tuple[Lens | None, ...]
    start: Lens | None
    near: float
    far: float
    measured: tuple[MeasuredLens, ...] = ()


def photo_lenses(run: Run, scene: Scene) -> PhotoLenses | None:
    """The lenses of a run; None if it has none."""
    if not run.has_lens:
        return None
    first = PhotoLens.make(run.config.lens, run.setting)
    starts = set(zip(first.aperture.tolist(), first.focus_disparity.tolist(), strict=True))
    aperture, disparity = next(iter(starts))
    start = Lens(aperture, inverse(disparity)) if len(starts) == 1 else None
    names, true = zip(*((scene.frames[i].name, scene.lens(i)) for i in scene.train), strict=True)
    if run.config.photos == "sharp":
        true = tuple(lens and PINHOLE for lens in true)
    measurements = tuple(measured(run))
    return PhotoLenses(tuple(scene.train), names, tuple(run.lenses), true, start, scene.near, scene.far, measurements)


def lens_plot(lenses: PhotoLenses, heading: str, start: bool = True) -> np.ndarray:
    """Aperture and focus of each photo, learned and true, and with `start` where the search began, (H, W, 3) uint8."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    figure.suptitle(heading, fontsize=12, color=INK, parse_math=False)
    for axes, draw in zip(figure.subplots(1, 2), (_draw_aperture, _draw_focus), strict=True):
        draw(axes, lenses, start)
        axes.legend(loc="upper right", ncols=3, framealpha=1)
    return pixels_of(figure)


def measured_plot(lenses: Sequence[MeasuredLens], heading: str) -> Figure:
    """Aperture and focus of each photo with their standard errors: as f-numbers beside EXIF's and in metres where the
    scale is known, else in stops from the median lens and in scene units."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    figure.suptitle(heading, fontsize=12, color=INK, parse_math=False)
    left, right = figure.subplots(1, 2)
    real = any(one.f_number is not None for one in lenses)
    style = {"fmt": "o", "color": FOUND, "markersize": 4.5, "elinewidth": 1.2, "capsize": 2.5, "label": "measured"}
    wide = [
        (i, one.f_number if real else one.stops, one.stops_se or 0.0)
        for i, one in enumerate(lenses)
        if one.stops is not None
    ]
    if wide:
        numbers, values, errors = (np.array(part, dtype=float) for part in zip(*wide, strict=True))
        ends = values * 2 ** (np.array([[1], [-1]]) * -errors / 2) if real else values + [[-1], [1]] * errors
        left.errorbar(numbers, values, np.abs(ends - values), **style)
    told = [(i, one.f_number_exif) for i, one in enumerate(lenses) if real and one.f_number_exif]
    if told:
        rings = {"s": 80, "facecolors": "none", "edgecolors": TRUE, "linewidths": 1.5, "label": "EXIF"}
        left.scatter(*zip(*told, strict=True), **rings)
    if real:
        known = [one for lens in lenses for one in (lens.f_number, lens.f_number_exif) if one]
        low, high = min(known) / _HALF_A_STOP**2, max(known) * _HALF_A_STOP**2
        left.set_yscale("log")
        left.set_ylim(high, low)  # wider is up
        shown = [number for number in _F_NUMBERS if low <= number <= high]
        left.set_yticks(shown, [f"{number:g}" for number in shown])
        left.set_yticks([], minor=True)
    left.set_title("How wide open", fontsize=11, color=INK)
    left.set_ylabel("f-number" if real else "stops wider than the median lens", color=INK)
    unit = next((one.focus_m / one.focus_depth for one in lenses if one.focus_m and math.isfinite(one.focus_m)), 1.0)
    focused = [
        (i, one.focus_depth, *(one.focus_range() or (one.focus_depth, one.focus_depth)))
        for i, one in enumerate(lenses)
        if one.stops is not None and not (one.note and one.focus_disparity_se is None)
    ]
    if focused:
        numbers, values, near, far = (np.array(part, dtype=float) for part in zip(*focused, strict=True))
        finite = np.isfinite(values)
        reach = np.where(np.isfinite(far), far - values, values)[finite]
        bars = unit * np.stack([(values - near)[finite], reach])
        right.errorbar(numbers[finite], unit * values[finite], bars, **style)
    right.set_yscale("log")
    right.set_title("How far away is sharp", fontsize=11, color=INK)
    right.set_ylabel("focus, metres" if real else "focus depth, scene units", color=INK)
    for axes in (left, right):
        axes.set_xlabel("photo", color=INK)
        axes.set_xticks(range(0, len(lenses), max(1, 2 * round(len(lenses) / 30))))
        axes.set_xlim(-1, len(lenses))
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(colors=INK)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", ncols=2, framealpha=1)
    _plain_ticks(right)
    return figure


def _plain_ticks(axes: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers."""
    low, high = axes.get_ylim()
    inside = [tick for tick in _TICKS if low <= tick <= high]
    if len(inside) > 1:
        ticks = inside[:: max(1, len(inside) // 6)]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks([], minor=True)


def lens_charts(lenses: PhotoLenses) -> list[str]:
    """The same as two SVG drawings; the tooltip of a point names the photo."""
    from matplotlib.figure import Figure

    drawings = []
    for draw in (_draw_aperture, _draw_focus):
        figure = Figure(figsize=(5.6, 3.7), facecolor="none", layout="constrained")
        axes = figure.subplots()
        tips = draw(axes, lenses, True)
        figure.legend(loc="outside upper right", ncols=3, frameon=False, labelcolor=INK)
        drawings.append(svg_of(figure, axes.get_title(), tips))
    return drawings


def curve_chart(points: Mapping[int, tuple[float, str]]) -> str:
    """PSNR of the training batches by step, a colour for each stage, as SVG; `points` are step → (PSNR, stage)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.7), facecolor="none", layout="constrained")
    axes, steps = figure.subplots(), sorted(points)
    for stage, colour in zip(dict.fromkeys(stage for _, stage in points.values()), (START, TRUE, FOUND), strict=False):
        mine = [step for step in steps if points[step][1] == stage]
        mine = [step for step in steps if step < mine[0]][-1:] + mine  # so that the line has no gap
        axes.plot(mine, [points[step][0] for step in mine], color=colour, linewidth=2, label=stage)
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel("PSNR of the batch, dB", color=INK)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(colors=INK)
    figure.legend(loc="outside upper right", ncols=3, frameon=False, labelcolor=INK)
    return svg_of(figure, "Training")


def pixels_of(figure: Figure) -> np.ndarray:
    """(H, W, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def svg_of(figure: Figure, label: str, tips: Mapping[str, Sequence[str]] | None = None) -> str:
    """An SVG element for an HTML page. `tips` are tooltips for the points of scatter plots, by the gid of the plot."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for axes in figure.axes:
        axes.set_facecolor("none")
        for spine in axes.spines.values():
            spine.set_color(START)
    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(file.getvalue())
    for group in root.iter(f"{{{_SVG}}}g"):
        for use, words in zip(group.iter(f"{{{_SVG}}}use"), (tips or {}).get(group.get("id", ""), ()), strict=False):
            ElementTree.SubElement(use, f"{{{_SVG}}}title").text = words
    for tag in ("metadata", "defs"):  # the first defs hold a style that would apply to the whole page
        if (found := root.find(f"{{{_SVG}}}{tag}")) is not None:
            root.remove(found)
    for attribute in ("width", "height", "version"):
        del root.attrib[attribute]
    root.attrib |= {"role": "img", "aria-label": label}
    text = ElementTree.tostring(root, encoding="unicode")
    used = {*re.findall(r"#([\w-]+)", text)}
    text = re.sub(r' id="([\w.-]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: system-ui", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r">\s+<", "><", text)


Tips = dict[str, list[str]]


def _draw_aperture(axes: Any, lenses: PhotoLenses, start: bool) -> Tips:
    found, true = _rows(lenses, "aperture")
    begun = lenses.start if start else None
    ends = [None if one.aperture_se is None else _around(one.aperture, one.aperture_se) for one in lenses.measured]
    _draw_errors(axes, lenses, ends, (0, math.inf))
    tips = _scatter(axes, found, true, (0, math.inf))
    if begun is not None:
        axes.axhline(begun.aperture, color=START, linewidth=1, linestyle="--", label="start")
    axes.set_ylim(0, 1.35 * max([1e-6, axes.dataLim.ymax, *([begun.aperture] if begun else [])]))
    axes.set_title("How wide open: aperture", fontsize=11, color=INK)
    axes.set_ylabel("aperture (pixels × scene units)", color=INK)
    return tips


def _draw_focus(axes: Any, lenses: PhotoLenses, start: bool) -> Tips:
    limit = lenses.near, lenses.far
    found, true = _rows(lenses, "focus_depth")
    _draw_errors(axes, lenses, [one.focus_range() for one in lenses.measured], limit)
    tips = _scatter(axes, found, true, limit)
    if start and lenses.start is not None:
        axes.axhline(lenses.start.focus_depth, color=START, linewidth=1, linestyle="--", label="start")
    axes.set_yscale("log")
    axes.set_ylim(*limit)
    inside = [tick for tick in _TICKS if limit[0] <= tick <= limit[1]]
    ticks = inside[:: max(1, len(inside) // 6)] or list(limit)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_title("How far away is sharp: focus", fontsize=11, color=INK)
    axes.set_ylabel("focus depth (scene units; the scene's range)", color=INK)
    return tips


def _around(value: float, error: float) -> tuple[float, float]:
    return value - error, value + error


def _draw_errors(
    axes: Any, lenses: PhotoLenses, ends: Sequence[tuple[float, float] | None], limit: tuple[float, float]
) -> None:
    """A line of one standard error to either side, where it is known."""
    for number, reach in zip(lenses.numbers, ends, strict=False):
        if reach is not None:
            axes.plot([number] * 2, np.clip(reach, *limit), color=FOUND, linewidth=1.4, solid_capstyle="butt")


Row = tuple[int, str, float]  # of a photo: number, name, value


def _rows(lenses: PhotoLenses, name: str) -> tuple[list[Row], list[Row]]:
    """Learned and true values; a closed lens has no focus."""
    about = list(zip(lenses.numbers, lenses.names, strict=True))
    found = [(*photo, getattr(lens, name)) for photo, lens in zip(about, lenses.found, strict=True)]
    pairs = [(photo, lens) for photo, lens in zip(about, lenses.true, strict=True) if lens is not None]
    return found, [(*photo, getattr(lens, name)) for photo, lens in pairs if name == "aperture" or lens.aperture > 0]


def _scatter(axes: Any, found: list[Row], true: list[Row], limit: tuple[float, float]) -> Tips:
    tips = {}
    rings = {"s": 90, "facecolors": "none", "edgecolors": TRUE, "linewidths": 1.6}
    for kind, rows, style in (("true", true, rings), ("learned", found, {"s": 22, "color": FOUND, "zorder": 3})):
        if rows:
            values = [float(np.clip(value, *limit)) for _, _, value in rows]
            axes.scatter([number for number, _, _ in rows], values, label=kind, gid=kind, **style)
            tips[kind] = [f"{name}: {value:.3g}" for _, name, value in rows]
    last = max(number for number, _, _ in found)
    axes.set_xlabel("photo", color=INK)
    axes.set_xticks(range(0, last + 1, max(2, 2 * round(last / 30))))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(colors=INK)
    return tips
