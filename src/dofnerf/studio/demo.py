"""The lens on the picture that comes with the package: three focus depths, a hexagonal aperture, a rack focus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import dofnerf.pictures
from dofnerf.pictures import write_image, write_video
from dofnerf.pictures.files import to_bytes
from dofnerf.studio.lens_config import depth_in_words
from dofnerf.studio.outputs import check_folder
from dofnerf.studio.refocus import rack_focus, sweep_focuses
from dofnerf.studio.rgbd import RGBD, DepthConfig, read_rgbd

BUILT_IN = Path(dofnerf.pictures.__file__).with_name("demo")
LARGEST_BLUR = 0.035  # of the picture's width: a wide-open lens
LAYERS = 6
# Eight bits cut bright lights off at white. A steeper curve than the display's 2.2 gives them some of their weight back, so
# that the shape of the aperture shows.
BRIGHT_LIGHTS = 4.0
GIF_FRAMES, GIF_FPS = 32, 16.0


@dataclass(frozen=True)
class DemoConfig:
    """Refocus the built-in picture with its depth at three depths and with a hexagonal aperture.

    Writes near.png, middle.png, far.png, hexagon.png, the rack focus rack-focus.gif and contact-sheet.png, which shows all.

    For example:
      dofnerf demo
      dofnerf demo --out somewhere/else
    """

    out: Path = Path("runs/demo")
    """The folder to write into; it is made if it is not there."""


def run(config: DemoConfig) -> list[Path]:
    """Make the demo's pictures; returns the files that were written."""
    check_folder("--out", config.out)
    picture = built_in_picture()
    far, near = picture.disparity_range(tail=4)
    middle = (far + near) / 2  # halfway in disparity: near and far are then equally blurred
    width = picture.disparity.shape[1]
    aperture = LARGEST_BLUR * width / (near - far)
    print(
        f"lens     aperture {aperture:.4g} px × scene units (the paper's K = {2 * aperture:.4g}), {LAYERS} layers", flush=True
    )

    from dofnerf.optics.aperture import Kernel
    from dofnerf.studio.virtual_lens import VirtualLens

    disc = VirtualLens(picture, layers=LAYERS)
    hexagon = VirtualLens(picture, Kernel(blades=6), BRIGHT_LIGHTS, disc.layers)
    shots = [("near", disc, near), ("middle", disc, middle), ("far", disc, far), ("hexagon", hexagon, near)]
    tiles = [("sharp all over", picture.image), ("depth, near is bright", _grey(picture.disparity))]
    written = []
    for name, lens, focus in shots:
        photo = lens.photograph(aperture, focus)
        written.append(config.out / f"{name}.png")
        write_image(written[-1], photo)
        print(f"wrote    {written[-1]}: focus {depth_in_words(focus)}, {'six blades' if lens is hexagon else 'a disc'}")
        tiles.append((f"{'six blades' if lens is hexagon else name}, focus {depth_in_words(focus)}", photo))

    written.append(config.out / "rack-focus.gif")
    write_video(written[-1], rack_focus(disc, aperture, sweep_focuses(far, near, GIF_FRAMES, loop=True)), GIF_FPS)
    print(f"wrote    {written[-1]}: focus from near to far and back")
    written.append(config.out / "contact-sheet.png")
    write_image(written[-1], contact_sheet(tiles, columns=3))
    print(f"wrote    {written[-1]}: all of them")
    return written


def built_in_picture() -> RGBD:
    """The picture and depth map that come with the package, in scene units."""
    facts = json.loads((BUILT_IN / "depth.json").read_text(encoding="utf-8"))
    config = DepthConfig(depth_scale=facts["depth_scale"])
    return read_rgbd(BUILT_IN / facts["picture"], BUILT_IN / facts["depth"], config)


def contact_sheet(tiles: list[tuple[str, np.ndarray]], columns: int, margin: int = 12) -> np.ndarray:
    """Pictures (H, W, 3), all of one size, in rows with a caption under each → uint8."""
    height, width = tiles[0][1].shape[:2]
    font = ImageFont.load_default(size=max(12, width // 28))
    caption = round(2.2 * font.size) if isinstance(font, ImageFont.FreeTypeFont) else 24
    rows = -(-len(tiles) // columns)
    cell = width + margin, height + caption
    sheet = Image.new("RGB", (columns * cell[0] + margin, rows * cell[1] + margin), (24, 24, 26))
    draw = ImageDraw.Draw(sheet)
    for i, (words, image) in enumerate(tiles):
        x, y = margin + i % columns * cell[0], margin + i // columns * cell[1]
        sheet.paste(Image.fromarray(to_bytes(image)), (x, y))
        draw.text((x + width / 2, y + height + caption / 2), words, fill=(235, 235, 235), font=font, anchor="mm")
    return np.asarray(sheet)


def _grey(disparity: np.ndarray) -> np.ndarray:
    low, high = disparity.min(), disparity.max()
    return np.repeat(((disparity - low) / max(high - low, 1e-12))[..., None], 3, axis=-1)
