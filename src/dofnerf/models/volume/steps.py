"""One training step of a volumetric field. The three stages differ in where blur comes from.

*pinhole*: random rays, one a pixel. *patches*: the rays of a patch, concentrated and scattered (Sec. 4.2), the loss
only where no light is missing. *lens rays*: random pixels, each the mean, in linear light, of a few rays through the
lens.

Where a photo is in focus, one ray a pixel does instead of many, so a share of the rays goes there. A photo without any
blur is learned from random rays instead of patches or lens rays.

A mean of few rays is noisy, and the square of noise is loss: it teaches the field to blur what is out of focus. With
`noise_free` the loss is (a − t)(b − t) for two independent means a and b of a pixel t: its expectation is free of the
noise, at the price of a larger variance of the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dofnerf.models.base import BLURS, Blur, NotFinite, Outcome, Steps
from dofnerf.models.losses import residual, sparse_depth_loss
from dofnerf.models.volume.config import VolumeConfig
from dofnerf.models.volume.model import VolumeModel
from dofnerf.models.volume.rays import (
    CameraStack,
    Pixels,
    Rays,
    complete_pixels,
    lens_rays,
    pixel_rays,
    random_patch,
    random_pixels,
    stack_cameras,
)
from dofnerf.models.volume.weights import (
    Concentrated,
    Shaded,
    average_light,
    concentrate,
    concentrate_layers,
    layer_edges,
    put_lens,
)
from dofnerf.optics import DISC, Lens, scatter_layers
from dofnerf.optics.shapes import RIM

_LEFT = 4  # pixels from the middle of a patch that always count, however large a blur claims to be
_REFRESH = 1 / 8  # of the density grid's cells at a time


class VolumeSteps(Steps):
    """Steps on one scene."""

    model: VolumeModel
    config: VolumeConfig

    @property
    def needs_in_focus(self) -> bool:  # type: ignore[override]
        return self.config.in_focus > 0

    def before(self, step: int, generator: torch.Generator) -> None:
        if step % self.config.refresh_every == 0:
            self.model.refresh(_REFRESH, generator)

    def __call__(self, stage: str, generator: torch.Generator) -> Outcome:
        if stage == "lens rays":
            outcome = self._lens_rays(generator)
        elif stage == "patches" and not self._look_in_focus(generator):
            outcome = self._patch(generator)
        else:
            outcome = self._random_rays(generator, self.config.rays, in_focus=stage == "patches")
        if self.config.depth_weight and len(self.data.points.photo):
            outcome = outcome._replace(loss=outcome.loss + self.config.depth_weight * self._depth(generator))
        return outcome

    def _random_rays(self, generator: torch.Generator, count: int, in_focus: bool = False) -> Outcome:
        drawn = (self._pixels_in_focus if in_focus else self._any_pixels)(generator, count)
        pixels = self._own(drawn)
        seen = self._see(self._rays(pixels.photo, pixels.centres), generator, count)
        shown = [self._develop(one.colour, pixels) for one in seen]
        target, mask = self._photo(pixels), self._mask(pixels)
        errors = [residual(one, target, mask=mask).square().sum() / max(3 * count, 1) for one in shown]
        loss, share = torch.stack(errors).sum() + self._spread_loss(seen, count), len(pixels.photo) / max(count, 1)
        return Outcome(loss, errors[-1].detach(), len(pixels.photo), drawn.photo, None, shown[-1], target, share)

    def _patch(self, generator: torch.Generator) -> Outcome:
        config = self.config
        patch = random_patch(self.data.numbers, self.data.size, config.patch_size, config.anchor_stride, generator)
        if config.in_focus and float(self.lens.largest_radius[patch.photo].detach()) < BLURS:
            return self._random_rays(generator, config.rays, in_focus=self.in_focus is not None)
        shape, whole = (patch.height, patch.width), patch.height * patch.width
        all_pixels = patch.pixels(self.data.photos.device)
        pixels = self._own(all_pixels)
        layered = config.layers > 1
        places = self._places((whole,), generator)
        shaded = self.model.shade(self._rays(pixels.photo, pixels.centres), behind=layered, places=places)
        # Of several processes, each asks the field for some of the rays, and all blur the whole patch.
        once = self.workers.learned_once
        aperture, focus = once(self.lens.aperture[patch.photo]), once(self.lens.focus_disparity[patch.photo])
        at, blur = Lens(aperture, focus_disparity=focus), Blur(config.layers, self.light)
        rows = [Concentrated(*(self.workers.join(part, whole) for part in concentrate(one))) for one in shaded]
        seen = [Concentrated(*(part.unflatten(0, shape) for part in _finite(one))) for one in rows]
        images = [self._put_layers(one, shape, at, blur) for one in shaded] if layered else [
            put_lens(one.colour, seen[-1], at, blur) for one in seen
        ]  # fmt: skip
        centres = all_pixels.centres.unflatten(0, shape)
        images = [self.quantities.develop(image, patch.photo, centres) for image in images]
        reach = float(at.coc_radius_from_disparity(seen[-1].disparity.detach()).detach().abs().max()) + RIM
        complete = complete_pixels(patch, self.data.size, min(reach, min(shape) / 2 - _LEFT), self.data.photos.device)
        target = patch.crop(self.data.photos[patch.photo])
        mask = self.data.mask(patch.photo)
        mask = None if mask is None else patch.crop(mask)
        errors = [residual(image, target, mask=mask)[complete].square().mean() for image in images]
        number = self.data.numbers[patch.photo][None]
        return Outcome(
            self.workers.counted_once(torch.stack(errors).sum() + self._spread_loss(seen, patch.height)),
            self.workers.counted_once(errors[-1].detach()),
            len(pixels.row),
            number,
            number,
            images[-1],
            target,
        )

    def _lens_rays(self, generator: torch.Generator) -> Outcome:
        half, rays_in_all = self.config.lens_points // 2, self.config.rays
        share = 0.0 if self.in_focus is None else self.config.in_focus
        count = max(1, round(rays_in_all * (1 - share)) // (2 * half))
        blurred = self.data.numbers[self.lens.largest_radius.detach() >= BLURS] if share else self.data.numbers
        if not len(blurred):
            return self._random_rays(generator, rays_in_all, in_focus=True)
        drawn = random_pixels(blurred, self.data.size, count, generator)
        places = torch.cat([DISC.points((count,), half, generator) for _ in range(2)], dim=1)
        pixels, places = self._own(drawn), places[self.workers.part(count)]
        aperture, focus = self.lens.aperture[pixels.photo], self.lens.focus_disparity[pixels.photo]
        rays = lens_rays(self._stack, pixels.photo, pixels.centres, places, aperture, focus)
        target, losses, seen = self._photo(pixels), [], self._see(rays, generator, count)
        mask = self._mask(pixels)
        for one in seen:
            means = [average_light(part, self.light) for part in one.colour.split(half, dim=1)]
            halves = [self._develop(mean, pixels) for mean in means]
            whole = torch.stack(halves).mean(0)
            a, b = (residual(part, target, whole, mask) for part in halves)
            losses.append(_mean(a * b if self.config.noise_free else ((a + b) / 2).square(), count))
        error = _mean(((a + b) / 2).detach().square(), count)
        loss, rays_here = torch.stack(losses).sum() + self._spread_loss(seen, count), 2 * half * len(pixels.photo)
        outcome = Outcome(loss, error, rays_here, drawn.photo, drawn.photo, whole, target, len(pixels.photo) / count)
        if not share:
            return outcome
        sharp = self._random_rays(generator, rays_in_all - 2 * half * count, in_focus=True)
        loss = (1 - share) * outcome.loss + share * sharp.loss
        photos = torch.cat([outcome.photos, sharp.photos])
        return outcome._replace(loss=loss, rays=outcome.rays + sharp.rays, photos=photos)

    def _depth(self, generator: torch.Generator) -> Tensor:
        points, count = self.data.points, self.config.depth_rays
        some = _below(len(points.photo), count, generator)[self.workers.part(count)]
        seen = self._see(self._rays(points.photo[some], points.pixels[some]), generator, count)
        mean, share = float(points.error.mean()), len(some) / count
        losses = [share * sparse_depth_loss(one.depth, points.depth[some], points.error[some], mean) for one in seen]
        return torch.stack(losses).sum()

    @property
    def _stack(self) -> CameraStack:
        if not self.quantities.moves_cameras:
            return self.data.stack
        moved = [self.quantities.camera(camera, i) for i, camera in enumerate(self.data.cameras)]
        return stack_cameras(moved, self.data.photos.device)

    def _rays(self, photo: Tensor, pixels: Tensor) -> Rays:
        """Rays (N,) through pixels (N, 2) of photos (N,)."""
        return pixel_rays(self._stack, photo, pixels)

    def _develop(self, colour: Tensor, pixels: Pixels) -> Tensor:
        return self.quantities.develop(colour, pixels.photo, pixels.centres)

    def _own(self, pixels: Pixels) -> Pixels:
        """This process's part of a batch."""
        mine = self.workers.part(len(pixels.photo))
        return Pixels(*(part[mine] for part in pixels))

    def _places(self, whole: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """Where this process's rays take their samples, drawn for all rays of the batch."""
        return tuple(
            part[self.workers.part(whole[0])] for part in self.model.places(whole, generator, generator.device)
        )

    def _see(self, rays: Rays, generator: torch.Generator, whole: int) -> list[Concentrated]:
        """What this process's rays see, of a batch with that many rows."""
        places = self._places((whole, *rays.shape[1:]), generator)
        return [_finite(one) for one in self.model(rays, places=places)]

    def _spread_loss(self, seen: list[Concentrated], whole: int) -> Tensor | float:
        weight, space = self.config.spread_weight, self.model.space
        scale = 1 / space.near - 1 / space.far
        return weight / scale**2 * torch.stack([_mean(one.spread, whole) for one in seen]).sum() if weight else 0.0

    def _put_layers(self, shaded: Shaded, shape: tuple[int, int], at: Lens, blur: Blur) -> Tensor:
        edges, whole = layer_edges(self.model.space.near, self.model.space.far, blur.layers), shape[0] * shape[1]
        layers = (self.workers.join(part, whole, dim=1) for part in concentrate_layers(shaded, edges))
        colour, alpha, disparity = (part.unflatten(1, shape) for part in layers)
        return scatter_layers(colour, alpha, at.coc_radius_from_disparity(disparity), at.shape, blur.light)

    def _photo(self, pixels: Pixels) -> Tensor:
        return self.data.photos.at(*pixels)

    def _mask(self, pixels: Pixels) -> Tensor | None:
        return None if self.data.masks is None else self.data.masks.at(*pixels)

    def _look_in_focus(self, generator: torch.Generator) -> bool:
        share = self.config.in_focus
        known = share > 0 and self.in_focus is not None
        return known and float(torch.rand((), generator=generator, device=generator.device)) < share

    def _any_pixels(self, generator: torch.Generator, count: int) -> Pixels:
        return random_pixels(self.data.numbers, self.data.size, count, generator)

    def _pixels_in_focus(self, generator: torch.Generator, count: int) -> Pixels:
        """`count` of them, uniform over all that are in focus; any pixels if none is."""
        assert self.in_focus is not None
        (height, width), (h, w) = self.data.size, self.in_focus.shape[1:]
        cells = self.in_focus.nonzero()
        if not len(cells):
            return self._any_pixels(generator, count)
        photo, row, column = cells[_below(len(cells), count, generator)].unbind(-1)
        # A cell of the small map stands for a few pixels of the photo: one of them.
        row = ((row + _unit(count, generator)) * height / h).long().clamp(max=height - 1)
        return Pixels(photo, row, ((column + _unit(count, generator)) * width / w).long().clamp(max=width - 1))


def _below(most: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(most, (count,), generator=generator, device=generator.device)


def _unit(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator, device=generator.device)


def _mean(values: Tensor, whole: int) -> Tensor:
    """What these rows (N, …) add to the mean over `whole` rows."""
    return values.mean() if len(values) == whole else values.sum() / (whole * values.shape[1:].numel())


def _finite(seen: Concentrated) -> Concentrated:
    if not bool(torch.isfinite(seen.colour.detach()).all() & torch.isfinite(seen.depth.detach()).all()):
        raise NotFinite("the field gave a colour or a depth that is not a number")
    return seen
