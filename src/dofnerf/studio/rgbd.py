"""A picture and how far away each of its pixels is.

Depth maps come as numbers in many units. Whatever the file holds, in memory there is `disparity` = 1 / depth along the
optical axis, in 1 / scene units, because blur is linear in it and infinity is an ordinary number, 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

import dofnerf.files
from dofnerf.files import is_linear, read_image, read_map

if TYPE_CHECKING:
    from dofnerf.optics.light import Curve

BUILT_IN = Path(dofnerf.files.__file__).with_name("demo")
DepthKind = Literal["depth", "disparity"]

DEPTH_SCALE = (
    "Value in the file × this = depth in scene units (or disparity in 1 / scene units). When not given: 1 for EXR, "
    "float TIFF and .npy; 0.001 for PNG depth (millimetres to metres); one over full scale for PNG disparity, which "
    "then runs from 0 to 1."
)


NETWORK = "depth-anything/Depth-Anything-V2-Small-hf"  # 25 million parameters


@dataclass(frozen=True)
class DepthConfig:
    """Where depth comes from, and what the numbers in the depth map mean."""

    depth_kind: DepthKind = "depth"
    """Whether larger values are farther (depth, along the optical axis) or nearer (disparity = 1 / depth)."""
    depth_scale: Annotated[
        float | None, tyro.conf.arg(help=DEPTH_SCALE, help_behavior_hint="(default: by the file type)")
    ] = None
    holes: Literal["error", "far"] = "error"
    """Pixels without a depth (zero, negative or NaN): stop with an error, or take them as infinitely far."""
    estimate: Annotated[
        Literal["network"] | None, tyro.conf.arg(name="depth", help_behavior_hint="(default: the map DEPTH)")
    ] = None
    """Without a depth map: network estimates disparity from the picture alone, by a monocular depth network (needs
    the extra `depth`)."""
    model: str = NETWORK
    """The network: a name on the Hugging Face hub, fetched once and cached, or a folder with its files."""

    def check(self) -> None:
        """Refuse what no file could make right."""
        if self.depth_kind not in ("depth", "disparity"):
            raise ValueError(f"--depth-kind must be depth or disparity, found {self.depth_kind!r}")
        if self.holes not in ("error", "far"):
            raise ValueError(f"--holes must be error or far, found {self.holes!r}")
        if self.depth_scale is not None and not (self.depth_scale > 0 and np.isfinite(self.depth_scale)):
            raise ValueError(f"--depth-scale must be positive and finite, found {self.depth_scale:g}")


@dataclass(frozen=True)
class RGBD:
    """`image` (H, W, 3) float32, linear light if `linear`, else display values; `disparity` (H, W) float32, ≥ 0;
    `holes` (H, W) marks the pixels whose depth nobody knows (disparity 0 there). `relative`: the disparity has no
    unit."""

    image: np.ndarray
    disparity: np.ndarray
    holes: np.ndarray
    linear: bool = False
    relative: bool = False

    @property
    def known(self) -> np.ndarray:
        """The disparities that were measured, as a flat array; never empty."""
        return self.disparity[~self.holes]

    def disparity_range(self, tail: float = 1.0) -> tuple[float, float]:
        """(farthest, nearest) disparity, without the `tail` per cent at either end: depth maps have stray pixels."""
        far, near = np.percentile(self.known, [tail, 100 - tail])
        return float(far), float(near)

    def disparity_at(self, x: int, y: int, reach: int = 2) -> float:
        """The median disparity within `reach` pixels of column x, row y."""
        window = slice(max(y - reach, 0), y + reach + 1), slice(max(x - reach, 0), x + reach + 1)
        around = self.disparity[window][~self.holes[window]]
        if not around.size:
            raise ValueError(f"there is no depth around pixel {x},{y}: it lies in a hole of the depth map")
        return float(np.median(around))

    def disparity_in_the_middle(self) -> float:
        """The median disparity of the middle ninth of the picture, as a camera would focus; of all of it if that is a
        hole."""
        height, width = self.disparity.shape
        window = slice(height // 3, height - height // 3), slice(width // 3, width - width // 3)
        middle = self.disparity[window][~self.holes[window]]
        return float(np.median(middle if middle.size else self.known))


def depth_map(disparity: np.ndarray) -> np.ndarray:
    """Depth (H, W) of a disparity (H, W), infinite where that is 0."""
    return np.divide(1, disparity, out=np.full_like(disparity, np.inf), where=disparity > 0)


def built_in_picture() -> RGBD:
    """The picture and depth map that come with the package, in scene units."""
    facts = json.loads((BUILT_IN / "depth.json").read_text(encoding="utf-8"))
    config = DepthConfig(depth_scale=facts["depth_scale"])
    return read_rgbd(BUILT_IN / facts["picture"], BUILT_IN / facts["depth"], config)


def read_rgbd(image_path: Path, depth_path: Path, config: DepthConfig) -> RGBD:
    """Read a picture (turned upright, as its EXIF tag says) and its map, which must be of one size."""
    config.check()
    image = read_image(image_path, orient=True)
    values, full = read_map(depth_path)
    if values.shape != image.shape[:2]:
        raise ValueError(
            f"{depth_path}: the depth map is {values.shape[1]} × {values.shape[0]} pixels but the picture "
            f"{image_path} is "
            f"{image.shape[1]} × {image.shape[0]}; they must be of one size"
        )
    integers = full > 1
    if config.depth_kind == "depth":
        holes = ~(values > 0)
        wanted = "positive"
        scale = config.depth_scale or (0.001 if integers else 1.0)
    else:
        holes = ~((values >= 0) & np.isfinite(values))
        wanted = "finite and not negative"
        scale = config.depth_scale or 1 / full
    if holes.any():
        _refuse_holes(depth_path, config, values, holes, wanted)
    with np.errstate(over="ignore", divide="ignore"):  # caught below
        scaled = np.where(holes, 1.0, values.astype(np.float64)) * scale
        disparity = np.where(holes, 0.0, 1 / scaled if config.depth_kind == "depth" else scaled).astype(np.float32)
    beyond = ~np.isfinite(disparity) | (np.isinf(scaled) & np.isfinite(values))
    if beyond.any():
        row, column = np.argwhere(beyond)[0]
        value = values[row, column]
        raise ValueError(
            f"{depth_path}: {config.depth_kind} {value:g} at column {column}, row {row} is out of any range"
        )
    relative = config.depth_kind == "disparity" and integers and config.depth_scale is None
    return RGBD(image, disparity, holes, is_linear(image_path), relative)


def estimated_rgbd(image_path: Path, config: DepthConfig, light: Curve) -> RGBD:
    """A picture with the disparity that a network guesses: 0 (infinitely far) to 1, or 1 / metres by a metric one."""
    from dofnerf.studio.monocular import MonocularNetwork

    config.check()
    image, linear = read_image(image_path, orient=True), is_linear(image_path)
    network = MonocularNetwork(config.model)
    shown = image
    if linear:
        import torch

        from dofnerf.optics import to_display

        shown = to_display(torch.from_numpy(image), light).clamp(0, 1).numpy()
    disparity = network.disparity(shown).astype(np.float32)
    if not network.gives_depth:
        low, high = float(disparity.min()), float(disparity.max())
        if not high > low:
            raise ValueError(f"{image_path}: --model {config.model} sees one depth everywhere; give a depth map")
        disparity = (disparity - low) / (high - low)
    return RGBD(image, disparity, np.zeros(disparity.shape, bool), linear, relative=not network.gives_depth)


def _refuse_holes(path: Path, config: DepthConfig, values: np.ndarray, holes: np.ndarray, wanted: str) -> None:
    row, column = np.argwhere(holes)[0]
    found = f"{path}: {config.depth_kind} must be {wanted}, found {values[row, column]:g} at column {column}, row {row}"
    if holes.all():
        raise ValueError(f"{found}, and the same at every other pixel")
    if config.holes == "error":
        raise ValueError(f"{found} ({int(holes.sum())} such pixels); --holes far takes them as infinitely far")
