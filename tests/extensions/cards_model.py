"""A model that is neither splats nor volume: coloured cards that face the cameras, more of them in time. One file.

It begins with one card at the far end of the scene, and puts a second one at the near end while it learns: the number
of its parameters' rows is not that of its settings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from dofnerf.models import PLAIN, Group, Method, MethodConfig, Model, Outcome, Preset, Steps, View, register
from dofnerf.models.volume.rays import camera_rays
from dofnerf.optics import Lens, scatter

GROWS_AFTER = 5  # steps


@dataclass(frozen=True)
class CardsConfig(MethodConfig):
    side: int = 12
    """Cells along a side of a card."""
    rate: float = 0.03
    """Learning rate."""


class Cards(Model):
    """`colour` (P, 3, side, side) and `cover` (P, 1, side, side) in logits, at `disparity` (P,), far to near."""

    def __init__(self, count, side, half_width=1.0):
        super().__init__()
        self.colour = nn.Parameter(torch.zeros(count, 3, side, side))
        self.cover = nn.Parameter(torch.zeros(count, 1, side, side))
        self.register_buffer("disparity", torch.zeros(count))
        self.register_buffer("half_width", torch.tensor(half_width))

    def draw(self, camera):
        """The sharp view; gradients pass."""
        rays = camera_rays(camera, self.colour.device)
        image, disparity = torch.zeros(camera.height, camera.width, 3), torch.zeros(camera.height, camera.width)
        for number, at in enumerate(self.disparity):
            t = (-1 / at - rays.origins[..., 2]) / rays.directions[..., 2]
            place = (rays.origins + t[..., None] * rays.directions)[..., :2] * at / self.half_width
            card = torch.cat([self.colour[number], self.cover[number]]).sigmoid()
            found = nn.functional.grid_sample(card[None], place[None], align_corners=False, padding_mode="border")[0]
            cover = found[3] if number else torch.ones_like(found[3])
            image = image * (1 - cover[..., None]) + cover[..., None] * found[:3].permute(1, 2, 0)
            disparity = disparity * (1 - cover) + cover / t
        return View(image, disparity, torch.ones_like(disparity))

    @torch.no_grad()
    def view(self, camera, lens=None, blur=PLAIN):
        sharp = self.draw(camera)
        return sharp if lens is None else sharp._replace(image=put(sharp, lens, blur))


def put(sharp, lens, blur=PLAIN):
    return scatter(sharp.image, lens.coc_radius_from_disparity(sharp.disparity), lens.shape, blur.light)


class CardSteps(Steps):
    """A whole photo a step."""

    def __call__(self, stage, generator):
        number = int(torch.randint(len(self.data.photos), (), generator=generator))
        seen = self.model.draw(self.data.cameras[number])
        image, photo, through_lens = seen.image, torch.tensor([number]), None
        if stage != "pinhole":
            image = put(seen, Lens(self.lens.aperture[number], focus_disparity=self.lens.focus_disparity[number]))
            through_lens = photo
        image, target = self.quantities.develop(image, number), self.data.photos[number]
        error = (image - target).square().mean()
        return Outcome(error, error.detach(), image[..., 0].numel(), photo, through_lens, image, target)

    def after(self, step, generator, adam):
        if step + 1 != GROWS_AFTER:
            return
        model = self.model
        model.disparity = torch.cat([model.disparity, torch.tensor([1 / 2.0])])
        for group in adam.param_groups:
            (old,) = group["params"]
            more = 0.1 * torch.randn(1, *old.shape[1:], generator=generator)
            new = nn.Parameter(torch.cat([old.detach(), more]))
            moments = adam.state.pop(old)
            adam.state[new] = {k: torch.cat([v, 0 * more]) if v.ndim else v for k, v in moments.items()}
            group["params"] = [new]
            setattr(model, group["name"], new)


class CardMethod(Method):
    name, family, steps, rate_flags = "cards", "cards", CardSteps, "--rate"

    def preset(self, name):
        lens = {"search_width": 12, "refits": (), "max_radius": 8.0}
        return Preset(CardsConfig(4 if name == "fast" else 40, 6), {"lens": lens})

    def begin(self, config, setting, scene, data):
        camera = data.cameras[0]
        cards = Cards(1, config.method.side, 0.6 * camera.width / camera.fx)
        cards.notes = ("one card at the far end",)
        cards.disparity[:] = 1 / scene.far
        with torch.no_grad():
            cards.colour += data.photos[0].mean((0, 1))[:, None, None] + 0.1 * torch.randn_like(cards.colour)
        return cards

    def like(self, config, setting, shapes):
        return Cards(shapes["disparity"][0], config.method.side)

    def groups(self, model, config):
        return [
            Group("colour", [model.colour], lambda step: 10 * config.method.rate * 0.1 ** (step / config.method.total)),
            Group("cover", [model.cover], lambda step: 0.05, betas=(0.9, 0.999)),
        ]


register(CardMethod())
