"""What a person does from Python: load whatever lies at a path, shoot it with a lens, and see it in a notebook.

The lens is given by the flags of `dofnerf render`, by name: `run.refocus(3, focus_at=(120, 100), stops=1)`.
"""

from __future__ import annotations

import html
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.files.outputs import write_text
from dofnerf.files.pictures import to_bytes
from dofnerf.models import Blur, View
from dofnerf.optics import Lens, Shape, to_display
from dofnerf.optics.lens import html_table, inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import LAYERS, LensFlags, SplatFileFlags, ViewpointFlags, automatic_aperture, largest_blur
from dofnerf.studio.shoot import photograph, sharp_picture
from dofnerf.studio.source import Source, is_splat_file, open_file, source_of
from dofnerf.studio.viewpoints import viewpoints
from dofnerf.studio.walk import POSTER, walk_page
from dofnerf.train import Run
from dofnerf.train.checkpoint import FILE
from dofnerf.train.run import run_folder
from dofnerf.train.trainer import choose_device
from dofnerf.web import picture_data

PAGES = (".html", ".htm")
LARGEST_PAGE = 12e6  # bytes of a page that still goes into a notebook: it is kept in its file
NAMES = tuple(field.name for field in fields(LensFlags))

__all__ = ["SplatFile", "load", "page", "refocus", "run_html", "save", "source_of"]


def load(path: Path | str, **reading: Any) -> Any:
    """Whatever lies at a path: the Scene of a folder of photos with poses ("demo" is the one in the package), the Run
    of a folder that training wrote, or the SplatFile of a file of 3D Gaussians from any tool.

    `reading` says how: for scenes `format`, `width`, `downscale` and others (see `scenes.load`), for runs and files
    `device`, for files also `blend`, `antialiased` and `background`. A type checker knows more from `scenes.load`,
    `Run.load` and `SplatFile.load`, of which this is one.
    """
    where = Path(path)
    if where.is_file() and where.suffix.lower() != ".safetensors" and _holds_splats(where):
        return SplatFile.load(where, **reading)
    if (where.exists() and (run_folder(where) / FILE).is_file()) or where.suffix.lower() == ".safetensors":
        return Run.load(where, **reading)
    return scenes.load(path, **reading)


def _holds_splats(path: Path) -> bool:
    try:
        return is_splat_file(path)
    except ValueError:
        return False


