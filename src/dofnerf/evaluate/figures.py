"""Scores on paper: a table on the terminal, CSV, JSON."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from dofnerf.evaluate.scores import METRICS, LensScores, Score, Scores
from dofnerf.files import atomic

DIGITS = {"psnr": 2, "ssim": 4, "lpips": 4, "in_focus": 2, "psnr_in_focus": 2, "psnr_out_of_focus": 2}
HEADS = {
    "psnr": "PSNR", "ssim": "SSIM", "lpips": "LPIPS", "in_focus": "in focus", "psnr_in_focus": "PSNR in focus",
    "psnr_out_of_focus": "PSNR out of focus", "ssim_in_focus": "SSIM in focus", "ssim_out_of_focus": "SSIM out of focus",
}  # fmt: skip


def words(name: str, value: Score) -> str:
    """A score as it is printed."""
    return value if isinstance(value, str) else f"{value:.{DIGITS.get(name, 4)}f}"


def rows(scores: Scores) -> list[list[str]]:
    """A row a view, and the mean's."""
    found = [
        [f"{view.view} {view.name}", *(words(name, getattr(view, name)) for name in METRICS)] for view in scores.views
    ]
    return [*found, ["mean", *(words(name, scores.mean[name]) for name in METRICS)]]


def terminal_table(scores: Scores) -> Table:
    """For rich's console."""
    table = Table("view", *(HEADS[name] for name in METRICS), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    *views, mean = rows(scores)
    for row in views:
        table.add_row(*row)
    table.add_row(*mean, style="bold")
    return table


def lens_lines(scores: Scores) -> list[str]:
    """What there is to say about the lens."""
    lens, blur = scores.lens, scores.largest_blur
    if isinstance(lens, LensScores):
        lines = [
            f"lens     aperture off by {100 * lens.aperture:.1f} % (median {100 * lens.aperture_median:.1f} %), focus by "
            f"{100 * lens.focus:.1f} % of the range (median {100 * lens.focus_median:.1f} %, {lens.focus_blur_median:.2f} px "
            f"of blur); {lens.photos} photos"
        ]
    else:
        lines = [f"lens     {lens}"]
    if not isinstance(blur, str):
        lines.append(f"blur     the lens blurs points by up to {blur[1]:.2f} px; in the median photo, {blur[0]:.2f} px")
    return lines


def write_csv(path: Path, scores: Scores) -> None:
    """A row a view, numbers in full, and the mean's."""
    views: Sequence[dict[str, object]] = [asdict(view) for view in scores.views]
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(views[0]))
        writer.writeheader()
        writer.writerows([*views, {"view": "mean", "name": "", **scores.mean, "focus_by": ""}])
