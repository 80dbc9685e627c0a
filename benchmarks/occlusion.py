"""Plain and layered scatter against many rays through a real lens, at a depth edge:

    PYTHONPATH=tests python benchmarks/occlusion.py

Writes the comparison picture of docs/design.md and prints its table.
"""

# ruff: noqa: I001  (dofnerf comes before torch: it sets how torch's threads wait)
from __future__ import annotations

import dofnerf

from pathlib import Path

import numpy as np
import torch

from dofnerf.optics import coc_radius, coc_radius_from_disparity, scatter, scatter_layers, split_layers
from dofnerf.files import contact_sheet, write_image
from oracles.planes import FOCAL_PX, Plane, everywhere, layer_of, lens_points, photograph, psnr, waves

SIZE = (96, 128)
BLUR = 8.0
NEAR, FAR = 2.0, 6.0


def display(linear: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.clip(linear, 1e-9, 1) ** (1 / 2.2), dtype=torch.float32)


def main() -> None:
    near = Plane(NEAR, waves(2, NEAR, tint=(1, 0.55, 0.25)), lambda x, y: np.hypot(x + 0.12, y) < 0.36)
    far = Plane(FAR, waves(3, FAR, tint=(0.35, 0.65, 1)), everywhere)
    lens_radius = BLUR / FOCAL_PX / (1 / NEAR - 1 / FAR)
    aperture = FOCAL_PX * lens_radius
    behind, front = layer_of(far, SIZE), layer_of(near, SIZE)
    colour = torch.stack([display(behind[0]), display(front[0])])
    alpha = torch.stack([torch.ones(SIZE), torch.tensor(front[1], dtype=torch.float32)])
    depth = torch.tensor([FAR, NEAR])[:, None, None].expand(2, *SIZE)
    seen = alpha[1] > 0
    flat, flat_depth = torch.where(seen[..., None], colour[1], colour[0]), torch.where(seen, depth[1], depth[0])
    spread = torch.nn.functional.max_pool2d(
        torch.stack([alpha[1], 1 - alpha[1]])[None], 2 * int(BLUR) + 3, 1, int(BLUR) + 1
    )[0]
    edge = (spread[0] > 0) & (spread[1] > 0)
    border = int(BLUR) + 2
    edge[:border] = edge[-border:] = edge[:, :border] = edge[:, -border:] = False

    tiles, rows = [], []
    for name, focus in (("near in focus", NEAR), ("far in focus", FAR)):
        truth = display(photograph([near, far], SIZE, lens_radius, focus, lens_points(1200)))
        cut = split_layers(flat, 1 / flat_depth, 2)
        made = {
            "plain": scatter(flat, coc_radius(flat_depth, aperture, 1 / focus)),
            "plain, unit": scatter(flat, coc_radius(flat_depth, aperture, 1 / focus), norm="unit"),
            "layers": scatter_layers(colour, alpha, coc_radius(depth, aperture, 1 / focus)),
            "layers of the photo": scatter_layers(
                cut.colour, cut.alpha, coc_radius_from_disparity(cut.disparity, aperture, 1 / focus)
            ),
        }
        quality = {key: psnr(picture[edge], truth[edge]) for key, picture in made.items()}
        rows.append((name, *quality.values()))
        shown = {f"lens rays, {name}": truth, **{f"{k}, {quality[k]:.1f} dB": made[k] for k in ("plain", "layers")}}
        shown[f"cut from one photo, {quality['layers of the photo']:.1f} dB"] = made["layers of the photo"]
        tiles += [(words, np.kron(np.asarray(picture), np.ones((3, 3, 1)))) for words, picture in shown.items()]
    out = Path(__file__).parents[1] / "docs" / "images" / "occlusion.png"
    write_image(out, contact_sheet(tiles, columns=4))
    print(
        "| PSNR within one blur of the edge | plain scatter | plain, unit kernel | layers given | layers cut from the "
        "photo |"
    )
    print("|---|---|---|---|---|")
    for name, *values in rows:
        print(f"| {name} | " + " | ".join(f"{v:.1f} dB" for v in values) + " |")
    print(f"\nwrote {out.name}, dofnerf {dofnerf.__version__}")


if __name__ == "__main__":
    main()
