"""What a model is, whatever the scene is made of: camera + optional lens in → image, disparity, alpha out.

Volumetric fields march along rays, splats are drawn; nobody who asks for a view needs to know. A model is a torch
module: its parameters learn, and its state (parameters and buffers) is all that a checkpoint keeps of it.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import PIL.Image
import torch
from torch import Tensor, nn

from dofnerf.camera import Camera
from dofnerf.files import is_linear, write_image
from dofnerf.files.outputs import check_file
from dofnerf.files.pictures import IMAGE_SUFFIXES, to_bytes
from dofnerf.models.adam import Adam
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import LearnedLens
from dofnerf.optics.layers import Layers, split_layers
from dofnerf.optics.lens import Lens
from dofnerf.optics.light import GAMMA, Curve, to_linear

if TYPE_CHECKING:
    from typing_extensions import Self

    from dofnerf.files.ply import Splats
    from dofnerf.models.data import Setting, TrainingData
    from dofnerf.scenes import Scene

OLD_PRESETS = {"sharp-oracle": "sharp-photos"}  # names in runs and commands of earlier versions
BLURS = 0.5  # pixels of blur radius: with less a photo is sharp, and the aperture has almost no gradient


@dataclass(frozen=True)
class Blur:
    """How the blur of a lens is made.

    `layers` 1 is the paper's blur, more are right at occlusions too; `light` is the curve between display values and
    linear light, in which blur adds up. `blur_by` is the depth that counts in one layer: the mean of depth (the paper's
    Eq. 11) or of disparity.
    """

    layers: int = 1
    light: Curve = 2.2
    blur_by: Literal["depth", "disparity"] = "disparity"


PLAIN = Blur()


class View(NamedTuple):
    """`image` (H, W, 3) in display values (lamps may be beyond 1), `disparity` (H, W) and `alpha` (H, W) of the sharp
    view."""

    image: Tensor
    disparity: Tensor
    alpha: Tensor

    def save(self, path: Path | str, light: Curve = GAMMA) -> None:
        """Write the image as .png, .jpg, .webp …, or as .exr in linear light, which `light` makes of display values."""
        check_file("save", Path(path), IMAGE_SUFFIXES)
        shown = self.image.detach()
        write_image(path, (to_linear(shown, light) if is_linear(path) else shown).cpu().numpy())

    def _repr_png_(self) -> bytes:
        """The image, in a notebook."""
        file = io.BytesIO()
        PIL.Image.fromarray(to_bytes(self.image.detach().cpu().numpy())).save(file, "PNG")
        return file.getvalue()


class Parts(NamedTuple):
    """`light` (K, H, W, 3), linear, through each of K parts of a round lens; `points` (K, M, 2) spread over each."""

    light: Tensor
    points: Tensor


class Model(nn.Module, ABC):
    """What training changes and a run shows. `notes` say what a person should know about how it began."""

    notes: tuple[str, ...] = ()
    is_quick: ClassVar[bool] = False  # whether a view takes so little that several may be drawn to look around

    @abstractmethod
    def view(self, camera: Camera, lens: Lens | None = None, blur: Blur = PLAIN) -> View:
        """The picture that a camera takes, sharp or through a lens, on the model's device; without gradients."""

    def surface(self, camera: Camera, sharp: View) -> Tensor:
        """(H, W): the disparity of the surface that each pixel of a `sharp` view mostly shows; without gradients. That
        of the view, a mean over all that a pixel shows, unless a model knows better."""
        return sharp.disparity

    def light(self, camera: Camera, curve: Curve) -> Tensor:
        """The image of the sharp view (H, W, 3) in linear light of that curve; without gradients."""
        return to_linear(self.view(camera).image, curve)

    def layers(self, camera: Camera, count: int) -> tuple[View, Layers]:
        """The sharp view, and the same cut into `count` layers by depth, the farthest first; without gradients.

        `optics.scatter_layers` puts any lens before them, without asking the model again. A model that can say what
        near things hide does so; this one guesses from what is around.
        """
        sharp = self.view(camera)
        return sharp, split_layers(sharp.image, sharp.disparity, count)

    def parts(self, camera: Camera, lens: Lens, count: int) -> Parts | None:
        """The views through `count` parts of the lens, whatever its shape; None if the model cannot divide it."""
        return None

    def warm_up(self, camera: Camera) -> None:
        """Use once what training uses only now and then, so that it is compiled."""

    def splats(self) -> tuple[Splats, tuple[float, ...]] | None:
        """The Gaussians that it is made of, as a .ply holds them, and the background, display values; or None."""
        return None


