"""A scene at a glance: a few lines of text, and a sheet with its photos and its cameras from above and the side."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from dofnerf.camera import Camera
from dofnerf.files import write_image
from dofnerf.optics.lens import Lens
from dofnerf.scenes.exif import in_seconds
from dofnerf.scenes.scene import Scene
from dofnerf.scenes.source import resize

THUMBNAILS = 24
COLUMNS = 8
# The sheet's measures in inches, at 100 pixels each.
WIDE, TITLE, PLOT, GAP, LABEL = 16.0, 0.65, 3.4, 0.12, 0.2
_RANGES = {
    "file": "by the files",
    "points": "by the sparse points",
    "cameras": "a guess from the cameras, until training measures it",
}
INK, TRAIN, TEST = "#333333", "#2b6cb0", "#dd6b20"


def describe(scene: Scene) -> str:
    """What the scene is and has, one fact a line; the first line stands alone."""
    lines = [scene.describe()]
    facts = [
        ("held out", ", ".join(map(str, scene.test)) or "none"),
        ("cameras", _cameras(scene)),
        ("brackets", describe_brackets(scene)),
        ("masks", describe_masks(scene)),
        ("points", _points(scene)),
        ("range", f"{scene.near:.4g} to {scene.far:.4g}, {_RANGES[scene.range_from]}"),
        ("unit", "" if scene.metres is None else f"{scene.metres:.4g} m"),
        ("exif", _exif(scene)),
        ("lens", _lenses([lens for lens in map(scene.lens, range(len(scene))) if lens])),
        *(("note", note) for note in scene.notes),
    ]
    return "\n".join(lines + [f"  {label:<9} {text}" for label, text in facts if text])


def describe_photos(scene: Scene) -> str:
    """A line for each photo: its sparse points, their mean error, and its depth range."""
    lines = []
    wide = max(len(Path(frame.name).stem[:32]) for frame in scene.frames)
    for i, frame in enumerate(scene.frames):
        seen = scene.visible(i)
        facts = [f"{len(seen.ids)} points, {seen.error.mean():.2f} px off"] if len(seen.ids) else []
        facts += ["depth {:.4g} to {:.4g}".format(*frame.bounds)] if frame.bounds else []
        told = scene.exif(i)
        facts += [f"f/{told.f_number:g}"] if told.f_number else []
        facts += [in_seconds(told.exposure_time)] if told.exposure_time else []
        facts += [f"ISO {told.iso:g}"] if told.iso else []
        facts += [f"bracket {frame.bracket}"] if frame.bracket is not None else []
        left_out = masked_share(scene, i)
        facts += [f"mask leaves out {100 * left_out:.0f} %"] if left_out else []
        facts += ["held out"] if i in scene.test else []
        lines.append(f"  {i:>4}  {Path(frame.name).stem[:32]:<{wide}}  {', '.join(facts)}")
    return "\n".join(lines)


def write_contact_sheet(scene: Scene, path: Path | str) -> None:
    """Write the contact sheet as a picture."""
    write_image(path, contact_sheet(scene))


def contact_sheet(scene: Scene) -> np.ndarray:
    """(H, W, 3) uint8: the pictures of the first view, the cameras from above and from the side, up to 24 photos."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = np.unique(np.linspace(0, len(scene) - 1, min(len(scene), THUMBNAILS)).round().astype(int)).tolist()
    width, height = scene.size
    thumb = (WIDE - GAP) / COLUMNS - GAP
    step = thumb * height / width + LABEL + GAP
    rows = -(-len(shown) // COLUMNS)
    tall = TITLE + PLOT + 2 * LABEL + rows * step
    figure = Figure(figsize=(WIDE, tall), facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(GAP / WIDE, 1 - 0.25 / tall, scene.describe(), fontsize=11, color=INK, va="center", parse_math=False)

    def axes(left: float, top: float, wide: float, high: float) -> Any:
        return figure.add_axes((left / WIDE, 1 - (top + high) / tall, wide / WIDE, high / tall))

    first = _first_view(scene)
    wide = min((WIDE - 2 * (PLOT + 0.4)) / len(first) - 2 * GAP, PLOT * width / height)
    for k, (label, image) in enumerate(first):
        _show(axes(GAP + k * (wide + GAP), TITLE, wide, wide * height / width), image, label, INK)
    for k, (label, which) in enumerate((("from above", [0, 2]), ("from the side", [2, 1]))):
        _plot_cameras(axes(WIDE - (2 - k) * (PLOT + 0.4) + 0.4 - GAP, TITLE, PLOT, PLOT), scene, label, which)
    for k, i in enumerate(shown):
        held_out = i in scene.test
        reach = scene.frames[i].bounds
        label = f"{i}  {Path(scene.frames[i].name).stem[:16]}" + ("  test" if held_out else "")
        label += f"  {reach[0]:.3g}–{reach[1]:.3g}" if reach else ""
        place = axes(
            GAP + k % COLUMNS * (thumb + GAP),
            tall - step * (rows - k // COLUMNS) + LABEL,
            thumb,
            thumb * height / width,
        )
        small = scene.camera(i).resized(min(width, 320))
        _show(place, scene.shrunk(i, small.width, small.height), label, TEST if held_out else INK)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def scene_html(scene: Scene) -> str:
    """The scene in a notebook: what it is, and its contact sheet."""
    file = io.BytesIO()
    PIL.Image.fromarray(contact_sheet(scene)).save(file, "WEBP", quality=80)
    picture = f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    words = f'<pre style="white-space: pre-wrap">{html.escape(describe(scene))}</pre>'
    return f'{words}<img src="{picture}" alt="" style="max-width: 100%">'


def _first_view(scene: Scene) -> list[tuple[str, np.ndarray]]:
    """All pictures of the first view; two views' photos if there is but one each."""
    frame = scene.frames[0]
    sources = [(0, "near focus", frame.near), (0, "far focus", frame.far), (0, "sharp", frame.sharp)]
    if frame.near is None and frame.far is None:
        sources.insert(0, (0, "photo", frame.photo))
    if frame.sharp is None and frame.near is None and len(scene) > 1:
        sources.append((len(scene) // 2, "photo", scene.frames[len(scene) // 2].photo))
    found = [(f"view {i}, {label}", scene.picture(i, source)) for i, label, source in sources if source is not None]
    return [(label, resize(image, *_within(image, 700))) for label, image in found]


def _within(image: np.ndarray, limit: int) -> tuple[int, int]:
    height, width = image.shape[:2]
    wide = min(width, limit)
    return wide, max(1, round(height * wide / width))


def _show(axes: Any, image: np.ndarray, label: str, colour: str) -> None:
    axes.imshow(np.clip(image, 0, 1), interpolation="antialiased")
    axes.set_title(label, fontsize=7.5, color=colour, pad=2, loc="left", parse_math=False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(2.0 if colour == TEST else 0.4)


def _plot_cameras(axes: Any, scene: Scene, label: str, which: list[int]) -> None:
    """Cameras as pyramids, points (or the depth range's corners); `which` are two of the axes right, up, forward."""
    cameras = [frame.camera for frame in scene.frames]
    basis = mean_basis(cameras)
    places = np.stack([camera.position for camera in cameras]) @ basis
    drawn = places
    if scene.points is not None and len(scene.points):
        pick = np.random.default_rng(0).permutation(len(scene.points))[:4000]
        cloud = scene.points.xyz[pick] @ basis
        axes.scatter(*cloud[:, which].T, s=1.5, c=scene.points.rgb[pick] / 255, linewidths=0)
        drawn = np.concatenate([places, *np.percentile(cloud, [[2], [98]], axis=0)])
    else:
        reach = [rim_of(camera, depth) @ basis for camera in cameras for depth in (scene.near, scene.far)]
        axes.scatter(*np.concatenate(reach)[:, which].T, s=1.5, color="#999999", linewidths=0)
        drawn = np.concatenate([places, *reach])
    extent = max(float((drawn.max(0) - drawn.min(0)).max()), 1e-6)
    for i, camera in enumerate(cameras):
        rim = rim_of(camera, 0.06 * extent) @ basis
        colour = TEST if i in scene.test else TRAIN
        for k in range(4):
            edge = np.stack([rim[k], places[i], rim[k], rim[k - 1]])[:, which]
            axes.plot(*edge.T, color=colour, linewidth=0.5)
    middle, half = (drawn.max(0) + drawn.min(0))[which] / 2, 0.56 * extent
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    names = [("right", "up", "forward")[axis] for axis in which]
    axes.set_title(f"{label}: {names[0]} →, {names[1]} ↑", fontsize=7.5, color=INK, pad=2, loc="left")
    axes.tick_params(labelsize=6, length=2, color=INK, labelcolor=INK)
    axes.grid(alpha=0.2, linewidth=0.5)


def rim_of(camera: Camera, depth: float) -> np.ndarray:
    """The four corners of what the camera sees at `depth`, (4, 3)."""
    corners = np.array([[0, 0], [camera.width, 0], [camera.width, camera.height], [0, camera.height]], dtype=float)
    return camera.unproject(corners, np.full(4, depth))


def mean_basis(cameras: list[Camera]) -> np.ndarray:
    """(3, 3) with columns right, up, forward of the mean camera; for cameras all around, any forward will do."""
    up = np.mean([camera.camera_to_world[:, 1] for camera in cameras], axis=0)
    up = up / np.linalg.norm(up) if np.linalg.norm(up) > 0.1 else np.array([0.0, 0.0, 1.0])
    forward = np.mean([camera.forward for camera in cameras], axis=0)
    forward = forward - up * (forward @ up)
    if np.linalg.norm(forward) < 0.1:
        axis = np.eye(3)[np.abs(up).argmin()]
        forward = axis - up * (axis @ up)
    forward /= np.linalg.norm(forward)
    return np.stack([np.cross(forward, up), up, forward], axis=1)


def _cameras(scene: Scene) -> str:
    focal = np.array([frame.camera.fx for frame in scene.frames])
    angle = np.degrees(2 * np.arctan(scene.size[0] / (2 * focal)))
    places = np.stack([frame.camera.position for frame in scene.frames])
    reach = np.linalg.norm(places - places.mean(0), axis=1).max()
    return f"focal length {_span(focal)} px, field of view {_span(angle)}°, within {reach:.3g} of their centre"


def describe_brackets(scene: Scene) -> str:
    """How many focus brackets of how many photos, such as "3 focus brackets of 5 photos"; empty if there is none."""
    counts = np.array([len(views) for views in scene.brackets().values()])
    if not len(counts):
        return ""
    return f"{len(counts)} focus bracket{'s' * (len(counts) > 1)} of {_span(counts)} photos"


def masked_share(scene: Scene, i: int) -> float:
    """The share of photo i that its mask leaves out."""
    mask = scene.mask(i)
    return 0.0 if mask is None else float(1 - mask.mean())


def describe_masks(scene: Scene) -> str:
    """How many photos have masks, such as "12 photos have masks, which leave out 3 to 20 % of each"; empty if none."""
    shares = np.array([share for share in (masked_share(scene, i) for i in range(len(scene))) if share])
    if not len(shares):
        return ""
    low, high = f"{100 * shares.min():.2g}", f"{100 * shares.max():.2g}"
    span = low if low == high else f"{low} to {high}"
    few = "photo has a mask, which leaves" if len(shares) == 1 else "photos have masks, which leave"
    return f"{len(shares)} {few} out {span} % of {'it' if len(shares) == 1 else 'each'}"


def _points(scene: Scene) -> str:
    if scene.points is None:
        return ""
    views = [scene.visible(i) for i in range(len(scene))]
    counts = np.array([len(view.depth) for view in views])
    if not counts.any():
        return f"{len(scene.points)}; which photo sees which is unknown"
    error = np.concatenate([view.error for view in views])
    median, most = np.percentile(error, [50, 90])
    return (
        f"{len(scene.points)}; a photo sees {_span(counts)}; reprojection error {error.mean():.2f} px (mean), "
        f"{median:.2f} (median), 90 % below {most:.2f}"
    )


def _exif(scene: Scene) -> str:
    """What cameras wrote down: f-numbers, how many photos share each, and by how much exposures differ."""
    told = [scene.exif(i) for i in range(len(scene))]
    values, counts = np.unique([one.f_number for one in told if one.f_number], return_counts=True)
    words = [f"f/{value:g} ({count})" for value, count in zip(values, counts, strict=True)]
    if all(exposures := [one.exposure for one in told]):
        differ = np.ptp(np.log2(exposures))  # type: ignore[arg-type]
        words += [f"exposure differs by up to {differ:.1f} stops"] if differ >= 0.05 else ["one exposure"]
    return ", ".join(words)


def _lenses(lenses: list[Lens]) -> str:
    if not lenses:
        return ""
    aperture, focus = np.array([(lens.aperture, lens.focus_depth) for lens in lenses]).T
    return f"aperture {_span(aperture)} px × scene units, focus depth {_span(focus)}"


def _span(values: np.ndarray) -> str:
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"
