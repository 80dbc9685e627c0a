"""Put a lens in front of a picture that has a depth map.

python examples/01_refocus.py [--picture PHOTO --depth DEPTH --metres 0.001] [--out refocused]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import dofnerf
from dofnerf.files import read_image, read_map, write_image
from dofnerf.optics import Blades, Lens, scatter_layers, split_layers

DEMO = Path(dofnerf.__file__).parent / "files" / "demo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, default=DEMO / "picture.jpg")
    parser.add_argument("--depth", type=Path, default=DEMO / "depth.png", help="depth along the optical axis")
    parser.add_argument("--metres", type=float, default=0.001, help="metres in one unit of the depth map")
    parser.add_argument("--every", type=int, default=1, help="keep every n-th pixel only")
    parser.add_argument("--out", type=Path, default=Path("refocused"))
    args = parser.parse_args()

    step = slice(None, None, args.every)
    image = torch.from_numpy(read_image(args.picture))[step, step].contiguous()  # (H, W, 3), 0 … 1
    depth = args.metres * torch.from_numpy(read_map(args.depth)[0])[step, step]  # (H, W)
    disparity = torch.where(depth > 0, 1 / depth, 0.0)  # 0 is infinitely far

    # Cut into layers, each continued behind the nearer ones, so that what is near does not smear over what is far.
    layers = split_layers(image, disparity, count=8)

    near, far = float(disparity.quantile(0.95)), float(disparity.quantile(0.05))
    aperture = 0.03 * image.shape[1] / (near - far)  # the largest blur radius is 3 % of the width
    lenses = {
        "near": Lens(aperture, focus_disparity=near),
        "far": Lens(aperture, focus_disparity=far),
        "near-six-blades": Lens(aperture, focus_disparity=near, shape=Blades(count=6)),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    for name, lens in lenses.items():
        radius = lens.coc_radius_from_disparity(layers.disparity)  # pixels, + behind the focal plane
        photo = scatter_layers(layers.colour, layers.alpha, radius, lens.shape)
        write_image(args.out / f"{name}.png", photo.numpy())
        print(f"{args.out / name}.png: focus at {lens.focus_depth:.2f}, blur up to {float(radius.abs().max()):.1f} px")


if __name__ == "__main__":
    main()
