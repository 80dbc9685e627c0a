"""`dofnerf eval RUN`: how good a run is, in figures."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from dofnerf.evaluate import figures
from dofnerf.evaluate.lpips import VARIABLE, NoWeights, find_weights
from dofnerf.evaluate.scores import Perceptual, Reference, Scores, score
from dofnerf.evaluate.trained import open_trained
from dofnerf.files import write_json
from dofnerf.files.outputs import check_folder
from dofnerf.scenes import Scene
from dofnerf.train import Run

JSON, CSV = "eval.json", "eval.csv"


@dataclass(frozen=True)
class LpipsConfig:
    """Where LPIPS has its weights from. Without them, its column says so."""

    lpips_weights: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(default: $DOFNERF_LPIPS, or the torch hub's)")
    ] = None
    """An .npz with AlexNet's and the heads' weights."""
    lpips_fetch: bool = False
    """Download the weights into the torch hub's cache if they are not there (245 MB)."""

    def resolved(self) -> LpipsConfig:
        """The same for other processes, wherever they work: a file that is good by its absolute path."""
        file = self.lpips_weights or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
        if isinstance(self.find(), str) or file is None:
            return self
        return LpipsConfig(file.resolve(), self.lpips_fetch)

    def find(self) -> Perceptual | str:
        """LPIPS, or why it cannot be had; a file that was named and is not good is an error."""
        try:
            return find_weights(self.lpips_weights, self.lpips_fetch)
        except NoWeights as reason:
            if self.lpips_weights is not None:
                raise
            return str(reason)


@dataclass(frozen=True)
class EvalConfig:
    """Compare a run's held-out views, rendered all in focus, with the scene's all-in-focus photos: PSNR, SSIM and LPIPS
    of each view and on average, apart for what its photo shows in focus and out of focus; and the lens with the true
    one, where known.

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
    """Print and write the figures; returns them."""
    from rich.console import Console

    if config.out is not None:
        check_folder("--out", config.out)
    perceptual = config.lpips.find()
    trained, scene = open_trained(config.path, config.scene)
    assert trained.folder is not None
    out = config.out or trained.folder
    check_folder("--out", out)
    print(f"run      {trained.config.field}, preset {trained.config.preset}, {trained.config.steps.total} steps")
    print(f"scene    {scene.describe()}", flush=True)
    found = score(trained, scene, perceptual, config.reference)
    write_json(out / JSON, plain(trained, scene, found, config.reference))
    figures.write_csv(out / CSV, found)
    console = Console()
    console.width = max(console.width, 150) if not console.is_terminal else console.width
    console.print(figures.terminal_table(found))
    for line in [*figures.lens_lines(found), *(f"note     {words}" for words in found.notes)]:
        print(line)
    print(f"wrote    {out / JSON}, {out / CSV}")
    return found


def plain(trained: Run, scene: Scene, found: Scores, reference: Reference = "sharp") -> dict[str, Any]:
    """All that eval.json holds."""
    steps = trained.config.steps.total
    about = {
        "scene": scene.name,
        "size": list(scene.size),
        "field": trained.config.field,
        "preset": trained.config.preset,
    }
    seconds = trained.learner.standing.seconds
    return {**about, "steps": steps, "seconds": seconds, "reference": reference, **found.plain()}
