"""Scenes whose lens is known exactly."""

from dofnerf.lab.synth.layouts import LAYOUTS
from dofnerf.lab.synth.lens import LensSceneConfig, make_lens_scene

__all__ = ["LAYOUTS", "LensSceneConfig", "make_lens_scene"]