class SplatFile:
    """3D Gaussians of a file from any tool: they are rendered with a lens, as a `Run` is, and know no photos."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @classmethod
    def load(cls, path: Path | str, device: str = "auto", **drawing: Any) -> SplatFile:
        """The Gaussians of a file; `drawing` (`blend`, `antialiased`, `background`) as in `dofnerf render`."""
        flags = SplatFileFlags(**drawing)
        flags.check(for_file=True)
        return cls(open_file(Path(path), flags, str(choose_device(device))))

    def camera(self, width: int | None = None, **place: Any) -> Camera:
        """A camera that sees them whole, or as `place` says: `eye`, `look_at` and `up` (X, Y, Z), `fov`, `height`."""
        given = {name: _joined(value) for name, value in place.items()}
        flags = ViewpointFlags(width=width, **given)
        flags.check(for_file=True)
        return viewpoints(flags, self.source)[0].camera

    def render(
        self, camera: Camera | None = None, aperture: float = 0.0, focus_depth: float | None = None,
        shape: Shape | None = None, layers: int = LAYERS,
    ) -> View:  # fmt: skip
        """The picture that a camera takes, as `Run.render` says; without a camera, all that there is."""
        camera = camera or self.camera()
        flags = LensFlags(aperture=aperture, focus=focus_depth)
        flags.check()
        view, picture = sharp_picture(self.source.model, camera)
        if aperture == 0 or (picture.holes.all() and focus_depth is None):
            return view
        disparity, _ = flags.disparity(picture)
        return _taken(self.source, camera, Lens(aperture, inverse(disparity), shape), layers=layers)

    def refocus(self, view: Camera | None = None, *, width: int | None = None, samples: int = 0, **lens: Any) -> View:
        """A view through a lens by the lens flags of `dofnerf render`, as `Run.refocus` says."""
        return refocus(self.source, view, width, samples, **lens)

    def save(self, path: Path | str, view: Camera | None = None, **lens: Any) -> None:
        """Write a picture (.png, .jpg, .exr …), as `refocus` gives it, or, as .html, the page to walk around in."""
        save(self.source, Path(path), view, **lens)

    def _repr_html_(self) -> str:
        return _shown(self.source, "")


def refocus(
    source: Source, view: int | str | Camera | None, width: int | None = None, samples: int = 0, **lens: Any
) -> View:
    """See `Run.refocus`."""
    flags, one = lens_flags(**lens), viewpoint(source, view, width)
    _, picture = sharp_picture(source.model, one.camera)
    disparity, _ = flags.disparity(picture)
    opening, _ = flags.opening(one.camera, source.optics) or automatic_aperture(picture, [disparity])
    made = Lens(opening, inverse(disparity), flags.aperture_shape(source.optics))
    largest_blur(picture, [made])
    return _taken(source, one.camera, made, samples)


def save(source: Source, path: Path, view: int | str | Camera | None = None, **lens: Any) -> None:
    """See `Run.save`."""
    if path.suffix.lower() not in PAGES:
        refocus(source, view, **lens).save(path, source.light)
        return
    made = page(source, view, **lens)
    if made is None:
        raise ValueError(f"{path}: only splats make a page to walk around in; for {source.path} use `dofnerf export`")
    write_text(path, made)


def page(source: Source, view: int | str | Camera | None = None, **lens: Any) -> str | None:
    """The page to walk around in, which opens at a view behind this lens; None if the scene is not made of splats."""
    return walk_page(source, viewpoint(source, view), lens_flags(**lens), source.title)


def lens_flags(**lens: Any) -> LensFlags:
    """The lens flags of `dofnerf render` by their names; a point may be a pair of numbers."""
    for name in lens:
        if name not in NAMES:
            raise TypeError(f"a lens has no {name!r}; it has {', '.join(NAMES)}")
    flags = LensFlags(**{name: _joined(value) for name, value in lens.items()})
    flags.check()
    return flags


def viewpoint(source: Source, view: int | str | Camera | None, width: int | None = None) -> Viewpoint:
    """The view by its number or name, or by a camera; the first one that was held out if None."""
    if isinstance(view, Camera):
        camera = view if width is None else view.resized(width)
        return Viewpoint("view", camera)
    flags = ViewpointFlags(view=() if view is None else (str(view),), width=width)
    flags.check(source.splats is not None)
    return viewpoints(flags, source)[0]


def run_html(run: Run) -> str:
    """A run in a notebook: a picture, the page to walk around in, and what was learned for each photo."""
    rows = run.photo_table() if run.has_lens or len(run.learner.quantities.by_name) > 1 else []
    heads = [html.escape(name.replace("_", " ")) for name in rows[0]] if rows else []
    cells = [[html.escape(one) if isinstance(one, str) else one for one in row.values()] for row in rows]
    box = '<div style="max-height: 18em; overflow: auto; margin-top: 0.5em">{}</div>'
    return _shown(source_of(run), box.format(html_table([heads, *cells])) if rows else "")


def _shown(source: Source, table: str) -> str:
    """The picture is what the page opens with; the page is loaded when it is opened, and may do nothing but draw."""
    words = f"<p>{html.escape(source.words)}</p>"
    try:
        one = viewpoint(source, None)
        picture = refocus(source, one.camera.resized(min(one.camera.width, POSTER)))
        inside = page(source)
    except ValueError as error:  # nothing to be seen, or no views: say so, and show the rest
        return f"{words}<p>{html.escape(str(error))}</p>{table}"
    data = picture_data(to_bytes(picture.image.detach().cpu().numpy()), quality=85)
    shown = f'<img src="{data}" alt="" style="max-width: 100%">'
    return f"{words}{shown}{_inline(inside)}{table}"


def _inline(inside: str | None) -> str:
    if inside is None:
        return ""
    if len(inside) > LARGEST_PAGE:
        return f'<p>The page has {len(inside) / 1e6:.0f} MB: <code>.save("scene.html")</code>, and open that.</p>'
    frame = f'<iframe srcdoc="{html.escape(inside)}" sandbox="allow-scripts" loading="lazy" title="The scene"'
    return (
        "<details><summary>Walk around: drag, click to focus</summary>"
        f'{frame} style="width: 100%; height: 30em; border: 0"></iframe></details>'
    )


@torch.no_grad()
def _taken(source: Source, camera: Camera, lens: Lens, samples: int = 0, layers: int = LAYERS) -> View:
    sharp, flat = sharp_picture(source.model, camera)
    if lens.aperture == 0:
        return sharp
    blur = Blur(layers, source.light)
    light = photograph(source.model, camera, lens, blur, samples, flat if source.flat else None)
    return sharp._replace(image=to_display(torch.from_numpy(light), source.light))


def _joined(value: Any) -> Any:
    """A point (X, Y) or (X, Y, Z) as flags write it."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else value
