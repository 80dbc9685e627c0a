"""The whole of it, small, on the physically rendered scene in the package: a lens is worth it, and is the true one."""

import numpy as np

from dofnerf import scenes
from dofnerf.evaluate.scores import held_out_psnr
from dofnerf.train import preset, shortened, train, without_lens


def test_training_with_a_lens_beats_training_without_and_finds_the_apertures():
    scene = scenes.demo(width=84)
    small = {"splats": 3500, "sub_apertures": 4}
    config = shortened(preset("fast"), 0.15).changed({"method": small})
    ours, pinhole = train(scene, config), train(scene, without_lens(config))
    assert held_out_psnr(ours, scene) > held_out_psnr(pinhole, scene) + 2
    true = np.array([scene.lens(i).aperture for i in scene.train])
    found = np.array([lens.aperture for lens in ours.lenses])
    off = np.abs(found / true - 1)
    assert off.mean() < 0.08 and np.quantile(off, 0.9) < 0.15
