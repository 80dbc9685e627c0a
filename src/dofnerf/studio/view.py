"""A trained scene in the browser: `dofnerf view`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.scenes import Scene
from dofnerf.studio.flags import Device, LensFlags, SplatFileFlags, ViewpointFlags, check_within, default
from dofnerf.studio.source import Source, check_focus_at, is_splat_file, open_source

if TYPE_CHECKING:
    from dofnerf.studio.viewer.server import Viewer

DEMO_RUN, VIEW_RUN = Path("runs/demo/ours"), Path("runs/view-demo")
DEMO_SHARE = 0.3  # of the steps of the preset fast


@dataclass(frozen=True)
class ViewConfig:
    """Show a trained run, or a file of splats, in the browser: orbit, click to focus, turn the lens.

    Drag to walk around, click to focus, scroll to come nearer; ? lists the keys. Splats are drawn by the browser, other
    fields by this machine. The lens flags say what a page begins with. Only this machine is served, unless --host says
    otherwise, and no other web site can ask it anything.

    For example:
      dofnerf view --demo                          the scene in the package
      dofnerf view runs/mine
      dofnerf view runs/mine --scene moved-scene   its photos are elsewhere now
      dofnerf view garden.ply --up 0,0,1 --port 9000
    """

    EVERYDAY: ClassVar = (
        "demo",
        "scene",
        "view",
        "aperture",
        "stops",
        "focus",
        "blades",
        "size",
        "free",
        "host",
        "port",
    )

    source: Annotated[
        tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="SOURCE", help_behavior_hint="(optional)")
    ] = None
    """The folder of a run (dofnerf train), or a file of 3D Gaussians from any tool: .ply (also
    compressed), .glb, .spz, .sog, .splat."""
    demo: bool = False
    """The scene in the package: the run of `dofnerf demo` if it is in runs/demo, else one that is trained now, briefly,
    into runs/view-demo."""
    scene: Annotated[Path | None, default("where it was when the run was trained")] = None
    """The scene that the run was trained on, for its photos beside the picture; they are read once, at the start."""
    host: str = "127.0.0.1"
    """The address to serve on: 127.0.0.1 is this machine only, 0.0.0.0 everybody who can reach it."""
    port: int = 8080
    """The port; the next free one is taken if something has it already."""
    allow_origin: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ORIGIN", help_behavior_hint="(optional)")] = ()
    """Sites besides this server's own that may ask it, such as https://pictures.example where a proxy passes it on.
    Requests for another host, or from another site, are refused."""
    size: int = 720
    """Pixels along the longer side of films, and of pictures that the server draws (of other fields than splats)."""
    free: bool = False
    """Let the camera leave the region that the photos saw."""
    viewpoint: ViewpointFlags = field(default_factory=ViewpointFlags)
    lens: LensFlags = field(default_factory=LensFlags)
    splat_file: SplatFileFlags = field(default_factory=SplatFileFlags)
    device: Device = "auto"

    def check(self) -> None:
        """Refuse what could not work, before anything is loaded."""
        if (self.source is None) is not self.demo:
            raise ValueError("give the folder of a run, or --demo for the scene in the package (not both)")
        check_within("--size", self.size, 64, 4096, " pixels")
        check_within("--port", self.port, 0, (1 << 16) - 1)
        self.lens.check(takes_unit=True)
        for_file = self.source is not None and is_splat_file(self.source)
        self.viewpoint.check(for_file)
        if self.source is not None:
            check_focus_at(self.source, self.lens.focus_at, self.viewpoint.width, self.viewpoint.height)
        self.splat_file.check(for_file)
        for origin in self.allow_origin:
            if not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+", origin):
                raise ValueError(f"--allow-origin must be like https://pictures.example, found {origin}")


def run(config: ViewConfig, source: Source | None = None, scene: Scene | None = None) -> None:
    """Serve until interrupted. A `source` and a `scene` that are open already need not be read again."""
    config.check()
    viewer = prepare(config, source, scene)
    from dofnerf.studio.viewer.server import Server

    server = Server(viewer, config.host, config.port, config.allow_origin)
    server.start()
    host = {"127.0.0.1": "localhost", "0.0.0.0": "localhost"}.get(config.host, config.host)
    print(f"view     http://{host}:{server.port}", flush=True)
    print("         Ctrl+C ends it", flush=True)
    try:
        while True:
            time.sleep(3600)
    finally:
        server.stop()


def prepare(config: ViewConfig, source: Source | None = None, scene: Scene | None = None) -> Viewer:
    """Everything that is read, before the first browser comes."""
    path = config.source if config.source is not None else demo_run()
    if source is None:
        source = open_source(path, config.splat_file, config.device)
    print(f"scene    {source.words}", flush=True)
    from dofnerf.studio.viewer.server import Viewer, jpeg
    from dofnerf.studio.viewpoints import viewpoints
    from dofnerf.studio.walk import walk_of
    from dofnerf.train.checkpoint import FILE

    home = viewpoints(config.viewpoint, source)[0]
    walk, poster = walk_of(source, home, config.lens, source.title, config.free)
    photos = {name: jpeg(photo) for name, photo in known_photos(config.scene, source, scene).items()}
    kept = source.path / FILE if source.path.is_dir() else source.path

    def changed() -> float:
        return kept.stat().st_mtime if kept.exists() else 0.0

    def reload() -> Source:
        return open_source(path, config.splat_file, config.device)

    return Viewer(source, walk, poster, photos, config.size, changed, reload)


def demo_run() -> Path:
    """The run of `dofnerf demo`, or one of our own; what is missing of that is trained now."""
    from dofnerf.train import KeepConfig, preset, shortened, train
    from dofnerf.train.checkpoint import FILE

    if (DEMO_RUN / FILE).is_file():
        return DEMO_RUN
    folder = VIEW_RUN
    training = shortened(preset("fast", "splat"), DEMO_SHARE)
    print(f"train    the scene in the package, {training.method.total} steps in {folder}; only once", flush=True)
    train(scenes.demo(), training, out=folder, resume=True, keep=KeepConfig(preview_minutes=0), quiet=False)
    return folder


def known_photos(path: Path | None, source: Source, scene: Scene | None = None) -> dict[str, np.ndarray]:
    """The photos of the run's views by name, in the size of its training: of `scene`, of the one at `path`, or of the
    one that the run names, if that is still there."""
    from dofnerf.evaluate.trained import find_scene

    names = {view.name for view in source.views}
    if source.size is None or not names:
        return {}
    try:
        scene = scene or find_scene(source.folder, source.size[0], path)
    except (OSError, ValueError):
        if path is not None:
            raise
        return {}
    found = {frame.name: i for i, frame in enumerate(scene.frames) if frame.name in names}
    if path is not None and not found:
        raise ValueError(f"--scene {path}: it has none of the run's photos ({', '.join(sorted(names)[:3])} …)")
    return {name: scene.photo(i) for name, i in found.items()}
