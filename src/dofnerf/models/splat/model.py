"""A scene made of 3D Gaussians."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.files.ply import Splats
from dofnerf.models.base import PLAIN, Blur, Model, Parts, View
from dofnerf.models.losses import thickness_loss
from dofnerf.models.splat.blurs import Shot, blur_model, points_of_parts, sharp_picture, sub_apertures
from dofnerf.models.splat.gaussians import LOW_PASS
from dofnerf.models.splat.quick import quick_picture
from dofnerf.models.splat.raster import (
    CLASSIC,
    Gaussians,
    Style,
    attribute,
    draw,
    from_colour,
    from_column,
    project,
    rasterise,
)
from dofnerf.optics import scatter_layers, to_display
from dofnerf.optics.layers import Layers
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import Curve
from dofnerf.optics.shapes import Disc

_ROUNDING = 0.999  # so that the nearest photo itself sees Gaussians as they were trained
_OPACITY = 0.5  # of Gaussians at the start
_SIZE = 0.7  # of Gaussians at the start, in distances to their neighbours
_SUB_APERTURES = 12  # in a view of one layer; fewer would be visible in light sources out of focus
_PARTS_OF_REAL_LENS = 61  # sub-apertures through which a lens with a character is seen
_SHARPLY = 4  # the power of two probabilities between which the likelier one is chosen: without a jump
_SEEN, _FAINT = 0.5, 0.02  # alpha below which a pixel's disparity is ignored in the view, and in a layer


def likely_value(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """Of a quantity that has mostly two values, the likelier one, by its moments E[x], E[x²], E[x³]; the mean of both
    where they are equally likely."""
    variance = (second - first * first).clamp(min=1e-12)
    skew = (third - 3 * first * second + 2 * first**3) / variance**1.5
    root = (skew * skew + 4).sqrt()
    likely_high, likely_low = (((1 - sign * skew / root) / 2) ** _SHARPLY for sign in (1, -1))
    above, below = ((skew + sign * root) / 2 for sign in (1, -1))
    return first + variance.sqrt() * (likely_high * above + likely_low * below) / (likely_high + likely_low)


class SplatModel(Model):
    """The parameters are those of `Gaussians`, with the harmonics in two: `base` of degree 0, and `directional`.

    A sharp view is blended in the light of `style`, a view through a lens in that of `Blur.light`. These are the same
    for scenes trained here, so aperture 0 gives the sharp view. Gaussians of other tools, which blend display values
    (`Style(light=1)`), look as they do there if sharp, and are blurred in linear light all the same. `background` (3,)
    is in display values. `unit` is the median size at the start, in which learning rates are measured. `seen_from`
    (M, 4): positions and focal lengths in pixels of the training photos, if there are any (see `seen_by`).
    """

    is_quick = True
    background: Tensor
    unit: Tensor
    seen_from: Tensor

    def __init__(
        self,
        gaussians: Gaussians,
        style: Style = CLASSIC,
        background: Tensor | None = None,
        seen_from: Tensor | None = None,
    ) -> None:
        super().__init__()
        like, harmonics = gaussians.means.detach(), gaussians.harmonics
        self.means, self.log_scales, self.rotations, self.opacity_logits, self.base, self.directional = (
            nn.Parameter(tensor.detach().clone()) for tensor in (*gaussians[:4], harmonics[:, :1], harmonics[:, 1:])
        )
        self.style = style
        self._finest: tuple[Tensor, Tensor] | None = None
        self.register_buffer("background", like.new_zeros(3) if background is None else background.detach().clone())
        size = gaussians.log_scales.detach().mean(-1).exp()
        self.register_buffer("unit", size.median() if len(size) else like.new_ones(()))
        photos = like.new_zeros(0, 4) if seen_from is None else seen_from.to(like)
        self.register_buffer("seen_from", photos, persistent=False)

    @property
    def gaussians(self) -> Gaussians:
        """The parameters."""
        harmonics = torch.cat([self.base, self.directional], dim=1)
        return Gaussians(self.means, self.log_scales, self.rotations, self.opacity_logits, harmonics)

    @torch.no_grad()
    def seen_by(self, camera: Camera) -> Gaussians:
        """The Gaussians without detail that is finer than what the photos could tell.

        Training adds the low-pass filter of a pixel to each. Nothing keeps a Gaussian from being thinner than that, and
        in a larger or nearer picture, whose pixels are finer, it would show as a needle. So each gets as much variance
        as is missing to the filter of the photo whose pixels are the finest there. (The 3D smoothing filter of
        Mip-Splatting, Yu et al. 2024; ours is added when a picture is drawn, and training photos look as they did.)
        """
        found = self.gaussians
        if not len(self.seen_from):
            return found
        eye = torch.from_numpy(camera.position).to(found.means)
        pixel = (found.means - eye).norm(dim=-1) / camera.fx
        missing = LOW_PASS * ((_ROUNDING * self._finest_pixels()).square() - pixel.square()).clamp(min=0)
        if not bool(missing.any()):
            return found
        return found._replace(log_scales=((2 * found.log_scales).exp() + missing[:, None]).log() / 2)

    def _finest_pixels(self) -> Tensor:
        """(N,): the side of the finest pixel with which a photo shows each Gaussian, in scene units; remembered until
        Gaussians move, for with many photos this takes longer than a picture."""
        means = self.means.detach()
        if self._finest is not None and self._finest[0].device == means.device and means.equal(self._finest[0]):
            return self._finest[1]
        finest = torch.full_like(means[:, 0], torch.inf)
        for photo in self.seen_from:  # one after the other: all at once may not fit into memory
            finest = torch.minimum(finest, (means - photo[:3]).norm(dim=-1) / photo[3])
        self._finest = means.clone(), finest  # (fused Adam does not count versions)
        return finest

    @torch.no_grad()
    def view(self, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN) -> View:
        """The picture of a camera; through a lens in `blur.layers` layers of depth. One layer is faster and less exact:
        blur model "gaussian", or "scatter" if the aperture is not a disc. A lens with a character is seen through many
        sub-apertures."""
        if lens is not None and lens.shape.is_flat and blur.layers > 1:
            sharp, layers = self.layers(camera, blur.layers)
            radius = lens.coc_radius_from_disparity(layers.disparity)
            image = scatter_layers(layers.colour, layers.alpha, radius, lens.shape, blur.light)
            return sharp._replace(image=image)
        seen, shot = self.seen_by(camera), Shot(self.style, self.background, blur.light)
        if lens is None:
            return sharp_picture(seen, camera, shot)
        drawn = rasterise(shot.project(seen, camera), camera.width, camera.height)
        if not lens.shape.is_flat:
            shot = replace(shot, sub_apertures=_PARTS_OF_REAL_LENS)
            image = blur_model("gaussian").picture(seen, camera, lens, shot).image
        elif isinstance(lens.shape, Disc):
            image = quick_picture(seen, camera, lens, replace(shot, sub_apertures=_SUB_APERTURES))
        else:
            image = blur_model("scatter").picture(seen, camera, lens, shot).image
        return View(image, drawn.mean_disparity(), drawn.alpha)

    @torch.no_grad()
    def surface(self, camera: Camera, sharp: View) -> Tensor:
        projected = project(self.seen_by(camera), camera, style=self.style)
        disparity, drawn = projected.table[:, 9], projected.reach > 0
        if not bool(drawn.any()):
            return sharp.disparity
        low = disparity[drawn].min()
        step = (disparity[drawn].max() - low).clamp(min=1e-12)
        share = ((disparity - low) / step).clamp(0, 1)
        powers = torch.stack([share, share**2, share**3], dim=1)  # drawn as colours
        table = torch.cat([projected.table[:, :6], powers, projected.table[:, 9:]], dim=1)
        seen = rasterise(projected._replace(table=table), camera.width, camera.height)
        moments = seen.light.double() / seen.alpha.double().clamp(min=1e-6)[..., None]
        found = low + step * likely_value(*moments.unbind(-1)).to(low)
        return torch.where(seen.alpha > _FAINT, found, sharp.disparity)

    @torch.no_grad()
    def light(self, camera: Camera, curve: Curve) -> Tensor:
        if curve != self.style.light:
            return super().light(camera, curve)
        drawn = rasterise(project(self.seen_by(camera), camera, style=self.style), camera.width, camera.height)
        return Shot(self.style, self.background).over_background(drawn, curve)

    @torch.no_grad()
    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        """The Gaussians in `count` bins of equal steps in disparity, from the farthest to the nearest thing seen, each
        bin rendered alone: it shows what is occluded in the view, too. Composited, the layers are the view."""
        light, shot = self.style.light, Shot(self.style, self.background)
        projected = project(self.seen_by(camera), camera, style=self.style)
        sharp = shot.finished(rasterise(projected, camera.width, camera.height), light)
        seen = sharp.disparity[sharp.alpha > _SEEN]
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
        step = max((high - low) / count, 1e-12)
        bins = ((1 / projected.depth.clamp(min=self.style.near) - low) / step).floor().clamp(0, count - 1)
        parts = (projected._replace(reach=torch.where(bins == index, projected.reach, 0.0)) for index in range(count))
        drawn = [rasterise(part, camera.width, camera.height) for part in parts]
        alpha = torch.stack([part.alpha for part in drawn])
        middle = low + step * (torch.arange(count, device=alpha.device) + 0.5)[:, None, None]
        depths = torch.where(alpha > _FAINT, torch.stack([part.mean_disparity() for part in drawn]), middle)
        lit = torch.stack([part.light / part.alpha.clamp(min=1e-6)[..., None] for part in drawn])
        lit[0], alpha[0] = shot.over_background(drawn[0], light), 1.0
        return sharp, Layers(to_display(lit, light), alpha.clamp(0, 1), depths)

    def picture(
        self,
        camera: Camera,
        lens: Lens | None = None,
        blur: str = "gaussian",
        degree: int = 3,
        parts: int = 1,
        turn: float = 0.0,
        light: Curve = 2.2,
        columns: tuple[int, int] | None = None,
    ) -> View:
        """The picture of a training photo's camera, with gradients, which reach the Gaussians and the lens; harmonics
        above `degree` are ignored. Of the picture's columns, only those from the first of `columns` up to the second,
        if given.

        `blur` is the name of a blur model (blurs.py). One that divides the lens uses `parts` sub-apertures, rotated by
        `turn`. Blur adds up in linear light of the curve `light`.
        """
        style = replace(self.style, degree=min(degree, self.style.degree))
        shot = Shot(style, self.background, light, parts, turn, columns)
        if lens is None:
            return sharp_picture(self.gaussians, camera, shot)
        view = blur_model(blur).picture(self.gaussians, camera, lens, shot)
        if columns is not None and view.image.shape[1] == camera.width:
            return View(*(part[:, slice(*columns)] for part in view))
        return view

    @torch.no_grad()
    def parts(self, camera: Camera, lens: Lens, count: int) -> Parts:
        style, shot = self.style, Shot(self.style, self.background)
        # Each narrower than its share of the lens: a Gaussian's tails would make the rim of the whole look soft.
        parts = (part._replace(radius=part.radius / 2) for part in sub_apertures(count))
        seen = self.seen_by(camera)
        views = (draw(seen, camera, lens.aperture, lens.focus_disparity, part, style) for part in parts)
        return Parts(torch.stack([shot.over_background(one, style.light) for one in views]), points_of_parts(count))

    def thickness_loss(self, camera: Camera) -> Tensor:
        """How much thicker than surfaces the Gaussians are, in pixels of this camera; gradients reach their sizes."""
        eye = torch.from_numpy(camera.position).to(self.means)
        return thickness_loss(self.log_scales, (self.means.detach() - eye).norm(dim=-1) / camera.fx)

    def warm_up(self, camera: Camera) -> None:
        self.error_share(camera, None, self.means.new_zeros(camera.height, camera.width))

    def splats(self) -> tuple[Splats, tuple[float, ...]]:
        arrays = [tensor.detach().cpu().numpy() for tensor in self.gaussians]
        return Splats(*arrays), tuple(self.background.clamp(0, 1).tolist())

    @torch.no_grad()
    def error_share(self, camera: Camera, lens: Lens | None, error: Tensor, left: int = 0) -> Tensor:
        """(N, 2): the part of an `error` (H, W) attributed to each Gaussian by its share of the pixels' colour,
        less where it is out of focus; and how many pixels it covers. The error's first column may be one of the
        picture's, `left`."""
        aperture, focus = (0.0, 0.0) if lens is None else (lens.aperture, lens.focus_disparity)
        projected = project(self.gaussians, camera, aperture, focus, style=self.style)
        radius = 0.0 if lens is None else lens.coc_radius_from_disparity(1 / projected.depth.clamp(min=self.style.near))
        share = attribute(from_column(projected, left), torch.stack([error, torch.ones_like(error)], dim=-1))
        return torch.stack([share[:, 0] / (1 + torch.as_tensor(radius).square()), share[:, 1]], dim=-1)


def begin_splats(
    points: Tensor,
    colours: Tensor,
    sizes: Tensor,
    degree: int,
    light: Curve,
    nearest: float = 1.0,
    seen_from: Tensor | None = None,
) -> SplatModel:
    """Round Gaussians at `points` (N, 3) of `colours` (N, 3) and `sizes` (N,), before their mean colour. `nearest` is
    the least depth of the scene, of which the near plane is a share; `seen_from` as in `SplatModel`."""
    count = len(points)
    harmonics = torch.zeros(count, (degree + 1) ** 2, 3)
    harmonics[:, 0] = from_colour(colours)
    gaussians = Gaussians(
        points,
        (_SIZE * sizes).log()[:, None].repeat(1, 3),
        torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(count, 1),
        torch.full((count,), math.log(_OPACITY / (1 - _OPACITY))),
        harmonics,
    )
    return SplatModel(gaussians, Style(light=light, near=Style.near * nearest), colours.mean(0), seen_from)
