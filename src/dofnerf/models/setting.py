"""What a run is about: with the config, and the shapes of a checkpoint's tensors, enough to make its model and lens
again."""

from __future__ import annotations

from dataclasses import dataclass

from dofnerf.models.config import TrainConfig
from dofnerf.models.data import aperture_groups, exif_apertures, exif_focuses, f_numbers
from dofnerf.models.volume.rays import Space, choose_space
from dofnerf.scenes import Scene


@dataclass(frozen=True)
class Setting:
    """Per training photo: `photos` (names), `focal` in pixels, `f_numbers` where EXIF knows, `groups` of shared
    apertures.

    `disparities` are those of the far and the near end of the scene's depth; `apertures` and `focuses` (as disparities)
    are where EXIF lets photos start.
    """

    scene: str
    size: tuple[int, int]
    photos: tuple[str, ...]
    focal: tuple[float, ...]
    f_numbers: tuple[float | None, ...]
    groups: tuple[int, ...]
    disparities: tuple[float, float]
    space: Space
    apertures: tuple[float | None, ...] = ()
    focuses: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, scene: Scene, config: TrainConfig, space: str = "auto") -> Setting:
        count = len(scene.train)
        cameras = [scene.camera(i) for i in scene.train]
        return cls(
            scene=scene.name,
            size=scene.size,
            photos=tuple(scene.frames[i].name for i in scene.train),
            focal=tuple(float(camera.fx) for camera in cameras),
            f_numbers=tuple(f_numbers(scene)),
            groups=tuple(aperture_groups(scene, config.lens.share_aperture) or range(count)),
            disparities=(1 / scene.far, 1 / scene.near),
            space=choose_space(cameras, scene.near, scene.far, space),  # type: ignore[arg-type]
            apertures=tuple(exif_apertures(scene)),
            focuses=tuple(exif_focuses(scene)),
        )
