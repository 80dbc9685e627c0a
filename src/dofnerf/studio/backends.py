"""Each operation that has several backends, run by one of them and by the reference: do they agree, and how fast?

`BACKENDS` lists all. A *case* is a closure that runs one operation forward and backward on fixed inputs and returns
what came out: values and gradients.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dofnerf.camera import Camera
from dofnerf.files.extras import how_to_install
from dofnerf.models.splat.blurs import sub_apertures
from dofnerf.models.splat.raster import Gaussians, choose_backend, project, rasterise_mean
from dofnerf.models.volume.fields.hash import HashConfig, HashField
from dofnerf.optics import scatter
from dofnerf.optics.scattering import choose_backend as choose_scatter

TOLERANCE = 1e-3  # of the largest value; rounding in float32 stays below a tenth of it
Case = Callable[[], list[Tensor]]
Name = Literal["cpu", "gpu"]
Verdict = Literal["agrees", "disagrees", "failed", "not run"]


@dataclass(frozen=True)
class Place:
    """Where a case runs: backend, device and type."""

    backend: Literal["reference", "cpu", "gpu"] = "reference"
    device: str = "cpu"
    dtype: torch.dtype = torch.float64

    def put(self, tensor: Tensor) -> Tensor:
        """The same tensor there, to be differentiated."""
        return tensor.to(self.device, self.dtype).requires_grad_()


@dataclass(frozen=True)
class Operation:
    """`make(size, place)` is a case: `small` for the comparison, `large`, described by `what`, for its time."""

    name: str
    make: Callable[[int, Place], Case]
    small: int
    large: int
    what: str
    backends: tuple[Name, ...] = ("cpu", "gpu")


@dataclass(frozen=True)
class Check:
    """`error` is the largest difference of all values and gradients, each as a share of its largest; `milliseconds` of
    the large case, forward and backward."""

    operation: str
    backend: Name
    verdict: Verdict
    why: str = ""
    error: float | None = None
    milliseconds: float | None = None
    what: str = ""


def check(operation: Operation, backend: Name, seconds: float) -> Check:
    """Compare a backend with the reference on small inputs; then time it for `seconds`, 0 for not at all."""
    blank = Check(operation.name, backend, "not run")
    if why := missing(backend):
        return replace(blank, why=why)
    interpreted = backend == "gpu" and not torch.cuda.is_available()
    place = Place(backend, "cuda" if backend == "gpu" and not interpreted else "cpu", torch.float32)
    try:
        expected = operation.make(operation.small, Place())()
        error = _difference(operation.make(operation.small, place)(), expected)
        if not error <= TOLERANCE:
            return replace(blank, verdict="disagrees", error=error)
        blank = replace(blank, verdict="agrees", error=error, why="interpreted" if interpreted else "")
        if seconds <= 0 or interpreted:
            return blank
        spent = _time(operation.make(operation.large, place), seconds, place.device)
    except Exception as problem:  # a compiler or driver may raise anything; it is what we are here to report
        return replace(blank, verdict="failed", why=f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}")
    return replace(blank, milliseconds=spent, what=operation.what)


def missing(backend: Name) -> str:
    """What this machine lacks to run a backend; nothing if it can."""
    if backend == "cpu":
        return ""
    if find_spec("triton") is None:
        return f"triton is not installed: {how_to_install('gpu')}"
    if torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1":
        return ""
    return "no CUDA device (TRITON_INTERPRET=1 runs it in triton's interpreter)"


def chosen(operation: Operation, device: str) -> str:
    """The backend that is used on a device."""
    like = torch.empty(1, 1, 1, device=device)
    if operation.name == "hash":
        return "cpu" if device == "cpu" else "reference"
    return choose_scatter(like) if operation.name == "scatter" else choose_backend(like)


def _difference(found: list[Tensor], expected: list[Tensor]) -> float:
    shares = [
        (a.detach().cpu().double() - b.detach()).abs().max() / b.detach().abs().max().clamp(min=1e-12)
        for a, b in zip(found, expected, strict=True)
    ]
    return float(torch.stack(shares).nan_to_num(nan=torch.inf).max())


def _time(case: Case, seconds: float, device: str) -> float:
    """Milliseconds of the quickest run within about so many seconds; the first compiles and does not count."""
    best, case_runs = float("inf"), 0
    case()
    begun = time.perf_counter()
    while case_runs < 2 or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        case()
        if device == "cuda":
            torch.cuda.synchronize()
        best, case_runs = min(best, time.perf_counter() - started), case_runs + 1
    return 1000 * best


def _results(outputs: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    dice = torch.Generator().manual_seed(1)
    loss = sum((out * torch.randn(out.shape, generator=dice).to(out)).sum() for out in outputs)
    assert isinstance(loss, Tensor)
    return [*outputs, *torch.autograd.grad(loss, inputs)]


def scatter_case(width: int, place: Place) -> Case:
    """A picture of random colours and radii up to 12 pixels."""
    dice = torch.Generator().manual_seed(0)
    shape = (width * 3 // 4, width)
    colour = place.put(torch.rand(*shape, 3, generator=dice) + 0.1)
    radius = place.put(12 * torch.rand(shape, generator=dice))
    return lambda: _results([scatter(colour, radius, backend=place.backend)], [colour, radius])


def splat_case(width: int, place: Place) -> Case:
    """Random Gaussians before a camera through four sub-apertures, one for every 15 pixels."""
    height = width * 3 // 4
    camera = Camera(np.eye(3, 4), float(width), float(width), width / 2, height / 2, width, height)
    gaussians = Gaussians(*(place.put(tensor) for tensor in _gaussians(camera, width * height // 15)))
    aperture, focus = place.put(torch.tensor(0.02 * width)), place.put(torch.tensor(0.3))
    parts = sub_apertures(4)

    def case() -> list[Tensor]:
        projected = project(gaussians, camera, aperture, focus, parts[0].radius, backend=place.backend)
        views = [projected] * len(parts)
        drawn = rasterise_mean(views, parts, aperture, focus, width, height, place.backend)
        return _results(list(drawn), [*gaussians, aperture, focus])

    return case


def _gaussians(camera: Camera, count: int) -> list[Tensor]:
    """Two to eight away, all over the picture, of 2.5 pixels' deviation."""
    dice = np.random.default_rng(0)
    depth = 1 / dice.uniform(1 / 8, 1 / 2, count)
    means = camera.unproject(dice.uniform(0, 1, (count, 2)) * (camera.width, camera.height), depth)
    scales = np.log(2.5 * depth / camera.fx)[:, None] + 0.5 * dice.standard_normal((count, 3))
    others = dice.standard_normal((count, 4)), dice.standard_normal(count), 0.3 * dice.standard_normal((count, 9, 3))
    return [torch.from_numpy(array).float() for array in (means, scales, *others)]


def hash_case(rays: int, place: Place) -> Case:
    """Colour and density at 32 samples of each ray, of a hash grid and its network."""
    torch.manual_seed(0)
    field = HashField(HashConfig(backend="cpu" if place.backend == "cpu" else "reference")).to(
        place.device, place.dtype
    )
    dice = torch.Generator().manual_seed(0)
    points = place.put(1.8 * torch.rand(rays, 32, 3, generator=dice) - 0.9)
    ahead = torch.nn.functional.normalize(torch.randn(rays, 1, 3, generator=dice), dim=-1).to(points)
    return lambda: _results(list(field(points, ahead)), [points, *field.parameters()])


OPERATIONS = (
    Operation("splats", splat_case, 20, 640, "640×480, 20 480 Gaussians, 4 sub-apertures"),
    Operation("scatter", scatter_case, 12, 640, "640×480, radii to 12 pixels"),
    Operation("hash", hash_case, 8, 4096, "131 072 samples", ("cpu",)),
)
