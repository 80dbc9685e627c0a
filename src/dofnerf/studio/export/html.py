"""A page that anybody can refocus: `--html`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import Job, Kind, register
from dofnerf.studio.flags import AUTOMATIC_BLUR, automatic_aperture

LARGE_PAGE = 3.0  # megabytes, from which on a page is said to be large
WIDEST = 2.0  # the widest aperture that a page offers, in automatic ones


@register
class Page(Kind):
    """One HTML file for each view."""

    name = "html"
    about = "A page: one HTML file for each view, which works from disk and offline. Click to focus, turn the lens."
    per_view = True
    suffixes = (".html", ".htm")

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        assert view is not None
        return job.out if job.config.single else job.out / f"{view.name}.html"

    def write(self, job: Job, view: Viewpoint | None) -> str:
        from dofnerf.optics import Lens
        from dofnerf.web import LensPage

        assert view is not None
        picture, camera, flags, path = job.layered(view), view.camera, job.config.lens, self.target(job, view)
        if picture.sharp.holes.all():
            raise ValueError(f"{job.source.path}: view {view.name} shows nothing; give another view")
        try:
            disparity, _ = flags.disparity(picture.sharp)
        except ValueError as error:
            raise ValueError(f"{job.source.path}: view {view.name}: {error}") from None
        aperture, _ = flags.opening(camera.width, camera, job.source.optics) or automatic_aperture(
            picture.sharp, [disparity]
        )
        shape = replace(flags.aperture_shape(), rotation=math.radians(flags.rotation))
        far, near = picture.sharp.disparity_range()
        widest = WIDEST * AUTOMATIC_BLUR * camera.width / max(near - far, 1e-9)
        photos = job.source.optics
        scale, radius = flags.scale(photos), None if photos is None else photos.radius
        focal_mm = flags.focal_length or camera.fx / camera.width * flags.sensor(photos)
        fstop = None if scale is None else Lens(1.0).f_number(focal_mm, camera.fx, 1000 * scale.metres)
        photo_aperture = None if radius is None else radius * camera.fx
        title, lens = (
            f"{job.source.path.resolve().name} {view.name}",
            Lens(aperture, shape=shape, focus_disparity=disparity),
        )
        LensPage(title, picture.layers, camera, lens, (far, near), widest, fstop, photo_aperture).write(path)
        megabytes = path.stat().st_size / 1e6
        large = f", more than {LARGE_PAGE:g}: a smaller --width, or fewer --layers, makes a smaller page"
        words = f"{camera.width} × {camera.height}, {job.config.layers} layers, {megabytes:.2f} MB"
        return f"{words}{large * (megabytes > LARGE_PAGE)}"
