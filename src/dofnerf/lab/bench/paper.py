"""The paper's own numbers, by scene: (PSNR, SSIM, LPIPS) of its tables, in full as its appendix has them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Numbers(NamedTuple):
    psnr: float
    ssim: float
    lpips: float


def _pairs(**rows: tuple[float, ...]) -> dict[str, tuple[Numbers, Numbers]]:
    """A scene's baseline and the paper's method."""
    return {name: (Numbers(*row[:3]), Numbers(*row[3:])) for name, row in rows.items()}


# Tables 1 and 2 (NeRF, ours): photos with shallow depth of field. The first seven are real, the others synthetic.
SHALLOW = _pairs(
    amiya=(26.924, 0.9092, 0.1633, 28.311, 0.9289, 0.1370),
    camera=(25.593, 0.8862, 0.1574, 27.714, 0.9134, 0.1259),
    plant=(28.272, 0.8961, 0.1581, 30.317, 0.9290, 0.1178),
    turtle=(33.531, 0.9566, 0.0939, 34.965, 0.9647, 0.0823),
    kendo=(18.457, 0.6643, 0.2906, 19.311, 0.6970, 0.2773),
    desk=(29.618, 0.9374, 0.1099, 30.548, 0.9426, 0.1047),
    shelf=(31.552, 0.9515, 0.0811, 32.002, 0.9565, 0.0723),
    fortress=(28.142, 0.7826, 0.2011, 29.168, 0.8099, 0.1830),
    leaves=(19.450, 0.6541, 0.3190, 20.025, 0.7000, 0.2766),
    room=(26.668, 0.8743, 0.1961, 29.443, 0.9135, 0.1502),
    trex=(24.433, 0.8379, 0.1723, 25.726, 0.8744, 0.1564),
    fern=(23.202, 0.7232, 0.3125, 23.407, 0.7311, 0.3055),
    flower=(26.339, 0.8209, 0.1999, 27.075, 0.8474, 0.1678),
    horns=(24.260, 0.7554, 0.2983, 24.829, 0.7766, 0.2759),
    orchids=(19.755, 0.6401, 0.2932, 20.048, 0.6678, 0.2718),
)
# Table 3 (DS-NeRF, ours), the synthetic set.
DSNERF = _pairs(
    fortress=(28.493, 0.7609, 0.2373, 29.704, 0.8112, 0.1970),
    leaves=(17.872, 0.5096, 0.4358, 18.312, 0.5689, 0.3840),
    room=(26.8301, 0.8641, 0.2287, 29.550, 0.9045, 0.1817),
    trex=(22.334, 0.7063, 0.3438, 23.600, 0.7764, 0.2773),
    fern=(23.100, 0.7050, 0.3355, 23.640, 0.7307, 0.3116),
    flower=(25.388, 0.7683, 0.2517, 26.392, 0.8131, 0.2024),
    horns=(21.562, 0.5938, 0.4625, 22.487, 0.6491, 0.4111),
    orchids=(19.435, 0.6017, 0.3247, 19.872, 0.6500, 0.2876),
)
# Table 4 (NeRF, ours): all-in-focus photos.
SHARP = _pairs(
    fortress=(33.973, 0.9411, 0.0469, 34.007, 0.9422, 0.0454),
    leaves=(21.5860, 0.7854, 0.1629, 21.4869, 0.7861, 0.1599),
    room=(33.852, 0.9593, 0.0721, 33.760, 0.9584, 0.0735),
    trex=(30.287, 0.9501, 0.0601, 30.222, 0.9499, 0.0605),
    fern=(26.582, 0.8490, 0.1480, 26.565, 0.8497, 0.1470),
    flower=(30.135, 0.9221, 0.0643, 30.093, 0.9224, 0.0626),
    horns=(28.205, 0.8879, 0.1332, 28.165, 0.8888, 0.1313),
    orchids=(20.831, 0.7362, 0.1896, 20.795, 0.7374, 0.1876),
)
# Table 5: NeRF, aperture learned, focus learned, both.
ABLATION = {
    "room": (
        Numbers(27.279, 0.8863, 0.1803), Numbers(27.799, 0.8992, 0.1640), Numbers(28.070, 0.9032, 0.1671),
        Numbers(28.361, 0.9076, 0.1556),
    ),
    "camera": (
        Numbers(25.742, 0.8723, 0.1657), Numbers(26.639, 0.8989, 0.1338), Numbers(25.855, 0.8786, 0.1532),
        Numbers(26.962, 0.9045, 0.1280),
    ),
}  # fmt: skip
# Appendix: how much longer than NeRF, on the scene camera.
TRAINING_COST, RENDERING_COST = 1.038, 1.006


def paper_scene(name: str) -> str:
    """The paper's scene that a folder's name begins with (fern, fern-blurred, room_8), or nothing."""
    first = re.split(r"[-_. ]", name.lower())[0]
    return first if first in SHALLOW else ""
