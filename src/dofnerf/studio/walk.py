"""What the walk-around page is told of a source: cameras and lenses of the photos, where it opens, how far it
reaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.pictures import to_bytes
from dofnerf.optics import Lens
from dofnerf.optics.lens import inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import LAYERS, LEARNED, LensFlags, automatic_aperture
from dofnerf.studio.rgbd import RGBD
from dofnerf.studio.shoot import sharp_picture
from dofnerf.studio.source import Source
from dofnerf.studio.viewpoints import photos_of
from dofnerf.web.walk_page import Walk, packed_model, page

POSTER = 640  # pixels across
SEEN = 96  # pixels across of the views from which the range of depths is taken
VIEWS = 12  # as many


def walk_of(
    source: Source, home: Viewpoint, flags: LensFlags, title: str, free: bool = False
) -> tuple[Walk, np.ndarray]:
    """(what the page is told, its poster (H, W, 3) uint8). It opens at `home`, behind the lens that the flags ask for
    or one like those of the photos. Refuses a view that shows nothing."""
    from dofnerf.models.base import PLAIN

    camera = home.camera.resized(min(home.camera.width, POSTER))
    _, picture = sharp_picture(source.model, camera)
    if picture.holes.all():
        raise ValueError(f"{source.path}: view {home.name} shows nothing; give another view")
    photos = photos_of(source)
    disparity, _ = replace(flags, focus_at=None).disparity(picture)
    if flags.focus_at is not None:
        _, whole = sharp_picture(source.model, home.camera)
        disparity, _ = flags.disparity(whole)
    automatic, _ = automatic_aperture(picture, [disparity])
    automatic *= home.camera.fx / camera.fx
    if not flags.shaped and source.optics is not None and source.optics.shape is not None:
        flags = replace(flags, shape=LEARNED)
    given = flags.opening(home.camera, source.optics)
    usual, radius = automatic, None if source.optics is None else source.optics.radius
    if radius is not None and any(view.lens is not None for view in photos):
        usual = radius * home.camera.fx  # as that of --stops
    own = None if (home.photo or home.name) in source.unknown else home.lens
    aperture = given[0] if given else usual if own is None else own.aperture
    lens = Lens(float(aperture), inverse(disparity), flags.aperture_shape(source.optics))
    blur = replace(PLAIN, layers=1 if source.flat else LAYERS, light=source.light)
    small = lens.scaled(camera.fx, home.camera.fx)
    shown = source.model.view(camera, small, blur).image if aperture > 0 else source.model.view(camera).image
    scale = flags.scale(source.optics)
    focal_mm = flags.focal_mm(home.camera, source.optics)
    walk = Walk(
        title, photos, home.camera, lens, depth_range(source, [home.camera, *(view.camera for view in photos)],
        picture),
        usual, tuple(source.upward.tolist()), None if scale is None else scale.metres, focal_mm, free,
    )  # fmt: skip
    return walk, to_bytes(shown.clamp(0, 1).cpu().numpy())


def walk_page(source: Source, home: Viewpoint, flags: LensFlags, title: str, free: bool = False) -> str | None:
    """The page with the scene inside; None of a source that is not made of splats."""
    scene = packed(source)
    if scene is None:
        return None
    walk, poster = walk_of(source, home, flags, title, free)
    return page(walk.facts(), poster, scene)


def packed(source: Source) -> bytes | None:
    """The source's Gaussians as the page reads them; None if it has none."""
    return packed_model(source.model, source.light)


def depth_range(source: Source, cameras: list[Camera], first: RGBD) -> tuple[float, float]:
    """The disparities (far, near) that some views see, with a little room."""
    ends = [first.disparity_range()]
    for camera in cameras[:: max(1, len(cameras) // VIEWS)][:VIEWS] if source.model.is_quick else ():
        _, picture = sharp_picture(source.model, camera.resized(min(camera.width, SEEN)))
        if not picture.holes.all():
            ends.append(picture.disparity_range())
    far, near = min(end[0] for end in ends), max(end[1] for end in ends)
    return max(far - 0.02 * (near - far), 0.0), near + 0.05 * (near - far)