class NotFinite(ArithmeticError):
    """A model gave NaN or infinity."""


@dataclass(frozen=True)
class MethodConfig:
    """The settings of a method. Every one has stages of steps; a method's own dataclass adds the rest."""

    STAGES: ClassVar[Mapping[str, str]] = {"pinhole": "pinhole_steps", "lens": "lens_steps"}
    """The stages in order, each with the field that holds its number of steps. The first knows no lens."""
    EVERYDAY: ClassVar[tuple[str, ...]] = ("pinhole_steps", "lens_steps")
    """The fields that the short help of `dofnerf train` shows."""

    pinhole_steps: int = 300
    """Steps without a lens, before one is searched for (the paper's N_pretrain)."""
    lens_steps: int = 1200
    """Steps through each photo's lens, which is learned along."""

    def __post_init__(self) -> None:
        if min(self._counts) < 0 or self.total < 1:
            raise ValueError(f"steps must be 0 or more and not all 0, found {', '.join(map(str, self._counts))}")

    @property
    def _counts(self) -> list[int]:
        return [getattr(self, field) for field in self.STAGES.values()]

    @property
    def total(self) -> int:
        """Steps of all stages."""
        return sum(self._counts)

    def stage_of(self, step: int) -> str:
        """The stage to which a step (from 0) belongs."""
        ends = accumulate(self._counts)
        return next((name for name, end in zip(self.STAGES, ends, strict=True) if step < end), [*self.STAGES][-1])

    @property
    def at_once(self) -> int:
        """How many steps are taken together: their losses are averaged, and parameters move once."""
        return 1

    def together(self, step: int) -> range:
        """The steps that are taken together with `step`, the first of them; all belong to one stage."""
        end = next((end for end in accumulate(self._counts) if step < end), step + 1)
        return range(step, min(step + self.at_once, end))

    def for_photos_of(self, pixels: float) -> Self:
        """With as many steps as photos of so many pixels need."""
        return self

    def work(self, pixels: float) -> float:
        """Pixels that training draws in all, with gradients, from photos of so many `pixels`; a rough figure."""
        return self.total * pixels

    def shortened(self, share: float) -> Self:
        """The same stages with that share of their steps."""
        counts = {field: round(share * getattr(self, field)) for field in self.STAGES.values()}
        return replace(self, **counts)

    def without_lens(self) -> Self:
        """As many steps, all of them in the first stage."""
        first, *others = self.STAGES.values()
        return replace(self, **{first: self.total, **dict.fromkeys(others, 0)})


@dataclass(frozen=True)
class RunConfig:
    """What every method is told, with its own part in `method`. Training adds what photos learn and further losses."""

    field: str
    preset: str
    method: Any
    seed: int = 0
    photos: Literal["given", "sharp"] = "given"
    """Train on the scene's photos, or on its all-in-focus ones."""
    light: Curve = 2.2
    """Gamma of the photos, or srgb: blur adds linear light."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "preset", OLD_PRESETS.get(self.preset, self.preset))


class Preset(NamedTuple):
    """A method's settings, and those of photo quantities and losses, by name, that differ from their defaults."""

    config: MethodConfig
    others: Mapping[str, Mapping[str, object]] = {}


class Outcome(NamedTuple):
    """What a step gives: its `loss`, the mean squared `error` of its pixels (a scalar), how many `rays` it took, and
    the numbers of the `photos` (N,) in its batch; `through_lens` are those whose lens had a part in it (None: no lens).

    `shown` (…, 3) is what was rendered for the pixels `target` (…, 3), for losses that others add: a picture (H, W, 3)
    or single pixels (N, 3), the `share` of a batch that several processes divide. Where a batch has several pictures,
    each has these in an outcome of its own, in `parts`. Losses, errors and rays of all processes add up to those of the
    batch; `photos` and `through_lens` are those of the whole batch.
    """

    loss: Tensor
    error: Tensor
    rays: int
    photos: Tensor
    through_lens: Tensor | None = None
    shown: Tensor | None = None
    target: Tensor | None = None
    share: float = 1.0
    parts: tuple[Outcome, ...] = ()


