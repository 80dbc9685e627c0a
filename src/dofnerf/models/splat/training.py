"""How splats learn: 3D Gaussians that begin on the scene's points, learn from whole photos, and move to where the error
is.

A step renders a photo, or several. Stages: *pinhole*, sharp; *lens*, through the photo's lens, each Gaussian blurred by
its own depth; *sub-apertures*, the mean of views through parts of the lens, nearer to a real lens at the rims of what
is out of focus, and with a disc's blur rather than a Gaussian's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.models.adam import Adam
from dofnerf.models.base import BLURS, Group, Method, Model, NotFinite, Outcome, Preset, RunConfig, Steps
from dofnerf.models.data import Setting, TrainingData, shrunk_mask
from dofnerf.models.losses import photo_loss, residual, sparse_gradient_prior
from dofnerf.models.splat.blurs import blur_model
from dofnerf.models.splat.config import SplatConfig
from dofnerf.models.splat.growth import Growth
from dofnerf.models.splat.model import SplatModel, begin_splats
from dofnerf.models.splat.sharpness import SharpnessWeights
from dofnerf.models.splat.start import starting_points
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import Lens
from dofnerf.scenes import Scene

_TILE = 8  # columns of a tile of the rasteriser: cut between two of them, none is drawn twice
_KEPT = 40_000_000  # pixels of shrunk photos that are kept: half a gigabyte
_PRIOR_STEPS = 4  # the sparse-gradient prior, which takes a view of its own, counts fourfold in every fourth step


class Chosen(NamedTuple):
    """One photo of a step, and all that chance says of it, the same in all processes. `size` (height, width) is that of
    the picture, which shows all of the photo, `scale` times as large, or a part with this `corner` (left, top). `blurs`
    tells whether the photo's lens does, to be divided into `parts`, rotated by `turn`."""

    step: int
    photo: int
    size: tuple[int, int]
    scale: float
    corner: tuple[int, int] | None
    blurs: bool
    parts: int
    turn: float


class Excerpt(NamedTuple):
    """What a step takes of a photo: all of it, shrunk, or a part. `camera` sees `target` (h, w, 3); `mask` (h, w), if
    there is one, is 1 where it counts; `share` is how much of the picture it shows; `pixels` (h, w, 2) are the columns
    and rows in the photo, None for all of it."""

    camera: Camera
    target: Tensor
    mask: Tensor | None
    share: float = 1.0
    pixels: Tensor | None = None


