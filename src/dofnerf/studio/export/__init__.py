"""Take a trained scene elsewhere: `dofnerf export`.

Each kind of export is a file of this folder, found by itself: a subclass of `Kind`, registered, whose name is its flag.
A plug-in adds one in the same way.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import tyro

from dofnerf.files.guard import read_json
from dofnerf.files.outputs import check_file, check_folder, check_no_link
from dofnerf.files.progress import Progress
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import Device, LensFlags, SplatFileFlags, ViewpointFlags, check_within, default
from dofnerf.studio.source import Source, check_focus_at, is_splat_file, open_source

if TYPE_CHECKING:
    from dofnerf.files.ply import Splats
    from dofnerf.studio.shoot import LayeredPicture

MOST_LAYERS = 16  # that a page's shader takes
MARK = "dofnerf export"

KINDS: dict[str, Kind] = {}  # in the order of their flags
_Type = TypeVar("_Type", bound="type[Kind]")


def register(kind: _Type) -> _Type:
    """Make a kind of export known by its `name`, which becomes a flag."""
    KINDS[kind.name] = kind()
    return kind


class Kind(ABC):
    """A kind of export, `dofnerf export RUN --name`. `about` is the help of its flag.

    `per_view`: it is made for each chosen view, else once. `suffixes`: those of a single file that --out may name.
    `of_files`: it can be made of a file of splats, too.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    per_view: ClassVar[bool] = False
    suffixes: ClassVar[tuple[str, ...]] = ()
    of_files: ClassVar[bool] = True

    def views(self, config: ExportConfig, source: Source) -> bool:
        """Whether it is made for each chosen view of this source, else once."""
        return self.per_view

    @abstractmethod
    def target(self, job: Job, view: Viewpoint | None) -> Path:
        """Where it goes: a file, or a folder; `view` is None unless it is made per view."""

    def steps(self, job: Job) -> int:
        """How many parts, for the progress bar; `write` calls `job.tick` after each but the last."""
        return 1

    def check(self, job: Job, view: Viewpoint | None) -> None:  # noqa: B027
        """Refuse what cannot be written, before anything is."""

    @abstractmethod
    def write(self, job: Job, view: Viewpoint | None) -> str:
        """Write it to its target; returns what it is in words."""

    def hint(self, job: Job, view: Viewpoint | None) -> str:
        """A line to print after it, if any."""
        return ""


@dataclass(frozen=True)
class ExportConfig:
    """Take a trained run elsewhere: as a page to walk around in with a lens, as splats for other tools, as layers,
    or as cameras and sharp pictures.

    For example:
      dofnerf export runs/mine --html                      a page to walk around in, with a lens
      dofnerf export garden.ply --html --up 0,0,1          the same of anybody's splats
      dofnerf export runs/mine --html --single-view --view 3 --width 1008 --out photo.html
      dofnerf export runs/mine --rgbd --view 3             colour and depth, layer by layer
      dofnerf export runs/mine --ply --spz                 splats for other tools (of a volumetric run: points)
      dofnerf export runs/mine --glb                       splats as glTF, which mix as light
      dofnerf export garden.spz --ply                      one format of splats into another
      dofnerf export runs/mine --cameras                   a folder for nerfstudio: poses, lenses, sharp views
    """

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")]
    """The folder of a run (dofnerf train), or a file of 3D Gaussians from any tool: .ply (also
    compressed), .glb, .spz, .sog, .splat."""
    single_view: bool = False
    """For --html: one view in layers of depth, rather than the whole scene to walk around in. Other fields than splats
    have only that."""
    free: bool = False
    """For --html: let people leave the region that the photos saw."""
    layers: int = 4
    """Layers of depth for --single-view and --rgbd, 1 to 16. Each knows what nearer ones hide; a file's guesses it,
    unless --blend light is given."""
    mix: Annotated[Literal["display", "light"] | None, default("light for --glb, else display")] = None
    """How the splats of a run mix in --ply, --glb and the like. display: as in other tools; colours and opacities are
    refined for about a minute until they look there as they do here. light: exactly as trained; other tools, where they
    do not know better, show them darker."""
    out: Annotated[Path | None, default("export in the run", metavar="FOLDER|FILE")] = None
    """A folder, or, for one page or one file of splats, its name. What has the same name is replaced."""
    viewpoint: ViewpointFlags = field(default_factory=ViewpointFlags)
    lens: LensFlags = field(default_factory=LensFlags)
    splat_file: SplatFileFlags = field(default_factory=SplatFileFlags)
    device: Device = "auto"

    @property
    def kinds(self) -> list[Kind]:
        """Those that were asked for."""
        return [kind for name, kind in KINDS.items() if getattr(self, name.replace("-", "_"), False)]

    @property
    def single(self) -> bool:
        """Whether --out names a file."""
        return len(self.kinds) == 1 and _is_file(self.out, self.kinds[0].suffixes)

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        for_file = is_splat_file(self.source)
        if not self.kinds:
            raise ValueError(f"say what to export: one or more of {', '.join(f'--{name}' for name in KINDS)}")
        for kind in self.kinds if for_file else ():
            if not kind.of_files:
                others = " or ".join(f"--{name}" for name, other in KINDS.items() if other.of_files)
                raise ValueError(
                    f"--{kind.name}: {self.source} is a file of splats, without photos; give {others}, or a run"
                )
        self.viewpoint.check(for_file)
        self.splat_file.check(for_file)
        self.lens.check(takes_unit=True)
        if self.viewpoint.camera is None:
            check_focus_at(self.source, self.lens.focus_at, self.viewpoint.width, self.viewpoint.height)
        check_within("--layers", self.layers, 1, MOST_LAYERS)
        if self.out is None:
            return
        if self.single:
            check_file("--out", self.out, self.kinds[0].suffixes)
        elif self.out.suffix.lower() in (".json", *(suffix for kind in KINDS.values() for suffix in kind.suffixes)):
            raise ValueError(f"--out {self.out}: {' and '.join(f'--{kind.name}' for kind in self.kinds)} need a folder")
        else:
            check_folder("--out", self.out)


