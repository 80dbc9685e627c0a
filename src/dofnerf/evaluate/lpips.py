"""LPIPS v0.1 with AlexNet (Zhang et al. 2018): the perceptual distance of two pictures; 0 is the same.

The trunk is AlexNet's five convolutions; after each, features of unit length are compared, channels weighted by a
learned head. The weights are not part of the package: they come from a file, from the torch hub's cache, or are
downloaded into that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional

from dofnerf.files.guard import check_regular

VARIABLE = "DOFNERF_LPIPS"
TRUNK_URL = "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"
HEADS_URL = "https://raw.githubusercontent.com/richzhang/PerceptualSimilarity/master/lpips/weights/v0.1/alex.pth"
HEADS_NAME = "lpips-v0.1-alex.pth"
LARGEST = 1 << 28  # bytes of weights, unpacked
SMALLEST = 31  # pixels each way; below, AlexNet's second pooling has nothing left
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_SHAPES = ((64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3))
_STRIDE, _PADDING, _POOLED = (4, 1, 1, 1, 1), (2, 2, 1, 1, 1), (False, True, True, False, False)
_TORCHVISION = (0, 3, 6, 8, 10)  # the convolutions' numbers in its `features`


class NoWeights(ValueError):
    """LPIPS is not available; the message says why, and what to do."""


class Lpips:
    """Called with two pictures (H, W, 3) of values 0..1, gives their distance."""

    def __init__(self, kernels: list[Tensor], biases: list[Tensor], heads: list[Tensor], where: str) -> None:
        for i, shape in enumerate(_SHAPES):
            found = tuple(kernels[i].shape), tuple(biases[i].shape), tuple(heads[i].shape)
            if found != (shape, shape[:1], shape[:1]):
                raise NoWeights(f"{where}: not the weights of LPIPS-AlexNet (layer {i} has shapes {found})")
            if not all(bool(torch.isfinite(one).all()) for one in (kernels[i], biases[i], heads[i])):
                raise NoWeights(f"{where}: layer {i} holds a value that is not a number")
        self.kernels, self.biases, self.heads = ([one.float() for one in kind] for kind in (kernels, biases, heads))
        self.where = where

    @torch.no_grad()
    def __call__(self, image: np.ndarray, truth: np.ndarray) -> float:
        pictures = np.stack([np.clip(image, 0, 1), truth]).astype(np.float32)
        shift, scale = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (SHIFT, SCALE))
        x = (torch.from_numpy(pictures).permute(0, 3, 1, 2) * 2 - 1 - shift) / scale
        total = 0.0
        for i, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            if _POOLED[i]:
                x = functional.max_pool2d(x, 3, 2)
            x = functional.relu(functional.conv2d(x, kernel, bias, _STRIDE[i], _PADDING[i]))
            unit = x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)
            total += float(((unit[0] - unit[1]).square() * self.heads[i].reshape(-1, 1, 1)).sum(0).mean())
        return total


@dataclass(frozen=True)
class LpipsConfig:
    """Where LPIPS has its weights from. Without them, its column says so."""

    lpips_weights: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(default: $DOFNERF_LPIPS, or the torch hub's)")
    ] = None
    """An .npz with the weights of AlexNet and of the heads."""
    lpips_fetch: bool = False
    """Download the weights into the torch hub's cache if they are not there (245 MB)."""

    def resolved(self) -> LpipsConfig:
        """The same for processes with another working directory: a file that can be read, by its absolute path."""
        file = self.lpips_weights or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
        if isinstance(self.find(), str) or file is None:
            return self
        return LpipsConfig(file.resolve(), self.lpips_fetch)

    def find(self) -> Callable[[np.ndarray, np.ndarray], float] | str:
        """LPIPS, or why it is not available; a file that was named and cannot be used is an error."""
        try:
            return find_weights(self.lpips_weights, self.lpips_fetch)
        except NoWeights as reason:
            if self.lpips_weights is not None:
                raise
            return str(reason)


def find_weights(file: Path | None = None, fetch: bool = False) -> Lpips:
    """From `file`, else the file that the environment variable DOFNERF_LPIPS names, else the torch hub's cache; with
    `fetch`, what that lacks is downloaded into it (245 MB). NoWeights if there are none."""
    if file is None and os.environ.get(VARIABLE):
        file = Path(os.environ[VARIABLE])
    if file is not None:
        return from_file(file)
    cache = Path(torch.hub.get_dir()) / "checkpoints"
    trunk, heads = cache / Path(TRUNK_URL).name, cache / HEADS_NAME
    for path, url in ((trunk, TRUNK_URL), (heads, HEADS_URL)):
        if not path.is_file():
            if not fetch:
                raise NoWeights(
                    f"no weights of LPIPS: give a file by --lpips-weights or {VARIABLE}, or fetch them by --lpips-fetch"
                )
            _fetch(url, path)
    return from_torch(_load(trunk), _load(heads), f"{trunk} and {heads.name}")


def from_file(path: Path) -> Lpips:
    """An .npz with flax's names and layout (HWIO kernels): AlexNet_0/Conv_N/kernel and bias,
    NetLinLayer_N/Conv_0/kernel."""
    try:
        check_regular(path)
        with np.load(path, allow_pickle=False) as found:
            if sum(part.file_size for part in found.zip.infolist()) > LARGEST:
                raise ValueError("too large when unpacked")
            kernels = [torch.from_numpy(found[f"AlexNet_0/Conv_{i}/kernel"]) for i in range(5)]
            kernels = [kernel.permute(3, 2, 0, 1).contiguous() for kernel in kernels]
            biases = [torch.from_numpy(found[f"AlexNet_0/Conv_{i}/bias"]) for i in range(5)]
            heads = [torch.from_numpy(found[f"NetLinLayer_{i}/Conv_0/kernel"]).reshape(-1) for i in range(5)]
    except FileNotFoundError:
        raise NoWeights(f"{path}: there is no such file of LPIPS weights") from None
    except Exception as error:
        raise NoWeights(f"{path}: not an .npz with the weights of LPIPS-AlexNet ({_line(error)})") from None
    return Lpips(kernels, biases, heads, str(path))


def from_torch(trunk: Mapping[str, Any], heads: Mapping[str, Any], where: str) -> Lpips:
    """torchvision's AlexNet and the heads of the lpips package, by their own names."""
    try:
        return Lpips(
            [trunk[f"features.{n}.weight"] for n in _TORCHVISION],
            [trunk[f"features.{n}.bias"] for n in _TORCHVISION],
            [heads[f"lin{i}.model.1.weight"].reshape(-1) for i in range(5)],
            where,
        )
    except (KeyError, AttributeError) as error:
        raise NoWeights(f"{where}: not the weights of AlexNet and its LPIPS heads (no {error})") from None


def _load(path: Path) -> Mapping[str, Any]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # tensors and nothing that could run
    except Exception as error:
        raise NoWeights(f"{path}: damaged, remove it ({_line(error)})") from None
    if not isinstance(found, Mapping):
        raise NoWeights(f"{path}: holds no named tensors")
    return found


def _fetch(url: str, path: Path) -> None:
    """Download; torchvision's names hold the beginning of the file's hash, which is compared."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = path.stem.rpartition("-")[2] if url == TRUNK_URL else None
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=digest, progress=False)
    except Exception as error:
        raise NoWeights(f"{url}: cannot be fetched ({_line(error)})") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
