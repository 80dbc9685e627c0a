"""What the demo draws: results side by side, a rack focus with a camera that sways, learned lenses against true ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from dofnerf.camera import Camera
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.quality import sharp_view
from dofnerf.pictures import contact_sheet
from dofnerf.pictures.files import to_bytes
from dofnerf.scenes import Scene
from dofnerf.studio.refocus import sweep_focuses
from dofnerf.train import Run

LARGER, ZOOM = 2, 4  # how much larger pictures are shown, and a crop compared with its picture
CROP = 0.68, 0.25  # of the crop, its left and upper edge, as shares of the picture
HEADING = "A view that no training has seen. The training photos are blurred like the first: half focused near, half far."
LENS_HEADING = "The lens that took each photo, found from blurred photos alone: training is not told any of it"
VIDEO_LARGER = 2
WIDE_OPEN = 1.5  # the video's aperture, compared with the photos'
SWAY = 0.05  # how far the camera moves each way, in nearest depths
FOCUS_TAIL = 5  # per cent of the picture that lie nearer (or farther) than where focus begins (or turns)
_INK, _TRUE, _FOUND = "#333333", "#2b6cb0", "#dd6b20"


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
        whole, crop = zoomed(image)
        above.append((words + quality, whole))
        below.append((f"{ZOOM} times closer", crop))
    return contact_sheet([*above, *below], columns=4, heading=HEADING)


def zoomed(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The picture, larger and with a frame around the crop; and that crop at the same size."""
    picture = Image.fromarray(to_bytes(image))
    width, height = picture.size
    size = LARGER * width, LARGER * height
    left, top = round(CROP[0] * width), round(CROP[1] * height)
    box = left, top, left + width // ZOOM, top + height // ZOOM
    crop = picture.resize(size, Image.Resampling.LANCZOS, box=box)
    whole = picture.resize(size, Image.Resampling.LANCZOS)
    frame = tuple(LARGER * edge for edge in box)
    draw = ImageDraw.Draw(whole)
    draw.rectangle((frame[0] - 3, frame[1] - 3, frame[2] + 2, frame[3] + 2), outline="black", width=1)
    draw.rectangle((frame[0] - 2, frame[1] - 2, frame[2] + 1, frame[3] + 1), outline="white", width=2)
    return np.asarray(whole), np.asarray(crop)


def rack_focus_frames(run: Run, camera: Camera, frames: int) -> Iterator[np.ndarray]:
    """Focus from near to far and back, wide open, while the camera sways once around; the last frame leads to the first."""
    from rich.console import Console
    from rich.progress import track

    larger = camera.resized(VIDEO_LARGER * camera.width, VIDEO_LARGER * camera.height)
    far, near = np.percentile(run.render(camera).disparity.cpu().numpy(), [FOCUS_TAIL, 100 - FOCUS_TAIL])
    aperture = WIDE_OPEN * VIDEO_LARGER * float(run.lens.aperture.detach().median())
    reach, pivot = SWAY / near, 2 / (near + far)
    focuses = sweep_focuses(float(far), float(near), frames, loop=True)
    console = Console(stderr=True)
    for k, focus in enumerate(track(focuses, "video", console=console, transient=True, disable=not console.is_terminal)):
        turn = 2 * math.pi * k / frames
        moved = sidestep(larger, reach * math.sin(turn), 0.5 * reach * (1 - math.cos(turn)), pivot)
        yield run.render(moved, aperture, 1 / focus).image.clamp(0, 1).cpu().numpy()


def sidestep(camera: Camera, right: float, up: float, pivot: float) -> Camera:
    """The camera moved in its own plane, its picture shifted so that what lies at depth `pivot` stays where it is."""
    moved = camera.camera_to_world.copy()
    moved[:, 3] += right * moved[:, 0] + up * moved[:, 1]
    shift = camera.fx * right / pivot, camera.fy * up / pivot
    return replace(camera, camera_to_world=moved, cx=camera.cx + shift[0], cy=camera.cy - shift[1])


def lens_plot(scene: Scene, run: Run) -> np.ndarray:
    """Aperture and focus of each training photo, learned and true, (H, W, 3) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    photos = np.array(scene.train)
    true = [scene.lens(i) for i in scene.train]
    assert all(true), "the demo's scene knows its lens"
    figure = Figure(figsize=(11, 4.6), dpi=110, facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(
        "The lens that took each photo, found from blurred photos alone: training is not told any of it",
        fontsize=12,
        color=_INK,
    )
    wide, deep = figure.subplots(1, 2)
    _compare(wide, photos, [lens.aperture for lens in true if lens], run.lens.aperture.tolist())
    wide.set_ylim(0, 1.35 * max(wide.dataLim.ymax, 1e-6))
    wide.set_title("How wide open: aperture", fontsize=11, color=_INK)
    wide.set_ylabel("aperture (pixels × scene units)", color=_INK)
    _compare(deep, photos, [lens.focus_depth for lens in true if lens], run.lens.focus_depth.tolist())
    deep.set_yscale("log")
    deep.set_ylim(scene.near, scene.far)
    ticks = [tick for tick in (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12) if scene.near <= tick <= scene.far]
    deep.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    deep.set_yticks([], minor=True)
    deep.set_title("How far away is sharp: focus", fontsize=11, color=_INK)
    deep.set_ylabel("focus depth (scene units; the scene's range)", color=_INK)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _compare(axes: Any, photos: np.ndarray, true: list[float], found: list[float]) -> None:
    axes.scatter(photos, true, s=90, facecolors="none", edgecolors=_TRUE, linewidths=1.6, label="true")
    axes.scatter(photos, found, s=22, color=_FOUND, label="learned", zorder=3)
    axes.set_xlabel("photo", color=_INK)
    axes.set_xticks(range(0, int(photos.max()) + 1, 2))
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(loc="upper right", ncols=2, framealpha=1)
    axes.tick_params(colors=_INK)
