"""A trained scene: `Run.load(folder)`, `run.render(camera, aperture, focus_depth)`, and what each photo has."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.files import atomic
from dofnerf.files.guard import read_bytes
from dofnerf.models import Blur, Model, View
from dofnerf.models.data import Setting
from dofnerf.optics import LearnedLens, Lens, Shape, inverse
from dofnerf.scenes import Scene, Viewpoint, read_cameras
from dofnerf.train import checkpoint
from dofnerf.train.config import TrainConfig
from dofnerf.train.learner import Learner
from dofnerf.train.precision import error_columns, known_lenses
from dofnerf.train.scale import PhotoOptics, photo_optics

CAMERAS = "cameras.json"


def run_folder(path: Path) -> Path:
    """The folder of a run: `path`, or `run` in it, where `dofnerf run` puts it."""
    inside = path / "run"
    return inside if not (path / checkpoint.FILE).exists() and (inside / checkpoint.FILE).is_file() else path


def views_of(scene: Scene) -> list[Viewpoint]:
    """The views of a scene's photos, as a run keeps them."""
    held = set(scene.test)
    return [Viewpoint(frame.name, frame.camera, held_out=i in held) for i, frame in enumerate(scene.frames)]


class Run:
    """What training gave; `folder` is None if nothing was written. In a notebook it shows itself."""

    def __init__(self, learner: Learner, folder: Path | None = None, views: Sequence[Viewpoint] = ()) -> None:
        self.learner, self.folder, self._views = learner, folder, tuple(views)

    @classmethod
    def load(cls, path: Path | str, device: str = "cpu") -> Run:
        """The run in a folder (or its checkpoint file)."""
        path = run_folder(Path(path))
        file = path / checkpoint.FILE if path.is_dir() else path
        if not file.is_file():
            raise FileNotFoundError(f"{path}: there is no run (no {checkpoint.FILE})")
        return cls(checkpoint.unpack(read_bytes(file), device, str(file)), file.parent)

    @property
    def views(self) -> tuple[Viewpoint, ...]:
        """Cameras and names of the scene's photos, those that were held out too."""
        if not self._views and self.folder is not None and (self.folder / CAMERAS).is_file():
            self._views = tuple(read_cameras(self.folder / CAMERAS))
        return self._views

    @property
    def config(self) -> TrainConfig:
        return self.learner.config

    @property
    def setting(self) -> Setting:
        return self.learner.setting

    @property
    def refined(self) -> Setting:
        """The setting with the photos' focal lengths as they were refined."""
        (width, height), camera = self.setting.size, self.learner.quantities.camera
        given = [Camera(np.eye(4)[:3], px, px, width / 2, height / 2, width, height) for px in self.setting.focal]
        return replace(self.setting, focal=tuple(float(camera(one, i).fx) for i, one in enumerate(given)))

    @property
    def model(self) -> Model:
        return self.learner.model

    @property
    def lens(self) -> LearnedLens:
        """Aperture and focus of the training photos, in the order of `setting.photos`."""
        return self.learner.lens

    @property
    def lenses(self) -> list[Lens]:
        """The lens found for each training photo, in their order; none for a run without one."""
        if not self.has_lens:
            return []
        pairs = zip(self.lens.aperture.tolist(), self.lens.focus_disparity.tolist(), strict=True)
        return [Lens(aperture, inverse(disparity), self.lens.shape) for aperture, disparity in pairs]

    @property
    def has_lens(self) -> bool:
        """Whether any step learned one; a run without a lens model has none."""
        return self.learner.progress.step > self.config.method.pinhole_steps

    @property
    def optics(self) -> PhotoOptics:
        """The photos' lens as a reference for stops and f-numbers: its radius, the scale of the scene, the sensor."""
        return self.optics_by()

    def optics_by(self, sensor_width: float | None = None) -> PhotoOptics:
        """The same with this width of the sensor, in millimetres along the longer side, instead of EXIF's focal
        lengths."""
        lens, known = (self.lens, known_lenses(self.learner)[0]) if self.has_lens else (None, None)
        return photo_optics(self.refined, lens, known, sensor_width)

    @property
    def unknown_lenses(self) -> frozenset[str]:
        """Names of the training photos whose blur does not tell both aperture and focus."""
        known = zip(self.setting.photos, *known_lenses(self.learner), strict=True)
        return frozenset(name for name, aperture, focus in known if not (aperture and focus))

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
        for the depth in the middle of the picture.
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
        return self.model.view(camera, lens, Blur(layers, self.config.light))

    def refocus(
        self, view: int | str | Camera | None = None, *, width: int | None = None, samples: int = 0, **lens: Any
    ) -> View:
        """A view through another lens; `lens` are the lens flags of `dofnerf render` by name.

            run.refocus(3, focus_at=(120, 100), stops=1, blades=6)

        `view` is a number or a name among `views`, or a camera; None for the first held-out one. Where nothing says
        how wide the lens is open, an aperture is chosen. `samples` is for the exact lens: 64 and more; 0 is the quick
        blur.
        """
        return _notebook().refocus(_notebook().source_of(self), view, width, samples, **lens)

    def save(self, path: Path | str, view: int | str | Camera | None = None, **lens: Any) -> None:
        """Write a picture (.png, .jpg, .exr …), as `refocus` gives it, or, as .html, the page to walk around in."""
        _notebook().save(_notebook().source_of(self), Path(path), view, **lens)

    def _repr_html_(self) -> str:
        return _notebook().run_html(self)

    @torch.no_grad()
    def as_shot(self, photo: int, camera: Camera, layers: int = 8) -> View:
        """Training photo number `photo` again, given the scene's camera for it, of any size: through the lens that was
        found for it, and with all else that was learned for it."""
        camera, view = self.learner.quantities.camera(camera, photo), None
        if self.has_lens:
            lens = self.lenses[photo].scaled(camera.width / self.setting.size[0])
            view = self.render(camera, lens.aperture, lens.focus_depth, lens.shape, layers)
        view = view or self.render(camera)
        return view._replace(image=self.learner.quantities.develop(view.image, photo))

    def photo_table(self) -> list[dict[str, float | str]]:
        """A row a training photo: its name, the columns of each quantity that was learned (lenses in scene units), and
        their standard errors."""
        kinds, setting = self.learner.quantities.by_name, self.refined
        learned = [one for name, one in kinds.items() if name != "lens" or self.has_lens]
        columns = {name: values for one in learned or kinds.values() for name, values in one.columns(setting).items()}
        columns = {"photo": self.setting.photos, **columns, **error_columns(self.learner)}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def write_photos(self, path: Path) -> None:
        """The same as CSV; only the head if nothing was learned."""
        rows = self.photo_table()
        learned = self.has_lens or len(self.learner.quantities.by_name) > 1
        with atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows if learned else [])


def _notebook() -> Any:
    """What a person does with a run comes after training in the import order: it is looked up when asked for."""
    return importlib.import_module("dofnerf.studio.notebook")
