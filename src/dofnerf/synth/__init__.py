"""Scenes whose lens is known exactly."""

from dofnerf.synth.layouts import LAYOUTS
from dofnerf.synth.lens import LensSceneConfig, make_lens_scene

__all__ = ["LAYOUTS", "LensSceneConfig", "make_lens_scene"]
