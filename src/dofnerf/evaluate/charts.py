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

    from dofnerf.train.scale import Scale

INK, TRUE, FOUND, START = "#333333", "#2b6cb0", "#dd6b20", "#888888"
_VARIABLES = {  # of the page's style
    INK: "--ink", TRUE: "--true", FOUND: "--accent", START: "--soft", "#ffffff": "--card", "#cccccc": "--line",
}  # fmt: skip
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 20, 30, 50, 70, 100, 150, 200, 300, 500)
_HALF_A_STOP = 2**0.25
_BEYOND, _LONGEST_AXIS = 1.2, 1000.0  # of an axis of depths: room at its ends; its upper end over its lower, at most
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


def measured_plot(lenses: Sequence[MeasuredLens], heading: str, scale: Scale | None = None) -> Figure:
    """Aperture and focus of each photo with their standard errors: as f-numbers beside EXIF's and in metres if the
    `scale` is given, else in stops from the median lens and in scene units. Photos have the numbers of their views.
    What a photo's blur does not tell is a question mark."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    figure.suptitle(heading, fontsize=12, color=INK, parse_math=False)
    left, right = figure.subplots(1, 2)
    numbers = [i if one.view is None else one.view for i, one in enumerate(lenses)]
    numbered = list(zip(numbers, lenses, strict=True))
    _draw_measured_apertures(left, numbered, scale)
    _draw_measured_focus(right, numbered, scale)
    for axes, unknown in (
        (left, [number for number, one in numbered if not one.aperture_known]),
        (right, [number for number, one in numbered if not one.focus_known]),
    ):
        if unknown:
            place = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 4}
            mark = {"marker": "$?$", "s": 70, "color": FOUND, "label": "its blur does not tell"}
            axes.scatter(unknown, [0.04] * len(unknown), **place, **mark)
        axes.set_xlabel("photo", color=INK)
        axes.set_xticks(range(0, max(numbers) + 1, max(1, 2 * round(max(numbers) / 30))))
        axes.set_xlim(-1, max(numbers) + 1)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(colors=INK)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", ncols=2, framealpha=1)
    return figure


_BARS = {"fmt": "o", "color": FOUND, "markersize": 4.5, "elinewidth": 1.2, "capsize": 2.5, "label": "measured"}


def _draw_measured_apertures(axes: Any, lenses: Sequence[tuple[int, MeasuredLens]], scale: Scale | None) -> None:
    axes.set_title("How wide open", fontsize=11, color=INK)
    if scale is None:
        rows = [(i, one.stops, one.stops_se or 0.0) for i, one in lenses if one.stops is not None]
        if rows:
            axes.errorbar(*zip(*rows, strict=True), **_BARS)
        axes.set_ylabel("stops wider than the median lens", color=INK)
        return
    found = [(i, one.f_number, (one.aperture_se or 0.0) / one.aperture) for i, one in lenses if one.f_number]
    told = [(i, one.f_number_exif) for i, one in lenses if one.f_number_exif]
    if found:
        numbers, values, shares = (np.array(part, dtype=float) for part in zip(*found, strict=True))
        axes.errorbar(numbers, values, values * np.stack([1 - np.exp(-shares), np.exp(shares) - 1]), **_BARS)
    if told:
        rings = {"s": 80, "facecolors": "none", "edgecolors": TRUE, "linewidths": 1.5, "label": "EXIF"}
        axes.scatter(*zip(*told, strict=True), **rings)
    axes.set_ylabel("f-number", color=INK)
    axes.set_yscale("log")
    if known := [value for _, value, *_ in (*found, *told)]:
        low, high = min(known) / _HALF_A_STOP**2, max(known) * _HALF_A_STOP**2
        axes.set_ylim(high, low)  # wider is up
        shown = [number for number in _F_NUMBERS if low <= number <= high]
        shown = shown if len(shown) > 1 else np.geomspace(low, high, 5)[1:-1].tolist()
        axes.set_yticks(shown, [f"{number:.2g}" for number in shown])
        axes.set_yticks([], minor=True)


def _draw_measured_focus(axes: Any, lenses: Sequence[tuple[int, MeasuredLens]], scale: Scale | None) -> None:
    """Focus depths beyond what the axis shows, such as infinity, are arrows at its upper end."""
    axes.set_title("How far away is sharp", fontsize=11, color=INK)
    axes.set_ylabel("focus depth, scene units" if scale is None else "focus, metres", color=INK)
    axes.set_yscale("log")
    unit = 1.0 if scale is None else scale.metres
    rows = [
        (i, one.focus_depth, *(one.focus_range() or (one.focus_depth, one.focus_depth)))
        for i, one in lenses
        if one.focus_known
    ]
    if rows:
        numbers, values, near, far = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
        values, near, far = unit * values, unit * near, unit * far
        seen = [depth for depth in (*values, *far, *near) if math.isfinite(depth)] or [unit]
        low, high = min(seen) / _BEYOND, min(_BEYOND * max(seen), _LONGEST_AXIS * min(seen))
        places = np.clip(values, low, high)
        bars = np.stack([places - np.clip(near, low, places), np.clip(far, places, high) - places])
        for mark, label, which in (("o", "measured", values <= high), ("^", "farther", values > high)):
            if which.any():
                style = _BARS | {"fmt": mark, "label": label}
                axes.errorbar(numbers[which], places[which], bars[:, which], **style, clip_on=False)
        axes.set_ylim(low, high)
    _plain_ticks(axes)


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
    tips = _scatter(axes, lenses, found, true, (0, math.inf))
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
    tips = _scatter(axes, lenses, found, true, limit)
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
    """Learned values, where the photo's blur tells them, and true ones; a closed lens has no focus."""
    about = list(zip(lenses.numbers, lenses.names, strict=True))
    known = [one.aperture_known if name == "aperture" else one.focus_known for one in lenses.measured]
    found = [
        (*photo, getattr(lens, name))
        for photo, lens, told in zip(about, lenses.found, known or [True] * len(about), strict=True)
        if told
    ]
    pairs = [(photo, lens) for photo, lens in zip(about, lenses.true, strict=True) if lens is not None]
    return found, [(*photo, getattr(lens, name)) for photo, lens in pairs if name == "aperture" or lens.aperture > 0]


def _scatter(axes: Any, lenses: PhotoLenses, found: list[Row], true: list[Row], limit: tuple[float, float]) -> Tips:
    tips = {}
    rings = {"s": 90, "facecolors": "none", "edgecolors": TRUE, "linewidths": 1.6}
    for kind, rows, style in (("true", true, rings), ("learned", found, {"s": 22, "color": FOUND, "zorder": 3})):
        if rows:
            values = [float(np.clip(value, *limit)) for _, _, value in rows]
            axes.scatter([number for number, _, _ in rows], values, label=kind, gid=kind, **style)
            tips[kind] = [f"{name}: {value:.3g}" for _, name, value in rows]
    last = max(lenses.numbers)
    axes.set_xlabel("photo", color=INK)
    axes.set_xticks(range(0, last + 1, max(2, 2 * round(last / 30))))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(colors=INK)
    return tips
