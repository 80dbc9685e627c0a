"""What the kinds of export that hold splats have in common: which way is up, and how splats mix."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.ply import Drawing, Splats
from dofnerf.scenes import Viewpoint
from dofnerf.studio.export import Job, Kind
from dofnerf.studio.flags import vector
from dofnerf.studio.source import Source


class SplatKind(Kind):
    """A file of splats. It is turned so that `up` is up, as tools expect; splats that mix as light are refined so that
    they look the same where display values mix, unless the file says how they mix (`says_light`) and --mix light asks
    for it, or `keeps_light`, in which case --mix display asks for the other."""

    up: ClassVar[tuple[float, float, float]] = (0.0, -1.0, 0.0)
    says_light: ClassVar[bool] = False
    keeps_light: ClassVar[bool] = False

    @abstractmethod
    def save(self, path: Path, splats: Splats, drawing: Drawing) -> None:
        """Write the file."""

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        return job.out if job.config.single else job.out / f"scene.{self.ending}"

    @property
    def ending(self) -> str:
        """Of the file's name, without a dot."""
        return self.name

    def steps(self, job: Job) -> int:
        from dofnerf.studio.baking import TICKS

        first = next((kind for kind in job.config.kinds if isinstance(kind, SplatKind) and kind.bakes(job)), None)
        return 1 + TICKS * (first is self)

    def bakes(self, job: Job) -> bool:
        """Whether splats have to be refined for it."""
        mixes = job.source.model.splats() is not None and not job.source.flat
        return mixes and job.config.mix != "light" and not (self.keeps_light and job.config.mix is None)

    def check(self, job: Job, view: Viewpoint | None) -> None:
        source = job.source
        if self.target(job, view).resolve() == source.path.resolve():
            raise ValueError(f"{self.target(job, view)}: would overwrite the input; give another --out")
        if source.model.splats() is None:
            self.check_without_splats(source)
        elif job.config.mix == "light" and source.flat:
            raise ValueError(f"--mix light: the splats of {source.path} mix as display values; leave it away")
        elif job.config.mix == "light" and not self.says_light:
            raise ValueError(
                f"--mix light: such a file cannot say so, and --{self.name} would look wrong; use --ply, --glb"
            )
        elif self.bakes(job) and not _cameras(job):
            raise ValueError(
                f"--{self.name}: to refine splats that mix as light, views are needed; give --camera FILE.json, "
                f"or --mix light with --ply or --glb"
            )

    def check_without_splats(self, source: Source) -> None:
        """Refuse a source that is not made of splats."""
        raise ValueError(f"--{self.name}: {source.path} is not made of splats; --ply gives its coloured points")

    def write(self, job: Job, view: Viewpoint | None) -> str:
        path = self.target(job, view)
        splats, drawing = self.prepared(job)
        self.save(path, splats, drawing)
        how = {"display": "", "light": ", which mix as light", "linear": ", which mix as light"}[drawing.blend]
        how = ", refined so that they look the same where display values mix" if self.bakes(job) else how
        return f"{len(splats):,} splats{how}, {path.stat().st_size / 1e6:.2f} MB"

    def prepared(self, job: Job) -> tuple[Splats, Drawing]:
        """The splats as they are written, and how to draw them."""
        from dofnerf.files.splats.turning import turn_between, turned

        source, flags = job.source, job.config.viewpoint
        made_of = source.model.splats()
        assert made_of is not None
        splats, background = made_of
        if self.bakes(job):
            splats, background = _refined(job), (0.0, 0.0, 0.0)
        blend = "display" if source.flat or self.bakes(job) else "light"
        up = np.array(vector("--up", flags.up)) if flags.up is not None else source.upward
        up = up / np.linalg.norm(up)
        turn = turn_between(up, np.array(self.up))
        antialiased = bool(getattr(getattr(source.model, "style", None), "antialiased", False))
        return turned(splats, turn), Drawing(blend, background, tuple(up.tolist()), tuple(turn.tolist()), antialiased)


def _cameras(job: Job) -> list[Camera]:
    """Those of the training photos, or of --camera."""
    views = job.source.views
    if not views and job.config.viewpoint.camera is not None:
        from dofnerf.studio.viewpoints import viewpoints

        return [view.camera for view in viewpoints(job.config.viewpoint, job.source)]
    return [view.camera for view in views if not view.held_out] or [view.camera for view in views]


def _refined(job: Job) -> Splats:
    """The refined splats; made once for all kinds."""
    from dofnerf.models.splat.model import SplatModel
    from dofnerf.studio.baking import baked

    if job.refined is None:
        if not isinstance(job.source.model, SplatModel):  # a plug-in's
            raise ValueError(f"{job.source.path}: its splats cannot be refined; give --mix light with --ply or --glb")
        job.refined = baked(job.source.model, _cameras(job), tick=job.tick)
    return job.refined
