"""How sharp could a scene become from these photos? An easier problem than ours, solved by the same means.

    python benchmarks/share.py --preset best --out best       (or any three runs of one scene whose lens is known)
    python benchmarks/limit.py best

Given is what training has to find: depth, lens and occlusion. The scene is a flat picture: a held-out view as rendered
by the run trained on sharp photos ("oracle"). For each amount of blur in it, photos are made with the discs of the true
lenses and with the noise of the scene's photos. That noise is measured in windows blurred by more than 4 pixels, at
frequencies that such discs remove. As many Gaussians as training uses, in a plane, learn from these photos with its
rates and its sparse-gradient prior; the best of four evaluations during the steps counts. Their error, where the view
has that blur, is what blur and noise take away.

Where things are in focus, they are so in some of the photos only, while the oracle has all of them sharp. That cost is
the loss of an oracle trained on those photos alone, where the blur is less than a pixel. (With more than two lenses:
the mean of oracles trained on either half of the photos.)

Both add to the oracle's own error, and give a PSNR and a share of the defocus gap. This is no proven bound: a stronger
prior than sparse gradients may do better than flat Gaussians. Photos of one lens count as their mean; blur is by the
depth of the view itself, about that of its neighbours.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.evaluate.scores import held_out_psnr, sharp_view
from dofnerf.models import method
from dofnerf.models.losses import gradient_loss, sparse_gradient_prior
from dofnerf.models.splat.model import begin_splats
from dofnerf.optics import Lens, to_display, to_linear
from dofnerf.optics.lens import coc_radius_from_disparity
from dofnerf.scenes import Scene
from dofnerf.train import KeepConfig, Run, preset, train

STEP = 0.5  # pixels of blur radius: views are taken apart by the least blur that any photo has there
WINDOW, APART = 32, 16  # pixels
FINE, STRONG = 0.5, 4.0  # cycles a pixel, and pixels of blur radius: with more of both there is only noise
FOCUSED = 1.0  # pixels of blur radius: with less, a thing is in focus
GAMMA = 2.2


def radius_of(lens: Lens, disparity: np.ndarray | float) -> np.ndarray | float:
    """The blur radius in pixels."""
    return abs(coc_radius_from_disparity(disparity, lens.aperture, 1 / lens.focus_depth))


def noise_of(scene: Scene, oracle: Run) -> float:
    """Deviation of the noise of the training photos."""
    taper = np.hanning(WINDOW)[:, None] * np.hanning(WINDOW)
    taper /= np.sqrt((taper**2).mean())
    fine = np.hypot(*np.meshgrid(np.fft.fftfreq(WINDOW), np.fft.fftfreq(WINDOW))) > FINE
    found = []
    for i in scene.train:
        lens, photo = scene.lens(i), scene.photo(i)
        radius = radius_of(lens, oracle.render(scene.camera(i)).disparity.numpy())
        for y in range(0, photo.shape[0] - WINDOW + 1, APART):
            for x in range(0, photo.shape[1] - WINDOW + 1, APART):
                place = slice(y, y + WINDOW), slice(x, x + WINDOW)
                if radius[place].min() > STRONG:
                    flat = (photo[place] - photo[place].mean((0, 1))) * taper[..., None]
                    power = (np.abs(np.fft.fft2(flat, axes=(0, 1))) ** 2).mean(-1) / WINDOW**2
                    found.append(power[fine].mean())
    if not found:
        raise SystemExit(f"{scene.name}: no window is blurred by more than {STRONG:g} pixels all over; give --noise")
    return float(np.mean(found)) ** 0.5


def halves_of(scene: Scene, oracle: Run, folder: Path) -> list[Run]:
    """Oracles like this one, on the photos of either lens (or on every other photo, if there are more); kept in
    `folder`."""
    lenses = list(dict.fromkeys(scene.lens(i) for i in scene.train))
    parts = [scene.train[0::2], scene.train[1::2]]
    if len(lenses) == 2:
        parts = [tuple(i for i in scene.train if scene.lens(i) == lens) for lens in lenses]
    keep = KeepConfig(preview_minutes=0)
    return [
        train(replace(scene, train=part), oracle.config, out=folder / f"half-{number}", resume=True, keep=keep)
        for number, part in enumerate(parts)
    ]


def squared(run: Run, scene: Scene, i: int) -> np.ndarray:
    """(H, W): the squared error of what a run shows of view i."""
    return ((sharp_view(run, scene, i) - scene.sharp(i)) ** 2).mean(-1)


class Disc:
    """Blurs pictures (H, W, 3) of one size by a disc, in linear light, around their borders."""

    def __init__(self, radius: float, height: int, width: int) -> None:
        frequency = torch.hypot(torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)[None])
        x = (2 * math.pi * radius * frequency).clamp(min=1e-4)
        self.left, self.size = 2 * torch.special.bessel_j1(x) / x, (height, width)

    def __call__(self, picture: Tensor) -> Tensor:
        light = torch.fft.rfft2(to_linear(picture, GAMMA), dim=(0, 1)) * self.left[..., None]
        return to_display(torch.fft.irfft2(light, s=self.size, dim=(0, 1)).clamp(min=0), GAMMA)


def learn_flat(
    truth: Tensor, photos: list[tuple[Disc, Tensor, float]], steps: int, edges: float, seed: int
) -> list[Tensor]:
    """What Gaussians in a plane make of `photos` (blur, picture, weight) of a picture, after each quarter of the
    steps."""
    height, width = truth.shape[:2]
    config = preset("fast", "splat")
    counts = dict.fromkeys(config.method.STAGES.values(), 0) | {"pinhole_steps": steps}
    config = config.changed({"method": {"degree": 0, **counts}})
    own = config.method
    count = own.count((height, width))
    camera = Camera(np.eye(3, 4), width, width, width / 2, height / 2, width, height)
    torch.manual_seed(seed)
    pixels = torch.rand(count, 2) * torch.tensor([width, height])
    points = torch.from_numpy(camera.unproject(pixels.double().numpy(), np.ones(count))).float()
    points[:, 2] += 0.002 * torch.randn(count)  # so that there is an order
    column, row = pixels.long().unbind(-1)
    sharpest = max(photos, key=lambda photo: float(photo[0].left.square().sum()))[1].clamp(0, 1)
    size = torch.full((count,), math.sqrt(height * width / count) / width)
    model = begin_splats(points, sharpest[row.clamp(max=height - 1), column.clamp(max=width - 1)], size, 0, GAMMA)
    groups = method("splat").groups(model, config)
    adam = torch.optim.Adam([{"params": group.parameters, "betas": group.betas} for group in groups], eps=1e-15)
    results = []
    for step in range(steps):
        blur, photo, weight = photos[step % len(photos)]
        for group, values in zip(groups, adam.param_groups, strict=True):
            values["lr"] = group.rate(step)
        picture = model.picture(camera, degree=0).image
        off = blur(picture) - photo
        error = off.square().mean() + own.gradient_loss * gradient_loss(off)
        adam.zero_grad()
        (weight * error + edges * sparse_gradient_prior(picture)).backward()
        adam.step()
        if (step + 1) % (steps // 4) == 0:
            results.append(model.picture(camera, degree=0).image.detach().clamp(0, 1))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="with the runs pinhole, ours and oracle of benchmarks/share.py")
    parser.add_argument("scene", nargs="?", type=Path)
    parser.add_argument("--noise", type=float, help="deviation of the photos' noise, instead of what is measured")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument(
        "--edges", type=float, nargs="+", default=[3e-4], help="weights of the sparse-gradient prior; the best counts"
    )
    parser.add_argument("--views", type=int, help="how many of the held-out views; all, if not said")
    given = parser.parse_args()
    scene = scenes.load(given.scene) if given.scene else scenes.demo()
    pinhole, ours, oracle = (Run.load(given.runs / name) for name in ("pinhole", "ours", "oracle"))
    lenses = [scene.lens(i) for i in scene.train]
    if any(lens is None for lens in lenses):
        raise SystemExit(f"{scene.name}: the true lens must be known for every training photo")
    if given.noise is not None and not given.noise > 0:
        raise SystemExit(f"--noise must be above 0, found {given.noise:g}")
    if given.steps < 4:
        raise SystemExit(f"--steps must be 4 or more, found {given.steps}")
    halves = halves_of(scene, oracle, given.runs)
    noise = noise_of(scene, oracle) if given.noise is None else given.noise
    kinds = Counter(lenses)
    print(f"{scene.name}: {len(kinds)} lenses, noise of {noise:.4f}\n\n| view | least blur | of the view |", end="")
    print(" ours loses | flat ones lose | those with half of the photos lose |\n|---|---|---|---|---|---|")

    best, both = [], []
    for i in scene.test[: given.views]:
        view = oracle.render(scene.camera(i))
        truth, disparity = view.image.clamp(0, 1), view.disparity.numpy()
        own, floor = (squared(run, scene, i) for run in (ours, oracle))
        radii = np.stack([radius_of(lens, disparity) for lens in kinds])
        least, whose = radii.min(0), radii.argmin(0)
        few = np.stack([squared(run, scene, i) - floor for run in halves])
        fewer = np.where(whose == 0, few[0], few[1]) if len(kinds) == 2 else few.mean(0)
        lost = seldom = 0.0
        for number in range(int(least.max() / STEP) + 1):
            where = (least >= number * STEP) & (least < (number + 1) * STEP)
            if not where.any():
                continue
            middle = float(np.median(disparity[where]))
            discs = [(Disc(float(radius_of(lens, middle)), *disparity.shape), n) for lens, n in kinds.items()]
            generator = torch.Generator().manual_seed(i)
            photos = [
                (
                    disc,
                    disc(truth) + noise / n**0.5 * torch.randn(truth.shape, generator=generator),
                    n * len(kinds) / len(lenses),
                )
                for disc, n in discs
            ]
            results = [result for edges in given.edges for result in learn_flat(truth, photos, given.steps, edges, i)]
            error = min(float((result - truth).square().mean(-1).numpy()[where].mean()) for result in results)
            lost += error * where.mean()
            seldom += fewer[where].mean() * where.mean() if (number + 1) * STEP <= FOCUSED else 0.0
            print(
                f"| {i} | {number * STEP:g} to {(number + 1) * STEP:g} px | {where.mean():.3f} | "
                f"{(own - floor)[where].mean():.2e} | {error:.2e} | {fewer[where].mean():.2e} |",
                flush=True,
            )
        best.append(-10 * math.log10(floor.mean() + lost))
        both.append(-10 * math.log10(floor.mean() + lost + seldom))
    plain, got, sharp = (held_out_psnr(run, scene) for run in (pinhole, ours, oracle))
    print(f"\nwithout a lens model {plain:.2f}, ours {got:.2f}, trained on sharp photos {sharp:.2f}: ", end="")
    print(f"share {(got - plain) / (sharp - plain):.3f}")
    for name, values in (("flat, depth and lens known", best), ("and half of the photos in focus", both)):
        print(f"{name}: {np.mean(values):.2f} dB, share {(np.mean(values) - plain) / (sharp - plain):.3f}")


if __name__ == "__main__":
    main()
