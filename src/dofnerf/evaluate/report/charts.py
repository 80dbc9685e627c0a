"""Small drawings in SVG: points and lines over two axes, readable on a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDE, HIGH = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 40, 42


@dataclass(frozen=True)
class Series:
    """`points` as (x, y, words that appear under the pointer); drawn as dots, rings, a line, or (one point) a level
    line."""

    name: str
    points: Sequence[tuple[float, float, str]]
    colour: str
    kind: Literal["dots", "rings", "line", "level"] = "dots"


@dataclass(frozen=True)
class Axis:
    """`ticks` are drawn with their numbers; the axis may be logarithmic."""

    words: str
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end, 1 at the high end; what is beyond lies on it."""
        low, high, value = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, max(value, self.low)))
        return min(1.0, max(0.0, (value - low) / max(high - low, 1e-12)))


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from low to high."""
    span = max(high - low, 1e-12)
    raw = span / count
    size = 10 ** math.floor(math.log10(raw))
    step = next(k * size for k in (1, 2, 2.5, 5, 10) if k * size >= raw)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """The drawing, an SVG element that takes the width that it is given."""

    def across(value: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * x.share(value)

    def down(value: float) -> float:
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * y.share(value)

    parts = [
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{escape(title)}" font-family="system-ui" font-size="12">',
        f'<text x="{LEFT}" y="17" font-weight="600" fill="var(--ink)">{escape(title)}</text>',
    ]
    for tick in y.ticks:
        parts.append(f'<path d="M{LEFT} {down(tick):.1f}H{WIDE - RIGHT}" stroke="var(--line)"/>')
        parts.append(_text(LEFT - 6, down(tick) + 4, f"{tick:g}", "end"))
    for tick in x.ticks:
        parts.append(_text(across(tick), HIGH - BOTTOM + 16, f"{tick:g}", "middle"))
    parts.append(f'<path d="M{LEFT} {HIGH - BOTTOM}H{WIDE - RIGHT}" stroke="var(--soft)"/>')
    parts.append(_text((LEFT + WIDE - RIGHT) / 2, HIGH - 8, x.words, "middle"))
    right = float(WIDE - RIGHT)
    for one in reversed(series):  # their names, from the right
        parts.append(_text(right, 17, one.name, "end"))
        right -= 7.0 * len(one.name) + 6
        parts.append(f'<circle cx="{right}" cy="13" r="4" fill="{one.colour}"/>')
        right -= 12
    parts.append(_text(LEFT, 33, y.words, "start"))
    for one in series:
        parts += _drawn(one, across, down)
    return "".join(parts) + "</svg>"


def _drawn(one: Series, across: Callable[[float], float], down: Callable[[float], float]) -> list[str]:
    if one.kind == "level":
        return [
            f'<path d="M{LEFT} {down(y):.1f}H{WIDE - RIGHT}" stroke="{one.colour}" stroke-dasharray="5 4"/>'
            for _, y, _ in one.points
        ]
    if one.kind == "line":
        places = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b, _ in one.points)
        return [f'<polyline points="{places}" fill="none" stroke="{one.colour}" stroke-width="2"/>']
    look = (
        f'r="6" fill="none" stroke="{one.colour}" stroke-width="1.6"'
        if one.kind == "rings"
        else f'r="3.4" fill="{one.colour}"'
    )
    return [
        f'<circle cx="{across(a):.1f}" cy="{down(b):.1f}" {look}><title>{escape(words)}</title></circle>'
        for a, b, words in one.points
    ]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--soft)">{escape(words)}</text>'