class SplatSteps(Steps):
    """A photo a step, or `photos_per_step`; every round takes all photos in a new random order, kept in
    `memory["order"]`. Of several processes, each takes whole photos, or where there are fewer photos than processes,
    columns of each photo."""

    model: SplatModel
    config: SplatConfig
    found: Tensor | None  # (N, 2), of a step in which errors are attributed: this process's part

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.step, self.found = 0, None
        self.small: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.growth = Growth(self.config.total, at_once=self.config.at_once) if self.config.grow else None
        weighted = self.config.sharp_first and self.quantities.searches
        self.sharpness = SharpnessWeights(self.data.photos, self.data.masks, self.data.copies) if weighted else None

    def before(self, step: int, generator: torch.Generator) -> None:
        self.step, self.found = step, None

    def __call__(self, stage: str, generator: torch.Generator) -> Outcome:
        chosen = [self._choose(step, stage, generator) for step in self.config.together(self.step)]
        divided = len(chosen) < self.workers.count
        mine = chosen if divided else chosen[self.workers.part(len(chosen))]
        found = [self._look(one, stage, self.workers if divided else ALONE) for one in mine]
        return _together(found, len(chosen), self.data.numbers[[one.photo for one in chosen]])

    def _look(self, chosen: Chosen, stage: str, among: Workers) -> Outcome:
        """What a photo says, of which each of the processes `among` which it is divided draws some columns."""
        step, photo = chosen.step, chosen.photo
        camera, target, mask, share, pixels = self._excerpt(chosen)
        mine = _columns(camera.width, among)
        degree = min(self.config.degree, 5 * step // self.config.total)
        lens, blurs, parts = None, chosen.blurs, chosen.parts
        if stage != "pinhole":
            whole = parts == 1 and blur_model(self.config.blur).divides
            aperture = self.lens.aperture[photo] * (chosen.scale * (self.config.blur_width if whole else 1.0))
            lens = Lens(aperture, shape=self.lens.shape, focus_disparity=self.lens.focus_disparity[photo])
        image, _ = self._drawn(among, camera, lens, self.config.blur, degree, parts, chosen.turn, self.light)
        image = _own(self.quantities.develop(image, photo, pixels), among)
        loss, error, off = photo_loss(image, target, self.config.gradient_loss if blurs else 0.0, mask)
        if not bool(torch.isfinite(error)):
            raise NotFinite("the splats gave a colour that is not a number")
        if blurs:
            # Together, as growth: none of several processes has more to do.
            due = self.step // self.config.at_once % _PRIOR_STEPS == 0
            if self.config.gradient_prior and due and parts > 1 and lens is not None:
                sharp, disparity = self._drawn(among, camera, degree=degree)
                radius, full = lens.coc_radius_from_disparity(disparity).detach(), self.config.prior_blur
                hidden = (radius / full).square().clamp(max=1) if full else None
                loss = loss + _PRIOR_STEPS * self.config.gradient_prior * sparse_gradient_prior(sharp, hidden)
        elif lens is None and self.sharpness is not None:
            off = residual(image, target, mask=mask)
            loss = (off.square() * self.sharpness.at(photo, (camera.height, camera.width))[..., None]).mean()
        if lens is not None and self.config.flatness:
            thickness = among.learned_once(self.model.thickness_loss(camera))
            loss = loss + self.config.flatness * thickness
        if self.growth is not None and self.growth.is_due(self.step):
            seen = self.model.error_share(camera, lens, off.detach().square().sum(-1)[:, mine], mine.start) / share
            self.found = seen if self.found is None else self.found + seen
        if mask is not None:
            error = error / mask.mean().clamp(min=1e-6)
        number = self.data.numbers[photo][None]
        rays = target.shape[0] * (mine.stop - mine.start)
        loss, error = among.counted_once(loss), among.counted_once(error)
        return Outcome(loss, error, rays, number, None if lens is None else number, image, target)

    def after(self, step: int, generator: torch.Generator, adam: Adam) -> None:
        if self.growth is None:
            return
        if self.found is not None:  # not sooner: a process that finds NaN has nothing to add
            self.growth.note(self.workers.add(self.found), self.memory)
        if any(map(self.growth.moves_after, self.config.together(step))):
            self.growth.move(self.model, self.memory, generator, adam)

    def _drawn(self, among: Workers, camera: Camera, *given: Any, **named: Any) -> tuple[Tensor, Tensor]:
        """`SplatModel.picture` and its disparity, of which each process draws its columns; gradients reach what is our
        own."""
        if among.count == 1:
            return self.model.picture(camera, *given, **named)[:2]
        mine = _columns(camera.width, among)
        own = self.model.background.new_zeros(camera.height, 0, 4) + 0 * self.model.means.sum()
        if mine.start < mine.stop:  # there are fewer tiles than processes otherwise
            view = self.model.picture(camera, *given, **named | {"columns": (mine.start, mine.stop)})
            own = torch.cat([view.image, view.disparity[..., None]], dim=-1)
        whole = among.join(own, camera.width, dim=1, part=mine)
        return whole[..., :3], whole[..., 3]

    def _choose(self, step: int, stage: str, generator: torch.Generator) -> Chosen:
        order = self.memory["order"]
        if step % len(order) == 0:
            order.copy_(torch.randperm(len(order), generator=generator, device=generator.device))
        photo, (height, width) = int(order[step % len(order)]), self.data.size
        most = self.config.shrunk_to(step)
        share = min(math.sqrt((most or self.config.step_pixels) / (height * width)), 1.0)
        size = high, wide = max(1, round(share * height)), max(1, round(share * width))
        corner, scale = None, wide / width if most else 1.0
        if share < 1 and most is None:
            # Beginning outside as well, so that borders are seen as often as the rest.
            places = torch.rand(2, generator=generator, device=generator.device).tolist()
            left, top = (
                min(max(round(place * whole - part / 2), 0), whole - part)
                for place, whole, part in zip(places, (width, height), (wide, high), strict=True)
            )
            corner = left, top
        blurs = stage != "pinhole" and float(self.lens.largest_radius[photo].detach()) * scale >= BLURS
        divides = stage == "sub-apertures" and blurs and blur_model(self.config.blur).divides
        parts = self.config.sub_apertures_at(step) if divides else 1
        turn = float(torch.rand((), generator=generator, device=generator.device)) if parts > 1 else 0.0
        return Chosen(step, photo, size, scale, corner, blurs, parts, turn)

    def _excerpt(self, chosen: Chosen) -> Excerpt:
        photo, (high, wide), corner = chosen.photo, chosen.size, chosen.corner
        camera = self.quantities.camera(self.data.cameras[photo], photo)
        if corner is not None:
            window = *corner, wide, high
            mask = None if self.data.masks is None else self.data.masks.part(photo, *window)
            target = self.data.photos.part(photo, *window)
            rows, columns = (torch.arange(count, device=target.device) + 0.5 for count in (high, wide))
            pixels = torch.stack(torch.meshgrid(columns + corner[0], rows + corner[1], indexing="xy"), dim=-1)
            return Excerpt(camera.cropped(*window), target, mask, high * wide / math.prod(self.data.size), pixels)
        if chosen.size == self.data.size:
            return Excerpt(camera, self.data.photos[photo], self.data.mask(photo))
        return Excerpt(camera.resized(wide, high), *self._shrunk(photo, wide, high))

    def _shrunk(self, photo: int, width: int, height: int) -> tuple[Tensor, Tensor | None]:
        """A photo and its mask at a smaller size; those of the last size are kept, unless they are too many."""
        if self.small and next(iter(self.small.values()))[0].shape[:2] != (height, width):
            self.small.clear()
        if photo in self.small:
            return self.small[photo]
        mask = self.data.mask(photo)
        counts = None if mask is None else shrunk_mask(mask, width, height)
        found = self.data.shrunk(photo, width, height), counts
        if (len(self.small) + 1) * height * width <= _KEPT:
            self.small[photo] = found
        return found


def _together(found: Sequence[Outcome], count: int, photos: Tensor) -> Outcome:
    """The outcome of a step, from those of the pictures that this process has drawn for it, each of which is one of
    `count`."""
    if count == 1:
        return found[0]
    parts = tuple(one._replace(loss=one.loss / count, error=one.error / count, share=1 / count) for one in found)
    loss, error = (torch.stack(values).sum() for values in zip(*(one[:2] for one in parts), strict=True))
    through_lens = None if found[0].through_lens is None else photos
    return Outcome(loss, error, sum(one.rays for one in parts), photos, through_lens, parts=parts)


def _columns(width: int, among: Workers) -> slice:
    """The columns of a picture that this process draws, whole tiles."""
    mine = among.part(-(-width // _TILE))
    return slice(mine.start * _TILE, min(mine.stop * _TILE, width))


def _own(image: Tensor, among: Workers) -> Tensor:
    """A picture (H, W, 3) that all processes have; gradients pass this process's columns only."""
    if among.count == 1:
        return image
    mine, rest = _columns(image.shape[1], among), image.detach()
    return torch.cat([rest[:, : mine.start], image[:, mine], rest[:, mine.stop :]], dim=1)


class SplatMethod(Method):
    """The method for --field splat."""

    name, family, steps, rate_flags = "splat", "splats", SplatSteps, "--place-rate, --size-rate or --opacity-rate"
    divides = True

    def preset(self, name: str) -> Preset:
        if name == "paper":
            raise ValueError("the preset paper is of the fields nerf and dsnerf: splats are not the paper's")
        lens: dict[str, object] = {"lens_rate": 0.12, "refits": (0.1,), "refit_all": False, "max_radius": 48.0}
        others: dict[str, dict[str, object]] = {
            "lens": lens,
            "aperture_consistency": {"aperture_consistency": 0.004},
            "exposure": {"exposure": True},
            "pose": {"refine_poses": True},
            "focal": {"refine_focal": True},
        }
        if name == "best":
            parts: dict[str, Any] = {"sub_apertures": 28, "early_sub_apertures": 28}
            # These of `fast` were not measured with so many steps.
            unchanged: dict[str, Any] = {"fall": "exponential", "decay": 0.1, "flatness": 0.0}
            unchanged |= {"gradient_prior": 0.001, "prior_blur": 0.0, "blur_width": 1.0}
            return Preset(SplatConfig(200, 400, sub_aperture_steps=1600, **parts, **unchanged), others)
        return Preset(SplatConfig(), others)

    def begin(self, config: RunConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        start = starting_points(scene, config.method.count(data.size), config.seed)
        points, colours, sizes = (torch.from_numpy(part) for part in (start.points, start.colours, start.sizes))
        model = begin_splats(
            points, colours, sizes, config.method.degree, config.light, _nearest(setting), _seen_from(setting)
        )
        model.notes = (start.how,)
        return model

    def like(self, config: RunConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        count = shapes["means"][0]
        places = torch.zeros(count, 3)
        known = config.method.degree, config.light, _nearest(setting), _seen_from(setting)
        return begin_splats(places, places, torch.ones(count), *known)

    def memory(self, model: SplatModel, photos: int) -> dict[str, Tensor]:
        """`order` of the photos of a round; each Gaussian's share of the `error` and its `coverage` in pixels."""
        none = torch.zeros_like(model.means[:, 0].detach())
        return {"order": torch.zeros(photos, dtype=torch.long), "error": none, "coverage": none.clone()}

    def groups(self, model: SplatModel, config: RunConfig) -> list[Group]:
        own: SplatConfig = config.method
        rates = {
            "log_scales": own.size_rate,
            "rotations": own.turn_rate,
            "opacity_logits": own.opacity_rate,
            "base": own.colour_rate,
            "directional": own.direction_rate,
        }

        # The unit is read at each step: a model that is being loaded does not have it yet.
        places = Group("means", [model.means], lambda step: own.place_rate * float(model.unit) * own.rate_at(step))
        others = [
            Group(name, [getattr(model, name)], lambda step, rate=rate: rate * own.rate_at(step))  # type: ignore[misc]
            for name, rate in rates.items()
        ]
        # What Adam remembers, it remembers for as many photos as with one a step.
        return [
            group._replace(betas=(group.betas[0] ** own.at_once, group.betas[1] ** own.at_once))
            for group in (places, *others)
        ]


def _seen_from(setting: Setting) -> torch.Tensor | None:
    """(M, 4): positions and focal lengths of the photos; None for runs of before positions were kept."""
    if not setting.positions:
        return None
    return torch.tensor([[*place, focal] for place, focal in zip(setting.positions, setting.focal, strict=True)])


def _nearest(setting: Setting) -> float:
    """The least depth of a scene, in its units."""
    if not setting.disparities[1] > 0:
        raise ValueError(f"setting: a disparity of {setting.disparities[1]:g} at the near end")
    return 1 / setting.disparities[1]


def methods() -> list[Method]:
    return [SplatMethod()]
