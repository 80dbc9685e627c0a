"""A page with a lens: `--html`. Splats are walked around in; `--single-view` is one view in layers."""

from __future__ import annotations

import html
from pathlib import Path

from dofnerf.files.outputs import write_text
from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import ExportConfig, Job, Kind, register
from dofnerf.studio.flags import AUTOMATIC_BLUR, automatic_aperture
from dofnerf.studio.source import Source

LARGE_PAGE = 3.0  # megabytes, from which on a page is said to be large
WIDEST = 2.0  # the widest aperture that a page of one view offers, in automatic ones
IFRAME = '<iframe src="{}" title="{}" width="960" height="640" allow="fullscreen" style="border:0"></iframe>'


@register
class Page(Kind):
    """One HTML file of the whole scene, or of each view."""

    name = "html"
    about = "A page: one HTML file, which works from disk and offline. Walk around, click to focus, turn the lens."
    per_view = True
    suffixes = (".html", ".htm")

    def views(self, config: ExportConfig, source: Source) -> bool:
        return config.single_view or source.model.splats() is None

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        return job.out if job.config.single else job.out / ("scene.html" if view is None else f"{view.name}.html")

    def check(self, job: Job, view: Viewpoint | None) -> None:
        config = job.config
        if view is not None and config.free:
            raise ValueError("--free: a page of a single view has no walls")
        if view is None and config.layers != ExportConfig.layers and config.kinds == [self]:
            raise ValueError("--layers is for --single-view and --rgbd: a page to walk around in has none")
        if view is None and (len(job.views) > 1 or config.viewpoint.views is not None):
            raise ValueError("--html: a page to walk around in opens at one view; give one --view, or --single-view")

    def write(self, job: Job, view: Viewpoint | None) -> str:
        words = write_walk(job) if view is None else self._write_view(job, view)
        path = self.target(job, view)
        megabytes = path.stat().st_size / 1e6
        smaller = "a smaller --width, or fewer --layers, makes a smaller page"
        large = f", more than {LARGE_PAGE:g}" + (f": {smaller}" if view is not None else "")
        return f"{words}, {megabytes:.2f} MB{large * (megabytes > LARGE_PAGE)}"

    def hint(self, job: Job, view: Viewpoint | None) -> str:
        name, words = self.target(job, view).name, html.escape(job.source.title)
        return "" if view is not None else f"embed    {IFRAME.format(name, words)}"

    def _write_view(self, job: Job, view: Viewpoint) -> str:
        from dofnerf.optics import Lens
        from dofnerf.web import LensPage

        picture, camera, flags, path = job.layered(view), view.camera, job.config.lens, self.target(job, view)
        if picture.sharp.holes.all():
            raise ValueError(f"{job.source.path}: view {view.name} shows nothing; give another view")
        try:
            disparity, _ = flags.disparity(picture.sharp)
        except ValueError as error:
            raise ValueError(f"{job.source.path}: view {view.name}: {error}") from None
        aperture, _ = flags.opening(camera, job.source.optics) or automatic_aperture(picture.sharp, [disparity])
        shape = flags.aperture_shape(job.source.optics)
        far, near = picture.sharp.disparity_range()
        widest = WIDEST * AUTOMATIC_BLUR * camera.width / max(near - far, 1e-9)
        photos = job.source.optics
        scale, radius = flags.scale(photos), None if photos is None else photos.radius
        focal_mm, metres = flags.focal_mm(camera, photos), None if scale is None else scale.metres
        fstop = None if metres is None else Lens(1.0).f_number(focal_mm, camera.fx, 1000 * metres)
        photo_aperture = None if radius is None else radius * camera.fx
        lens = Lens(aperture, shape=shape, focus_disparity=disparity)
        name = f"{job.source.title} {view.name}"
        LensPage(name, picture.layers, camera, lens, (far, near), widest, fstop, photo_aperture).write(path)
        return f"{camera.width} × {camera.height}, {job.config.layers} layers"


def write_walk(job: Job) -> str:
    """The page of the whole scene; returns what it is in words."""
    from dofnerf.studio.walk import walk_page

    source, config, path = job.source, job.config, KIND.target(job, None)
    try:
        page = walk_page(source, job.views[0], config.lens, source.title, config.free)
    except ValueError as error:
        raise ValueError(
            f"{source.path}: {error}".replace(f"{source.path}: {source.path}:", f"{source.path}:")
        ) from None
    assert page is not None
    write_text(path, page)
    splats, _ = source.model.splats() or ([], ())
    return f"{len(splats):,} splats to walk around in"


KIND = Page()