class Group(NamedTuple):
    """Parameters that Adam moves alike: `rate` is their learning rate at a step (from 0)."""

    name: str
    parameters: list[nn.Parameter]
    rate: Callable[[int], float]
    betas: tuple[float, float] = (0.9, 0.99)


class Quantities(Protocol):
    """What each training photo has of its own (see `train.photos`), as steps use it."""

    searches: bool
    """Whether the lens will be searched for after the first stage."""

    @property
    def lens(self) -> LearnedLens: ...

    @property
    def moves_cameras(self) -> bool:
        """Whether `camera` changes anything."""

    def camera(self, camera: Camera, photo: int) -> Camera:
        """The camera with which the photo was taken."""

    def develop(self, colour: Tensor, photo: int | Tensor, pixels: Tensor | None = None) -> Tensor:
        """Rendered display values (…, 3) as the photo, or each pixel's photo (…), shows them. `pixels` (…, 2) are
        (column, row) in pixels; without them `colour` is a whole picture (H, W, 3) of any size."""


class Steps(ABC):
    """Learning on one scene, step by step. `in_focus` (M, h, w) of 0 and 1, if set, tells where photos are in focus (h,
    w: any size). What must outlive a checkpoint is in the model's state, or in `memory`, whose tensors change in
    place."""

    needs_in_focus: bool = False
    in_focus: Tensor | None = None

    def __init__(
        self,
        data: TrainingData,
        model: Any,
        quantities: Quantities,
        config: RunConfig,
        memory: Mapping[str, Tensor] = {},
        workers: Workers = ALONE,
    ) -> None:
        self.data, self.model, self.quantities, self.memory, self.workers = data, model, quantities, memory, workers
        self.config, self.light = config.method, config.light

    @property
    def lens(self) -> LearnedLens:
        return self.quantities.lens

    @abstractmethod
    def __call__(self, stage: str, generator: torch.Generator) -> Outcome:
        """A batch in, a loss out. All randomness comes from the generator; NotFinite if the model gives no number."""

    def before(self, step: int, generator: torch.Generator) -> None:  # noqa: B027
        """Called before each step, the first is 0; of steps that are taken together, before the first."""

    def after(self, step: int, generator: torch.Generator, adam: Adam) -> None:  # noqa: B027
        """Called after all parameters have moved, with the same `step`; gradients are still there.

        A model may grow here: whoever replaces a parameter also replaces it in its group of `adam`, and its moments in
        `adam.state`.
        """


class Method(ABC):
    """How training knows a kind of model: its `name` for --field, the `family` of fields that take the same flags, its
    `steps`, and the flags to lower when training diverges. `divides`: its steps share a batch among `workers`."""

    name: str
    family: str
    steps: type[Steps]
    rate_flags: str
    divides: bool = False

    @abstractmethod
    def preset(self, name: str) -> Preset:
        """The settings for "fast", "best" or "paper"."""

    @abstractmethod
    def begin(self, config: RunConfig, setting: Setting, scene: Scene, data: TrainingData) -> Model:
        """A new model for a scene; torch is seeded. Called once in the life of a run."""

    @abstractmethod
    def like(self, config: RunConfig, setting: Setting, shapes: Mapping[str, torch.Size]) -> Model:
        """A model to load a checkpoint into, whose state has these `shapes` by name; only their lengths are free, what
        else they say is not to be trusted. Also called on the meta device, to compare before memory is spent."""

    @abstractmethod
    def groups(self, model: Any, config: RunConfig) -> list[Group]:
        """The parameters that learn, and at which rates."""

    def uses_points(self, config: RunConfig) -> bool:
        """Whether its steps learn from the scene's sparse points."""
        return False

    def memory(self, model: Any, photos: int) -> dict[str, Tensor]:
        """Tensors that the steps keep beside the model; a checkpoint holds them too."""
        return {}
