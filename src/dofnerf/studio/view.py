"""A trained scene in the browser: `dofnerf view`."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.evaluate.trained import find_scene
from dofnerf.studio.lens_config import check_positive
from dofnerf.studio.render import open_subject
from dofnerf.studio.subject import SplatFileConfig, Subject, is_splat_file
from dofnerf.studio.viewpoint_config import ViewpointConfig

if TYPE_CHECKING:
    from dofnerf.studio.viewer.stage import Stage

DEMO_RUN, VIEW_RUN = Path("runs/demo/ours"), Path("runs/view-demo")
DEMO_SHARE = 0.3  # of the steps of the preset fast


@dataclass(frozen=True)
class ViewConfig:
    """Show a trained run, or the splats of a .ply file, in the browser: orbit, click to focus, turn the lens.

    Drag to orbit, right-drag to move, scroll to come nearer, W A S D Q E to fly. Each visitor has a camera and a lens
    of their own. Only this machine is served, unless --host says otherwise. Needs `pip install dofnerf[view]`.

    For example:
      dofnerf view --demo                          the scene in the package
      dofnerf view runs/mine
      dofnerf view runs/mine --scene moved-scene   its photos are elsewhere now
      dofnerf view garden.ply --up 0,0,1 --port 9000
    """

    source: Annotated[
        tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="SOURCE", help_behavior_hint="(optional)")
    ] = None
    """The folder of a run (dofnerf train), or a .ply of 3D Gaussians from any tool."""
    demo: bool = False
    """The scene in the package: the run of `dofnerf demo` if it is in runs/demo, else one that is trained now, briefly,
    into runs/view-demo."""
    scene: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(default: where it was when the run was trained)")
    ] = None
    """The scene that the run was trained on, for its photos beside the picture; they are read once, at the start."""
    host: str = "127.0.0.1"
    """The address to serve on: 127.0.0.1 is this machine only, 0.0.0.0 everybody who can reach it."""
    port: int = 8080
    """The port; the next free one is taken if something has it already."""
    size: int = 720
    """Pixels along the longer side of the picture when the camera rests."""
    unit: float = 1.0
    """Metres in a scene unit, for f-numbers (on a full-frame sensor)."""
    viewpoint: ViewpointConfig = field(default_factory=ViewpointConfig)
    splat_file: SplatFileConfig = field(default_factory=SplatFileConfig)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute: cpu, cuda, or cuda if there is one."""

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        if (self.source is None) is not self.demo:
            raise ValueError("give the folder of a run, or --demo for the scene in the package (not both)")
        if not 64 <= self.size <= 4096:
            raise ValueError(f"--size must be 64 to 4096 pixels, found {self.size}")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port must be 0 to {(1 << 16) - 1}, found {self.port}")
        check_positive(("--unit", self.unit))
        for_file = self.source is not None and is_splat_file(self.source)
        self.viewpoint.check(for_file)
        self.splat_file.check(for_file)
        if importlib.util.find_spec("viser") is None:
            raise ValueError("the viewer needs viser: pip install 'dofnerf[view]'")


def run(config: ViewConfig) -> None:
    """Serve until interrupted."""
    config.check()
    stage = prepare(config)
    from dofnerf.studio.viewer.server import serve

    server = serve(stage, config.host, config.port, f"dofnerf {stage.subject.source.resolve().name}")
    print(
        f"view     http://{'localhost' if config.host == '127.0.0.1' else config.host}:{server.get_port()}", flush=True
    )
    print("         Ctrl+C ends it", flush=True)
    try:
        while True:
            time.sleep(3600)
    finally:
        server.stop()


def prepare(config: ViewConfig) -> Stage:
    """Everything that is read, before the first visitor comes."""
    source = demo_run() if config.source is None else config.source
    subject = open_subject(source, config.splat_file, config.device)
    print(f"scene    {subject.words}", flush=True)
    from dofnerf.studio.viewer.stage import set_stage

    home = config.viewpoint.viewpoints(subject)[0]
    folder = source if source.is_dir() else source.parent
    stage = set_stage(subject, home, folder, config.size, config.unit)
    return replace(stage, photos=known_photos(config.scene, subject))


def demo_run() -> Path:
    """The run of `dofnerf demo`, or one of our own; what is missing of that is trained now."""
    from dofnerf.train import KeepConfig, preset, shortened, train
    from dofnerf.train.checkpoint import FILE

    if (DEMO_RUN / FILE).is_file():
        return DEMO_RUN
    folder = VIEW_RUN
    training = shortened(preset("fast", "splat"), DEMO_SHARE)
    print(f"train    the scene in the package, {training.steps.total} steps in {folder}; only once", flush=True)
    train(scenes.demo(), training, out=folder, resume=True, keep=KeepConfig(preview_minutes=0), quiet=False)
    return folder


def known_photos(path: Path | None, subject: Subject) -> dict[str, np.ndarray]:
    """The photos of the run's views by name, in the size of its training: of the scene at `path`, or of the one that
    the run names, if that is still there."""
    names = {view.name for view in subject.views}
    if subject.size is None or not names:
        return {}
    folder = subject.source if subject.source.is_dir() else subject.source.parent
    try:
        scene = find_scene(folder, subject.size[0], path)
    except (OSError, ValueError):
        if path is not None:
            raise
        return {}
    found = {frame.name: i for i, frame in enumerate(scene.frames) if frame.name in names}
    if path is not None and not found:
        raise ValueError(f"--scene {path}: it has none of the run's photos ({', '.join(sorted(names)[:3])} …)")
    return {name: scene.photo(i) for name, i in found.items()}
