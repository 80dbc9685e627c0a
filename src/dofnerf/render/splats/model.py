"""A scene made of Gaussians, and the three ways to put a lens before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.optics import scatter, to_display, to_linear
from dofnerf.optics.light import Curve
from dofnerf.rays import lens_points
from dofnerf.render.splats import CLASSIC, Backend, Drawn, Gaussians, Style, draw
from dofnerf.render.view import View, ViewLens

Blur = Literal["gaussian", "scatter"]


class SplatModel(nn.Module):
    """Camera and lens in, picture out. Its parameters are the tensors of `Gaussians`, and have their names.

    A sharp view blends in the light of `style`, a view through a lens in the light of that lens: the same for scenes trained
    here, where aperture 0 is the sharp view. Gaussians of other tools, which blend display values (`Style(light=1)`), look
    sharp as they do there, and get their blur in linear light all the same. `background` (3,), display values, lies behind.
    """

    background: Tensor

    def __init__(self, gaussians: Gaussians, style: Style = CLASSIC, background: Tensor | None = None) -> None:
        super().__init__()
        for name, tensor in zip(Gaussians._fields, gaussians, strict=True):
            setattr(self, name, nn.Parameter(tensor.detach().clone()))
        self.style = style
        black = torch.zeros(3, dtype=gaussians.means.dtype, device=gaussians.means.device)
        self.register_buffer("background", black if background is None else background.detach().clone())

    @property
    def gaussians(self) -> Gaussians:
        """The parameters."""
        return Gaussians(*(getattr(self, name) for name in Gaussians._fields))

    def view(self, camera: Camera, lens: ViewLens | None = None, blur: Blur = "gaussian", backend: Backend = "auto") -> View:
        """The picture that a camera takes. Gradients reach the Gaussians and the lens.

        "gaussian" blurs each Gaussian by its own depth: it knows what is hidden, but not the aperture's shape; disparity and
        alpha are then those of the blurred Gaussians. Where many opaque ones lie upon each other, as in scenes that were not
        trained so, edges out of focus grow: alphas do not add. "scatter" blurs the sharp picture by its mean disparity, as the
        paper does, in the shape of `lens.kernel`.
        """
        if lens is None or blur == "scatter":
            drawn = draw(self.gaussians, camera, style=self.style, backend=backend)
            image = to_display(self._before_background(drawn, self.style.light), self.style.light)
            if lens is not None:
                image = scatter(image, lens.coc_radius(drawn.mean_disparity()), lens.kernel, lens.light)
        elif blur == "gaussian":
            style = replace(self.style, light=lens.light)
            drawn = draw(self.gaussians, camera, lens.aperture, lens.focus_disparity, style=style, backend=backend)
            image = to_display(self._before_background(drawn, lens.light), lens.light)
        else:
            raise ValueError(f"blur must be 'gaussian' or 'scatter', found {blur!r}")
        return View(image, drawn.mean_disparity(), drawn.alpha)

    def view_exact(self, camera: Camera, lens: ViewLens, points: int = 64, generator: torch.Generator | None = None) -> Tensor:
        """The image (H, W, 3) of a real lens: the mean light of sharp views from `points` points of it, of any shape.

        Slow, and right at every occlusion. Gradients reach the Gaussians and the lens; a few points, new ones at each step,
        are a training loss.
        """
        if points < 1:
            raise ValueError(f"points must be 1 or more, found {points}")
        style = replace(self.style, light=lens.light)
        total: Tensor | float = 0.0
        for x, y in lens_points((1,), points, lens.kernel.blades, lens.kernel.rotation, generator)[0].tolist():
            drawn = draw(self.gaussians, camera, lens.aperture, lens.focus_disparity, (x, y), style)
            total = total + self._before_background(drawn, lens.light)
        return to_display(torch.as_tensor(total) / points, lens.light)

    def _before_background(self, drawn: Drawn, light: Curve) -> Tensor:
        return drawn.light + (1 - drawn.alpha)[..., None] * to_linear(self.background, light)