def export_config(arguments: Sequence[str] = ()) -> type[ExportConfig]:
    """The config with a flag for each kind that is known."""
    flags = [(name.replace("-", "_"), _flag(kind), False) for name, kind in KINDS.items()]
    common = ("view", "width", "single_view", "out")
    everyday = (*(name for name, _, _ in flags), *common)
    annotations = {"EVERYDAY": ClassVar[tuple]}
    namespace = {"__doc__": ExportConfig.__doc__, "EVERYDAY": everyday, "__annotations__": annotations}
    return make_dataclass("ExportConfig", flags, bases=(ExportConfig,), namespace=namespace, frozen=True)


class Job:
    """What is exported: the `source`, the chosen `views`, and the folder or file `out`."""

    def __init__(self, config: ExportConfig, source: Source, tick: Callable[[], None] = lambda: None) -> None:
        from dofnerf.studio.viewpoints import viewpoints

        self.config, self.source, self.tick = config, source, tick
        self.out = config.out or source.folder / "export"
        if config.out is None:
            check_no_link(self.out)
        self.views: list[Viewpoint] = []
        flags = config.viewpoint
        if any(kind.per_view for kind in config.kinds):
            self.views = viewpoints(flags, source)
            self.views = self.views if flags.view or flags.views is not None else self.views[:1]
        self.refined: Splats | None = None  # by splat_kind
        self._layered: tuple[Viewpoint, LayeredPicture] | None = None

    def layered(self, view: Viewpoint) -> LayeredPicture:
        """The view in --layers; that of the last view is kept."""
        from dofnerf.studio.shoot import layered_picture

        if self._layered is None or self._layered[0] is not view:
            self._layered = view, layered_picture(self.source, view.camera, self.config.layers)
        return self._layered[1]


def run(config: ExportConfig, source: Source | None = None) -> list[Path]:
    """Export as the config says, with a line about each file; returns what was written: files, and folders. A `source`
    that is open already need not be read again."""
    config.check()
    job = Job(config, source or open_source(config.source, config.splat_file, config.device))
    work: list[tuple[Kind, Viewpoint | None]]
    per_view = [kind for kind in config.kinds if kind.views(config, job.source)]
    work = [(kind, view) for view in job.views for kind in per_view]
    work += [(kind, None) for kind in config.kinds if kind not in per_view]
    if config.single and len(work) > 1:
        raise ValueError(f"--out {job.out}: {len(work)} pages do not fit into one file; give one --view, or a folder")
    print(f"scene    {job.source.words}", flush=True)
    for kind, view in work:
        kind.check(job, view)
    written = []
    with Progress("export", sum(kind.steps(job) for kind, _ in work)) as bar:
        job.tick = bar.advance
        for kind, view in work:
            words, path = kind.write(job, view), kind.target(job, view)
            bar.advance()
            written.append(path)
            print(f"wrote    {path}  ({words})", flush=True)
            if hint := kind.hint(job, view):
                print(hint, flush=True)
    return written


def check_ours(list_: Path) -> None:
    """Refuse to write where a list (JSON) lies that we did not write."""
    if list_.exists() and read_json(list_).get("made_by") != MARK:
        raise ValueError(f"{list_}: is there, and was not made by dofnerf export; give another --out")


def _flag(kind: Kind) -> Any:
    return Annotated[bool, tyro.conf.arg(help=kind.about)]


def _is_file(out: Path | None, suffixes: Sequence[str]) -> bool:
    return out is not None and out.suffix.lower() in suffixes and not out.is_dir()


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
