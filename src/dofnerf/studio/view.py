"""A trained scene in the browser: `dofnerf view`."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from dofnerf import scenes
from dofnerf.files.extras import how_to_install
from dofnerf.scenes import Scene
from dofnerf.studio.flags import Device, LensFlags, SplatFileFlags, ViewpointFlags, check_within, default, given
from dofnerf.studio.source import Source, is_splat_file, open_source

if TYPE_CHECKING:
    from dofnerf.studio.viewer.settings import Settings, Shared

DEMO_RUN, VIEW_RUN = Path("runs/demo/ours"), Path("runs/view-demo")
DEMO_SHARE = 0.3  # of the steps of the preset fast


@dataclass(frozen=True)
class ViewConfig:
    """Show a trained run, or the splats of a .ply file, in the browser: orbit, click to focus, turn the lens.

    Drag to orbit, right-drag to move, scroll to come nearer, W A S D Q E to fly. Each browser has a camera and a lens
    of its own; the lens flags say what it begins with. Only this machine is served, unless --host says otherwise. Needs
    the extra `view`: pip install '.[view]'.

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
    scene: Annotated[Path | None, default("where it was when the run was trained")] = None
    """The scene that the run was trained on, for its photos beside the picture; they are read once, at the start."""
    host: str = "127.0.0.1"
    """The address to serve on: 127.0.0.1 is this machine only, 0.0.0.0 everybody who can reach it."""
    port: int = 8080
    """The port; the next free one is taken if something has it already."""
    size: int = 720
    """Pixels along the longer side of the picture when the camera rests."""
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
        self.lens.check(shows_f_numbers=True)
        for_file = self.source is not None and is_splat_file(self.source)
        self.viewpoint.check(for_file)
        self.splat_file.check(for_file)
        if importlib.util.find_spec("viser") is None:
            raise ValueError(f"the viewer needs viser: {how_to_install('view')}")


def run(config: ViewConfig, source: Source | None = None, scene: Scene | None = None) -> None:
    """Serve until interrupted. A `source` and a `scene` that are open already need not be read again."""
    config.check()
    shared = prepare(config, source, scene)
    from dofnerf.studio.viewer.server import serve

    server = serve(shared, config.host, config.port, f"dofnerf {shared.source.path.resolve().name}")
    host = "localhost" if config.host == "127.0.0.1" else config.host
    print(f"view     http://{host}:{server.get_port()}", flush=True)
    print("         Ctrl+C ends it", flush=True)
    try:
        while True:
            time.sleep(3600)
    finally:
        server.stop()


def prepare(config: ViewConfig, source: Source | None = None, scene: Scene | None = None) -> Shared:
    """Everything that is read, before the first browser comes."""
    if source is None:
        source = open_source(demo_run() if config.source is None else config.source, config.splat_file, config.device)
    print(f"scene    {source.words}", flush=True)
    from dofnerf.studio.viewer.renderer import draw
    from dofnerf.studio.viewer.settings import Shared, fitted
    from dofnerf.studio.viewpoints import viewpoints

    home = viewpoints(config.viewpoint, source)[0]
    seen = draw(source.model, fitted(home.camera, home.camera.width / home.camera.height, 160), 1)
    assert seen is not None
    if seen.picture.holes.all():
        raise ValueError(f"{source.path}: the first view shows nothing; give --eye and --look-at, or another --view")
    views, photos = {view.name: view for view in source.views}, known_photos(config.scene, source, scene)
    scale, sensor = config.lens.scale(source.optics), config.lens.sensor(source.optics)
    unit = None if scale is None else scale.metres
    shared = Shared(source, views, home, seen.picture, config.size, unit=unit, sensor=sensor, photos=photos)
    return replace(shared, start=start_settings(config.lens, shared)) if given(config.lens, but=("unit",)) else shared


def start_settings(flags: LensFlags, shared: Shared) -> Settings:
    """What the lens flags say that a session begins with."""
    from dofnerf.studio.shoot import sharp_picture
    from dofnerf.studio.viewer.settings import Settings, shape_choices

    camera, name = shared.home.camera, flags.shape if flags.shape not in ("disc", "blades") else None
    shape = name or "", flags.blades or (6 if flags.shape == "blades" else 0)
    if shape not in shape_choices().values():
        raise ValueError(f"--blades: the viewer has 0 and 3 to 9, found {flags.blades}")
    settings = Settings(
        0.25 * shared.widest, shared.first.disparity_in_the_middle(), shape[1], flags.rotation, shape=shape[0]
    )
    if not (flags.opened or flags.focused):
        return settings
    lens, _ = flags.resolve(camera, sharp_picture(shared.source.model, camera)[1], shared.source.optics)
    if lens is None:
        return replace(settings, radius=0.0)
    return replace(settings, radius=lens.aperture / camera.fx, disparity=lens.focus_disparity)


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
