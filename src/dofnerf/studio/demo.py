"""The whole idea on the scene that comes with the package: blurred photos in, a sharp scene and every photo's lens out.

Two runs of one budget. One, *without a lens model*, takes the photos as if they were sharp, as radiance fields and
splats commonly do; *ours* learns each photo's aperture and focus along with the scene. A third, if asked for, is
*trained on sharp photos*: what could be reached if there were no blur.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.evaluate.charts import lens_plot, photo_lenses
from dofnerf.evaluate.comparison import ZOOM, Box, zoomed
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.scores import LensError, held_out_psnr, lens_error, sharp_view
from dofnerf.files import contact_sheet, write_image, write_video
from dofnerf.files.outputs import check_folder, write_text
from dofnerf.files.progress import track
from dofnerf.scenes import Scene
from dofnerf.studio.refocus import sweep_focuses
from dofnerf.train import KeepConfig, Run, TrainConfig, on_sharp_photos, preset, shortened, train, without_lens
from dofnerf.train.checkpoint import FILE
from dofnerf.train.config import check_share

VIEW = 22  # held out: seen by no training; the camera that took it focused near
FRAMES, FPS = 72, 24.0
WARM_WIDTH, WARM_STEPS = 48, {"pinhole_steps": 5, "lens_steps": 5, "sub_aperture_steps": 5}
LARGER = 2  # times that pictures are shown
CROP = 0.68, 0.25  # of the crop, its left and upper edge, as shares of the picture
HEADING = (
    "A view that no training has seen. The training photos are blurred like the first: half focused near, half far."
)
LENS_HEADING = "The lens that took each photo, found from blurred photos alone: training is not told any of it"
VIDEO_LARGER = 2
WIDE_OPEN = 1.5  # the video's aperture, compared with the photos'
SWAY = 0.05  # how far the camera moves each way, in nearest depths
FOCUS_TAIL = 5  # per cent of the picture that lie nearer (or farther) than where focus begins (or turns)
RUNS: dict[str, tuple[str, Callable[[TrainConfig], TrainConfig]]] = {
    "pinhole": ("without a lens model", without_lens),
    "ours": ("ours", lambda config: config),
    "sharp-photos": ("trained on sharp photos", on_sharp_photos),
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
      dofnerf demo --sharp-photos
    """

    out: Path = Path("runs/demo")
    """The folder to write into; it is made if it is not there."""
    steps: float = 0.56
    """Share of the training steps of the preset fast: less is quicker, and worse; 1 gains about 0.5 dB."""
    sharp_photos: bool = False
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
    for key in ("pinhole", "ours", *(["sharp-photos"] if config.sharp_photos else [])):
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
    write_text(written[3], words)
    print(f"\n{words}")
    about = (
        f"held-out view {VIEW}: photo, without a lens model, ours, truth", "our scene, focus from near to far and back",
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
    run = train(scene, preset("fast", "splat").changed({"method": WARM_STEPS}))
    run.render(scene.camera(VIEW), 1.0)
    run.model.warm_up(scene.camera(VIEW))


def trained(scene: Scene, name: str, training: TrainConfig, folder: Path) -> Result:
    """The run in the folder, gone on with or begun; says so."""
    print(f"train    {name}: {training.method.total} steps in {folder}", flush=True)
    try:
        done = train(scene, training, out=folder, resume=True, keep=KeepConfig(preview_minutes=0), quiet=False)
    except ValueError as error:
        if (folder / FILE).exists():  # of another version or another --steps
            raise ValueError(f"{error}; to begin anew, remove {folder} or give another --out") from None
        raise
    result = Result(name, done, held_out_psnr(done, scene))
    print(
        f"         PSNR {result.psnr:.2f} dB on views it has not seen; trained for "
        f"{done.learner.progress.seconds:.0f} s"
    )
    return result


def table(results: dict[str, Result], off: LensError, views: int) -> str:
    """The figures as Markdown."""
    lines = [f"| sharp render of {views} held-out views against the truth | PSNR | training |", "|---|---|---|"]
    lines += [f"| {r.name} | {r.psnr:.2f} dB | {r.run.learner.progress.seconds:.0f} s |" for r in results.values()]
    if "sharp-photos" in results:
        gap = results["sharp-photos"].psnr - results["pinhole"].psnr
        share = (results["ours"].psnr - results["pinhole"].psnr) / gap if gap > 0 else float("nan")
        lines += [f"| share of the gap between the first and the last that ours closes | {share:.2f} | |"]
    lines += ["", "| learned lens against the true one | mean error |", "|---|---|"]
    lines += [f"| aperture | {100 * off.aperture:.1f} % |"]
    lines += [f"| focus, in disparity | {100 * off.focus:.1f} % of the scene's range |"]
    return "\n".join(lines) + "\n"


def side_by_side(scene: Scene, view: int, pinhole: Run, ours: Run) -> np.ndarray:
    """photo | without a lens model | ours | truth, and the same crop of each beneath, (H, W, 3) uint8."""
    truth = scene.sharp(view)
    assert truth is not None, "the demo's scene has all-in-focus photos"
    shown = [
        ("a photo through the lens", scene.photo(view)),
        ("without a lens model: takes photos as sharp", sharp_view(pinhole, scene, view)),
        ("ours: learns the scene and the lens", sharp_view(ours, scene, view)),
        ("the truth: all in focus", truth),
    ]
    above, below = [], []
    for words, image in shown:
        quality = "\nwhat a perfect result would show" if image is truth else f"\nPSNR {psnr(image, truth):.1f} dB"
        whole, crop = zoomed(image, crop_box(scene.size), LARGER)
        above.append((words + quality, whole))
        below.append((f"{ZOOM} times closer", crop))
    return contact_sheet([*above, *below], columns=4, heading=HEADING)


def crop_box(size: tuple[int, int]) -> Box:
    """Where the crop is in a picture of (width, height)."""
    left, top = (round(share * side) for share, side in zip(CROP, size, strict=True))
    return Box(left, top, left + size[0] // ZOOM, top + size[1] // ZOOM)


def rack_focus_frames(run: Run, camera: Camera, frames: int) -> Iterator[np.ndarray]:
    """Focus from near to far and back, wide open, while the camera sways once around; the last frame leads to the
    first."""
    larger = camera.resized(VIDEO_LARGER * camera.width, VIDEO_LARGER * camera.height)
    far, near = np.percentile(run.render(camera).disparity.cpu().numpy(), [FOCUS_TAIL, 100 - FOCUS_TAIL])
    aperture = WIDE_OPEN * VIDEO_LARGER * float(run.lens.aperture.detach().median())
    reach, pivot = SWAY / near, 2 / (near + far)
    focuses = sweep_focuses(float(far), float(near), frames, loop=True)
    for k, focus in enumerate(track(focuses, "video")):
        turn = 2 * math.pi * k / frames
        moved = sidestep(larger, reach * math.sin(turn), 0.5 * reach * (1 - math.cos(turn)), pivot)
        yield run.render(moved, aperture, 1 / focus, layers=1).image.clamp(0, 1).cpu().numpy()


def sidestep(camera: Camera, right: float, up: float, pivot: float) -> Camera:
    """The camera moved in its own plane, its picture shifted so that what lies at depth `pivot` stays where it is."""
    moved = camera.camera_to_world.copy()
    moved[:, 3] += right * moved[:, 0] + up * moved[:, 1]
    shift = camera.fx * right / pivot, camera.fy * up / pivot
    return replace(camera, camera_to_world=moved, cx=camera.cx + shift[0], cy=camera.cy - shift[1])
