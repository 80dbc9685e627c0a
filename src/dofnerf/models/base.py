"""What a model is, whatever the scene is made of: camera + optional lens in → image, disparity, alpha out.

Volumetric fields march along rays, splats are drawn; nobody who asks for a view needs to know. A model is a torch
module: its parameters learn, and its state (parameters and buffers) is all that a checkpoint keeps of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.optics import Kernel
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.lens import coc_radius_from_disparity
from dofnerf.optics.light import Curve


@dataclass(frozen=True)
class ViewLens:
    """`aperture` in pixels × scene units and `focus_disparity` in 1 / scene units: numbers, or scalar tensors that
    learn.

    `layers` 1 is the paper's blur, more are right at occlusions too. `blur_by` is the depth that counts: the mean of
    depth (the paper's Eq. 11) or of disparity.
    """

    aperture: Tensor | float
    focus_disparity: Tensor | float
    kernel: Kernel = field(default_factory=Kernel)
    layers: int = 1
    light: Curve = 2.2
    blur_by: Literal["depth", "disparity"] = "disparity"

    def coc_radius(self, disparity: Tensor) -> Tensor:
        return coc_radius_from_disparity(disparity, self.aperture, self.focus_disparity)


class View(NamedTuple):
    """`image` (H, W, 3) in display values (lamps may be beyond 1), `disparity` (H, W) and `alpha` (H, W) of the sharp
    view."""

    image: Tensor
    disparity: Tensor
    alpha: Tensor


class Model(nn.Module, ABC):
    """What training changes and a run shows. `notes` say what a person should know about how it began."""

    notes: tuple[str, ...] = ()

    @abstractmethod
    def view(self, camera: Camera, lens: ViewLens | None = None) -> View:
        """The picture that a camera takes, sharp or through a lens, on the model's device; without gradients."""

    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        """The sharp view, and the same cut into `count` layers by depth, the farthest first; without gradients.

        `optics.scatter_layers` puts any lens before them, without asking the model again. A model that can say what
        near things hide does so; this one guesses from what is around.
        """
        sharp = self.view(camera)
        return sharp, split_layers(sharp.image, sharp.disparity, count)
