"""A trained scene: `Run.load(folder)`, `run.render(camera, aperture, focus_depth)`, and every photo's lens."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from dofnerf.camera import Camera
from dofnerf.files import atomic
from dofnerf.models import Blur, Model, View
from dofnerf.models.config import TrainConfig
from dofnerf.models.setting import Setting
from dofnerf.optics import LearnedLens, Lens, Shape, inverse
from dofnerf.train import checkpoint
from dofnerf.train.learner import Learner

_COLUMNS = ("photo", "aperture", "K", "focus_depth", "focus_disparity", "lens_radius", "f_number_exif")


class Run:
    """What training gave; `folder` is None if nothing was written."""

    def __init__(self, learner: Learner, folder: Path | None = None) -> None:
        self.learner, self.folder = learner, folder

    @classmethod
    def load(cls, path: Path | str, device: str = "cpu") -> Run:
        """The run in a folder (or its checkpoint file)."""
        path = Path(path)
        file = path / checkpoint.FILE if path.is_dir() else path
        if not file.is_file():
            raise FileNotFoundError(f"{path}: there is no run (no {checkpoint.FILE})")
        return cls(checkpoint.unpack(file.read_bytes(), device, str(file)), file.parent)

    @property
    def config(self) -> TrainConfig:
        return self.learner.config

    @property
    def setting(self) -> Setting:
        return self.learner.setting

    @property
    def model(self) -> Model:
        return self.learner.model

    @property
    def lens(self) -> LearnedLens:
        """Aperture and focus of the training photos, in the order of `setting.photos`."""
        return self.learner.lens

    @property
    def has_lens(self) -> bool:
        """Whether any step learned one; a pinhole run knows no lens."""
        return self.learner.standing.step > self.config.steps.pinhole_steps

    def render(
        self,
        camera: Camera,
        aperture: float = 0.0,
        focus_depth: float | None = None,
        shape: Shape | None = None,
        layers: int = 8,
    ) -> View:
        """The picture that a camera takes: image (H, W, 3), disparity (H, W), alpha (H, W).

        `aperture` in pixels × scene units, 0 for sharp all over; `focus_depth` in scene units (inf is allowed), None
        for what the middle of the picture shows.
        """
        if not (aperture >= 0 and math.isfinite(aperture)):
            raise ValueError(f"aperture must be 0 or more, found {aperture}")
        if focus_depth is not None and not focus_depth > 0:
            raise ValueError(f"focus_depth must be above 0, found {focus_depth}")
        if aperture == 0:
            return self.model.view(camera)
        if focus_depth is None:
            sharp = self.model.view(camera)
            disparity = float(sharp.disparity[camera.height // 2, camera.width // 2])
        else:
            disparity = inverse(focus_depth)
        lens = Lens(aperture, shape=shape, focus_disparity=disparity)
        return self.model.view(camera, lens, Blur(layers, self.config.lens.light))

    def lens_table(self) -> list[dict[str, float | str]]:
        """A row a photo, in scene units; the f-number is the one that the photo's EXIF names."""
        setting, rows = self.setting, []
        for i, row in enumerate(self.lens.table()):
            f_number = setting.f_numbers[i]
            known = {
                "lens_radius": row["aperture"] / setting.focal[i],
                "f_number_exif": "" if f_number is None else f_number,
            }
            rows.append({**row, **known, "photo": setting.photos[i]})
        return rows

    def write_lens(self, path: Path) -> None:
        """The same as CSV."""
        with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            if self.has_lens:
                writer.writerows(self.lens_table())
