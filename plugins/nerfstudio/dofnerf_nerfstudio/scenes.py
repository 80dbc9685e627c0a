"""`dofnerf-data`: every scene that dofnerf reads, for nerfstudio's methods.

nerfstudio reads plain files, so photos (and masks) are copied once as 8-bit PNG, undistorted and of the size asked for,
to a folder in the user's cache.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from appdirs import user_cache_dir
from nerfstudio.cameras.camera_utils import auto_orient_and_center_poses
from nerfstudio.cameras.cameras import Cameras, CameraType
from nerfstudio.data.dataparsers.base_dataparser import DataParser, DataParserConfig, DataparserOutputs
from nerfstudio.data.scene_box import SceneBox
from nerfstudio.plugins.registry_dataparser import DataParserSpecification

from dofnerf import Scene, load
from dofnerf.files import write_image


@dataclass
class DofnerfDataParserConfig(DataParserConfig):
    """A scene that `dofnerf info` understands."""

    _target: type = field(default_factory=lambda: DofnerfDataParser)
    data: Path = Path()
    """The scene: a folder (LLFF, COLMAP, transforms.json …) or its file."""
    width: int | None = None
    """Make photos at most so many pixels wide."""
    hold_every: int | None = None
    """Hold out every n-th photo for evaluation, 0 for none; otherwise as the scene says, else every 9th."""
    cache: Path | None = None
    """Where the copies of the photos go; otherwise the user's cache folder."""


class DofnerfDataParser(DataParser):
    """Poses are turned upright, centred and scaled as nerfstudio's own data parser does."""

    config: DofnerfDataParserConfig

    def _generate_dataparser_outputs(self, split: str = "train", **_) -> DataparserOutputs:
        scene = self._scene()
        chosen = list(scene.train if split == "train" else scene.test or scene.train)
        poses = torch.eye(4).repeat(len(scene), 1, 1)
        poses[:, :3] = torch.from_numpy(np.stack([scene.camera(i).camera_to_world for i in range(len(scene))]))
        poses, transform = auto_orient_and_center_poses(poses, method="up", center_method="poses")
        scale = 1 / max(float(poses[:, :3, 3].abs().max()), 1e-9)
        poses[:, :3, 3] *= scale
        cameras = [scene.camera(i) for i in chosen]
        intrinsics = {
            name: torch.tensor([float(getattr(camera, name)) for camera in cameras])
            for name in ("fx", "fy", "cx", "cy")
        }
        sizes = {name: torch.tensor([getattr(camera, name) for camera in cameras]) for name in ("width", "height")}
        files, masks = self._copies(scene, chosen)
        return DataparserOutputs(
            image_filenames=files,
            mask_filenames=masks,
            cameras=Cameras(
                camera_to_worlds=poses[chosen, :3], **intrinsics, **sizes, camera_type=CameraType.PERSPECTIVE
            ),
            scene_box=SceneBox(aabb=torch.tensor([[-1.0, -1, -1], [1, 1, 1]])),
            dataparser_transform=transform,
            dataparser_scale=scale,
            metadata=_points(scene, transform, scale),
        )

    def _scene(self) -> Scene:
        return load(self.config.data, width=self.config.width, hold_every=self.config.hold_every)

    def _copies(self, scene: Scene, chosen: list[int]) -> tuple[list[Path], list[Path] | None]:
        """Files of the photos, and of their masks if one photo has one; made where they are not there yet."""
        place = Path(self.config.data).resolve()
        root = self.config.cache or Path(user_cache_dir("dofnerf")) / "nerfstudio"
        files, masks = [], []
        masked = any(frame.mask is not None for frame in scene.frames)
        for i in chosen:
            label = scene.frames[i].photo.label
            age = Path(label).stat().st_mtime_ns if Path(label).is_file() else 0
            key = hashlib.sha256(repr((str(place), i, label, age, scene.size)).encode()).hexdigest()[:24]
            files.append(root / f"{key}.png")
            if not files[-1].is_file():
                write_image(files[-1], scene.photo(i))
            if masked:
                masks.append(root / f"{key}-mask.png")
                mask = scene.mask(i)
                if not masks[-1].is_file():
                    counts = np.ones(scene.size[::-1], np.float32) if mask is None else mask.astype(np.float32)
                    write_image(masks[-1], np.repeat(counts[..., None], 3, axis=2))
        return files, masks if masked else None


def _points(scene: Scene, transform: torch.Tensor, scale: float) -> dict[str, torch.Tensor]:
    """Sparse points and their colours, where splats start."""
    if scene.points is None or len(scene.points) == 0:
        return {}
    xyz = torch.from_numpy(np.asarray(scene.points.xyz, np.float32))
    moved = (xyz @ transform[:3, :3].T + transform[:3, 3]) * scale
    return {"points3D_xyz": moved.float(), "points3D_rgb": torch.from_numpy(scene.points.rgb)}


DATAPARSER = DataParserSpecification(DofnerfDataParserConfig(), "Every scene that dofnerf reads.")
