"""The whole idea on the scene that comes with the package: blurred photos in, a sharp scene and every photo's lens out.

Two runs of one budget. The *pinhole twin* takes the photos as if they were sharp, as radiance fields and splats
commonly do; *ours* learns each photo's aperture and focus along with the scene. The *oracle*, if asked for, is the twin
trained on all-in-focus photos: what could be reached if there were no blur.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from dofnerf import scenes
from dofnerf.evaluate.charts import lens_plot, photo_lenses
from dofnerf.evaluate.scores import LensError, held_out_psnr, lens_error
from dofnerf.files import atomic, write_image, write_video
from dofnerf.files.outputs import check_folder
from dofnerf.models.splat.model import SplatModel
from dofnerf.scenes import Scene
from dofnerf.studio.demo_pictures import LENS_HEADING, rack_focus_frames, side_by_side
from dofnerf.train import (
    KeepConfig,
    Run,
    StepsConfig,
    TrainConfig,
    pinhole_twin,
    preset,
    sharp_oracle,
    shortened,
    train,
)
from dofnerf.train.checkpoint import FILE
from dofnerf.train.presets import check_share

VIEW = 22  # held out: seen by no training; the camera that took it focused near
FRAMES, FPS = 72, 24.0
WARM_WIDTH, WARM_STEPS = 48, (5, 5, 5)
RUNS: dict[str, tuple[str, Callable[[TrainConfig], TrainConfig]]] = {
    "pinhole": ("pinhole twin", pinhole_twin),
    "ours": ("ours", lambda config: config),
    "oracle": ("sharp oracle", sharp_oracle),
}


@dataclass(frozen=True)
class DemoConfig:
    """Train on the scene in the package, whose photos are blurred: without a lens, and with one that is learned.

    Takes some minutes on two cores, and goes on where it stopped if it is called again. Writes:
      side-by-side.png   a photo, both results, the truth
      rack-focus.mp4     the trained scene through a lens whose focus moves
      lens.png           the lens found for every photo, against the true one
      table.md           PSNR on held-out views
      pinhole/, ours/    the runs themselves

    For example:
      dofnerf demo
      dofnerf demo --steps 1 --out runs/whole
      dofnerf demo --oracle
    """

    out: Path = Path("runs/demo")
    """The folder to write into; it is made if it is not there."""
    steps: float = 0.56
    """Share of the training steps of the preset fast: less is quicker, and worse; 1 gains about 0.5 dB."""
    oracle: bool = False
    """Train on the all-in-focus photos too, and say which share of the gap between both ours closes."""
    compile_only: bool = False
    """Only compile the CPU kernels, for later runs to find in a cache; `make` does that when it installs."""

    def check(self) -> None:
        """Refuse what could not work, before anything is made."""
        check_folder("--out", self.out)
        check_share(self.steps)


class Result(NamedTuple):
    """A trained run, its PSNR over the held-out views, and what it is called."""

    name: str
    run: Run
    psnr: float


def run(config: DemoConfig) -> list[Path]:
    """Train, compare, draw; returns the files that were written."""
    config.check()
    if config.compile_only:
        compile_kernels()
        return []
    begun = time.monotonic()
    scene = scenes.demo()
    asked = shortened(preset("fast", "splat"), config.steps)
    print(f"scene    {scene.describe()}", flush=True)
    results = {}
    for key in ("pinhole", "ours", *(["oracle"] if config.oracle else [])):
        name, change = RUNS[key]
        results[key] = trained(scene, name, change(asked), config.out / key)

    pinhole, ours = results["pinhole"].run, results["ours"].run
    names = ("side-by-side.png", "rack-focus.mp4", "lens.png", "table.md")
    written = [config.out / name for name in names]
    write_image(written[0], side_by_side(scene, VIEW, pinhole, ours))
    write_video(written[1], rack_focus_frames(ours, scene.camera(VIEW), FRAMES), FPS)
    lenses = photo_lenses(ours, scene)
    assert lenses is not None, "ours has a lens"
    write_image(written[2], lens_plot(lenses, LENS_HEADING, start=False))
    words = table(results, lens_error(ours, scene), len(scene.test))
    with atomic(written[3]) as temporary:
        temporary.write_text(words, encoding="utf-8")
    print(f"\n{words}")
    about = (
        f"held-out view {VIEW}: photo, pinhole twin, ours, truth", "our scene, focus from near to far and back",
        "the lens found for each photo, against the true one", "the table above",
    )  # fmt: skip
    for path, what in zip(written, about, strict=True):
        print(f"wrote    {path}: {what}")
    print(f"runs     {', '.join(str(config.out / key) for key in results)}")
    print(f"time     {time.monotonic() - begun:.0f} s")
    return written


def compile_kernels() -> None:
    """All that a demo uses, by a small one that leaves nothing behind."""
    scene = scenes.demo(width=WARM_WIDTH)
    run = train(scene, replace(preset("fast", "splat"), steps=StepsConfig(*WARM_STEPS)))
    run.render(scene.camera(VIEW), 1.0)
    if isinstance(run.model, SplatModel):
        run.model.blame(scene.camera(VIEW), None, torch.zeros(scene.camera(VIEW).height, scene.camera(VIEW).width))


def trained(scene: Scene, name: str, training: TrainConfig, folder: Path) -> Result:
    """The run in the folder, gone on with or begun; says so."""
    print(f"train    {name}: {training.steps.total} steps in {folder}", flush=True)
    try:
        done = train(scene, training, out=folder, resume=True, keep=KeepConfig(preview_minutes=0), quiet=False)
    except ValueError as error:
        if (folder / FILE).exists():  # of another version or another --steps
            raise ValueError(f"{error}; to begin anew, remove {folder} or give another --out") from None
        raise
    result = Result(name, done, held_out_psnr(done, scene))
    print(
        f"         PSNR {result.psnr:.2f} dB on views it has not seen; trained for {done.learner.standing.seconds:.0f} s"
    )
    return result


def table(results: dict[str, Result], off: LensError, views: int) -> str:
    """The figures as Markdown."""
    lines = [f"| sharp render of {views} held-out views against the truth | PSNR | training |", "|---|---|---|"]
    lines += [f"| {r.name} | {r.psnr:.2f} dB | {r.run.learner.standing.seconds:.0f} s |" for r in results.values()]
    if "oracle" in results:
        gap = results["oracle"].psnr - results["pinhole"].psnr
        share = (results["ours"].psnr - results["pinhole"].psnr) / gap if gap > 0 else float("nan")
        lines += [f"| share of the gap between twin and oracle that ours closes | {share:.2f} | |"]
    lines += ["", "| learned lens against the true one | mean error |", "|---|---|"]
    lines += [f"| aperture | {100 * off.aperture:.1f} % |"]
    lines += [f"| focus, in disparity | {100 * off.focus:.1f} % of the scene's range |"]
    return "\n".join(lines) + "\n"
