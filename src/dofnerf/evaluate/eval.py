"""`dofnerf eval RUN`: the scores of a run as a table, JSON and CSV."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.scores import METRICS, LensScores, Reference, Score, Scores, score
from dofnerf.evaluate.trained import open_trained
from dofnerf.files import atomic, write_json
from dofnerf.files.outputs import check_folder
from dofnerf.scenes import Scene
from dofnerf.train import Run

JSON, CSV = "eval.json", "eval.csv"
DIGITS = {"psnr": 2, "psnr_registered": 2, "in_focus": 2, "psnr_in_focus": 2, "psnr_out_of_focus": 2}  # else 4
HEADS = {
    "psnr": "PSNR", "ssim": "SSIM", "lpips": "LPIPS", "psnr_registered": "PSNR registered", "in_focus": "in focus",
    "psnr_in_focus": "PSNR in focus", "psnr_out_of_focus": "PSNR out of focus", "ssim_in_focus": "SSIM in focus",
    "ssim_out_of_focus": "SSIM out of focus",
}  # fmt: skip


@dataclass(frozen=True)
class EvalConfig:
    """Compare a run's held-out views, rendered all in focus, with the scene's all-in-focus photos: PSNR, SSIM and LPIPS
    of each view and their means, also separately for the pixels that the view's photo shows in focus and out of focus;
    and the learned lens with the true one, where that is known.

    Prints a table; writes eval.json and eval.csv into the run's folder.

    For example:
      dofnerf eval runs/mine
      dofnerf eval runs/mine --lpips-weights alexnet_lpips.npz --out figures
      dofnerf eval runs/fern --reference photo
    """

    path: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    scene: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: where the run was trained)")] = None
    """Where the scene is now, if it has moved."""
    reference: Reference = "sharp"
    """Compare with all-in-focus photos, or with the held-out photos themselves (of a scene whose photos are all in
    focus)."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: the run's)")] = None
    """The folder to write into."""
    lpips: LpipsConfig = field(default_factory=LpipsConfig)


def run(config: EvalConfig) -> Scores:
    """Print and write the scores; returns them."""
    from rich.console import Console

    if config.out is not None:
        check_folder("--out", config.out)
    perceptual = config.lpips.find()
    trained, scene = open_trained(config.path, config.scene)
    assert trained.folder is not None
    out = config.out or trained.folder
    check_folder("--out", out)
    print(f"run      {trained.config.field}, preset {trained.config.preset}, {trained.config.method.total} steps")
    print(f"scene    {scene.describe()}", flush=True)
    found = score(trained, scene, perceptual, config.reference)
    write_json(out / JSON, plain(trained, scene, found, config.reference))
    write_csv(out / CSV, found)
    console = Console(markup=False, emoji=False)  # names of photos are words
    console.width = max(console.width, 150) if not console.is_terminal else console.width
    console.print(terminal_table(found))
    for line in [*lens_lines(found), *(f"note     {words}" for words in found.notes)]:
        print(line)
    print(f"wrote    {out / JSON}, {out / CSV}")
    return found


def plain(trained: Run, scene: Scene, found: Scores, reference: Reference = "sharp") -> dict[str, Any]:
    """The contents of eval.json."""
    config = trained.config
    about = {"scene": scene.name, "size": list(scene.size), "field": config.field, "preset": config.preset}
    done = {"steps": config.method.total, "seconds": trained.learner.progress.seconds, "reference": reference}
    return {**about, **done, **found.plain()}


def write_csv(path: Path, scores: Scores) -> None:
    """A row a view, numbers in full, then the means."""
    views = [asdict(view) for view in scores.views]
    with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(views[0]))
        writer.writeheader()
        writer.writerows([*views, {"view": "mean", "name": "", **scores.mean, "focus_by": ""}])


def words(name: str, value: Score) -> str:
    """A score as it is printed."""
    return value if isinstance(value, str) else f"{value:.{DIGITS.get(name, 4)}f}"


def rows(scores: Scores) -> list[list[str]]:
    """A row a view, then the means."""
    views = [[f"{v.view} {v.name}", *(words(name, getattr(v, name)) for name in METRICS)] for v in scores.views]
    return [*views, ["mean", *(words(name, scores.mean[name]) for name in METRICS)]]


def terminal_table(scores: Scores) -> Any:
    """A rich.table.Table."""
    from rich.table import Table

    table = Table("view", *(HEADS[name] for name in METRICS), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    *views, mean = rows(scores)
    for row in views:
        table.add_row(*row)
    table.add_row(*mean, style="bold")
    return table


def lens_lines(scores: Scores) -> list[str]:
    """The lens scores as lines of text."""
    lens, blur = scores.lens, scores.largest_blur
    lines = [f"lens     {lens}"]
    if isinstance(lens, LensScores):
        lines = [
            f"lens     aperture off by {100 * lens.aperture:.1f} % (median {100 * lens.aperture_median:.1f} %), focus "
            f"by {100 * lens.focus:.1f} % of the range (median {100 * lens.focus_median:.1f} %, "
            f"{lens.focus_blur_median:.2f} px of blur); {lens.photos} photos"
        ]
    if not isinstance(blur, str):
        lines.append(f"blur     the lens blurs points by up to {blur[1]:.2f} px; in the median photo, {blur[0]:.2f} px")
    if scores.unknown_lenses and (isinstance(lens, LensScores) or not isinstance(blur, str)):
        lines.append(f"unknown  photos that do not tell all of their lens count here, too: {scores.unknown_lenses}")
    return lines
