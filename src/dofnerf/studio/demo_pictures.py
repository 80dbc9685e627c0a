"""What the demo draws: results side by side, and a rack focus with a camera that sways."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dofnerf.camera import Camera
from dofnerf.evaluate.comparison import ZOOM, Box, zoomed
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.scores import sharp_view
from dofnerf.files import contact_sheet
from dofnerf.scenes import Scene
from dofnerf.studio.refocus import sweep_focuses
from dofnerf.train import Run

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


def side_by_side(scene: Scene, view: int, pinhole: Run, ours: Run) -> np.ndarray:
    """photo | pinhole twin | ours | truth, and the same crop of each beneath, (H, W, 3) uint8."""
    truth = scene.sharp(view)
    assert truth is not None, "the demo's scene has all-in-focus photos"
    shown = [
        ("a photo through the lens", scene.photo(view)),
        ("pinhole twin: takes photos as sharp", sharp_view(pinhole, scene, view)),
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
    from rich.console import Console
    from rich.progress import track

    larger = camera.resized(VIDEO_LARGER * camera.width, VIDEO_LARGER * camera.height)
    far, near = np.percentile(run.render(camera).disparity.cpu().numpy(), [FOCUS_TAIL, 100 - FOCUS_TAIL])
    aperture = WIDE_OPEN * VIDEO_LARGER * float(run.lens.aperture.detach().median())
    reach, pivot = SWAY / near, 2 / (near + far)
    focuses = sweep_focuses(float(far), float(near), frames, loop=True)
    console = Console(stderr=True)
    for k, focus in enumerate(
        track(focuses, "video", console=console, transient=True, disable=not console.is_terminal)
    ):
        turn = 2 * math.pi * k / frames
        moved = sidestep(larger, reach * math.sin(turn), 0.5 * reach * (1 - math.cos(turn)), pivot)
        yield run.render(moved, aperture, 1 / focus, layers=1).image.clamp(0, 1).cpu().numpy()


def sidestep(camera: Camera, right: float, up: float, pivot: float) -> Camera:
    """The camera moved in its own plane, its picture shifted so that what lies at depth `pivot` stays where it is."""
    moved = camera.camera_to_world.copy()
    moved[:, 3] += right * moved[:, 0] + up * moved[:, 1]
    shift = camera.fx * right / pivot, camera.fy * up / pivot
    return replace(camera, camera_to_world=moved, cx=camera.cx + shift[0], cy=camera.cy - shift[1])
