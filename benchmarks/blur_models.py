"""What does each simplification of the splats' lens cost? Photos are rendered from splats through lenses of several
kinds.

    python benchmarks/blur_models.py                  takes about half an hour on two cores
    python benchmarks/blur_models.py --steps 0.2

Splats trained on the sharp photos of the scene in the package are the reference scene. Its photos are rendered through
the true lens of each view: per Gaussian, as in training; exactly, by 128 views over a Gaussian aperture of the same
variance, where only multiplying alphas instead of adding light is wrong; and exactly through a round aperture, where
the Gaussian is wrong too. Splats trained on those photos are compared with the reference: PSNR of held-out sharp views.
The last line starts from the splats of the reference, with the real photos, and compares with the real sharp photos:
what real photos lose from a perfect start.

Three of the *training* views are held out (see choices.py).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from unittest import mock

import numpy as np
import torch
from scipy.stats import norm, qmc

from dofnerf import scenes
from dofnerf.evaluate.metrics import psnr
from dofnerf.lab.bench.cell import validation
from dofnerf.models.data import TrainingData
from dofnerf.models.splat.model import SplatModel
from dofnerf.models.splat.training import SplatMethod
from dofnerf.optics import DISC, Disc, to_display
from dofnerf.scenes import Scene
from dofnerf.studio.shoot import exact
from dofnerf.train import TrainConfig, on_sharp_photos, preset, shortened, train, trainer

VIEWS = 128


class GaussianAperture(Disc):
    """An aperture whose light falls off as a Gaussian, with the variance of a disc."""

    def points(self, shape: tuple[int, ...], count: int, *_: object) -> torch.Tensor:
        spread = norm.ppf(qmc.Sobol(2, seed=0).random(count).clip(1e-4, 1 - 1e-4)) / 2
        return torch.from_numpy(spread).float().expand(*shape, count, 2)


def rendered(reference: SplatModel, scene: Scene, kind: str) -> torch.Tensor:
    """The training photos (M, H, W, 3) that a lens of that kind takes of the reference scene."""
    photos = []
    for i in scene.train:
        camera, true = scene.camera(i), scene.lens(i)
        shape, light = DISC if kind == "round" else GaussianAperture(), reference.style.light
        with torch.no_grad():
            if kind == "per Gaussian":
                photos.append(reference.picture(camera, true).image)
                continue
            photos.append(to_display(exact(reference, camera, true.with_shape(shape), light, VIEWS), light))
    return torch.stack(photos).clamp(0, 1)


def trained_on(photos: torch.Tensor, scene: Scene, config: TrainConfig) -> SplatModel:
    """Splats trained on other photos than the scene's."""
    usual = trainer.training_data

    def changed(*given: object) -> TrainingData:
        return replace(usual(*given), photos=photos.contiguous())  # type: ignore[arg-type]

    with mock.patch.object(trainer, "training_data", changed):
        return train(scene, config).model  # type: ignore[return-value]


def compared(model: SplatModel, truth: dict[int, np.ndarray], scene: Scene) -> float:
    return float(np.mean([psnr(model.view(scene.camera(i)).image.clamp(0, 1).numpy(), truth[i]) for i in scene.test]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1.0, help="share of the preset's steps")
    given = parser.parse_args()
    scene = validation(scenes.demo())
    parts = shortened(preset("fast", "splat"), given.steps)
    own = parts.method
    longer = {"lens_steps": own.lens_steps + own.sub_aperture_steps, "sub_aperture_steps": 0}
    whole = parts.changed({"method": longer})
    reference = train(scene, on_sharp_photos(parts)).model
    assert isinstance(reference, SplatModel)
    truth = {i: reference.view(scene.camera(i)).image.clamp(0, 1).numpy() for i in scene.test}
    real = {i: scene.sharp(i) for i in scene.test}
    print(f"{scene.describe()}; {own}; reference {compared(reference, real, scene):.2f} dB from the real sharp photos")
    print("\n| the photos' lens | training's lens | PSNR |\n|---|---|---|")
    for kind, name, config in (
        ("per Gaussian", "per Gaussian", whole),
        ("Gaussian", "per Gaussian", whole),
        ("round", "per Gaussian", whole),
        ("round", f"at last {own.sub_apertures} sub-apertures", parts),
    ):
        model = trained_on(rendered(reference, scene, kind), scene, config)
        print(f"| {kind} | {name} | {compared(model, truth, scene):.2f} |", flush=True)
    with mock.patch.object(SplatMethod, "begin", lambda *_: reference):
        model = train(scene, parts.changed({"method": {"pinhole_steps": 0}})).model
    print(f"\nfrom the reference's splats, on the real photos: {compared(model, real, scene):.2f} dB")  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
