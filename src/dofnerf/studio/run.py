"""From photos to everything in one command: `dofnerf run`.

Capture, training, report, and a page to walk around in. Each stage is a verb of its own whose folder says how far it
is, so that this can be stopped anywhere and called again. The scene is read once, and the trained run is passed on in
memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from dofnerf import scenes
from dofnerf.capture import CaptureOptions, capture
from dofnerf.capture.inputs import VIDEO_PHOTOS, list_files
from dofnerf.capture.pipeline import default_out
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.report.page import FILE
from dofnerf.evaluate.report.run_page import write_run_page
from dofnerf.files import write_json
from dofnerf.files.guard import read_json_value
from dofnerf.files.outputs import check_folder
from dofnerf.files.progress import Progress
from dofnerf.models.data import f_numbers
from dofnerf.process import Failed, keeps, locked
from dofnerf.scenes import Scene
from dofnerf.scenes.reading import scaled
from dofnerf.studio.export import export_config
from dofnerf.studio.export import run as export
from dofnerf.studio.flags import default, given
from dofnerf.studio.live import live
from dofnerf.studio.plan import Plan
from dofnerf.studio.source import Source, source_of
from dofnerf.studio.view import ViewConfig
from dofnerf.studio.view import run as show
from dofnerf.train import KeepConfig, Run, preset, shortened, train
from dofnerf.train.config import check_share
from dofnerf.train.expect import expect
from dofnerf.web.start_page import FILMS, START, StartPage

SCENE, RUN, RECORD = "scene", "run", "run.json"
_MINUTES = {"fast": 15.0, "best": 60.0}  # for everything, where nobody says


@dataclass(frozen=True)
class RunConfig:
    """Photos in; a sharp scene, every photo's lens, a report and a page to walk around in out.

    Stopped anywhere and called again, it goes on where it was.

    For example:
      dofnerf run photos
      dofnerf run clip.mp4 --out cans --preset best
      dofnerf run photos --width 780 --size 1560
    """

    EVERYDAY: ClassVar = ("out", "preset", "minutes", "width", "steps", "force", "live", "view", "masks", "scale_by")

    photos: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PHOTOS")]
    """A folder of photos of one still scene, a video, or a scene that has poses already (as for dofnerf train)."""
    out: Annotated[Path | None, default("NAME-run in the current folder")] = None
    """The folder for everything: scene/, run/, and what comes after."""
    preset: Literal["fast", "best"] = "fast"
    """fast (minutes), or best (quality first, for the patient)."""
    minutes: Annotated[float | None, default("15 for fast, 60 for best")] = None
    """Time for everything, from the photos to the page: they are trained on as wide as it allows on this machine, whose
    speed is measured at the start."""
    width: Annotated[int | None, default("what --minutes allows")] = None
    """Train on photos of this many pixels across, however long it takes; never more than the scene's photos have."""
    steps: float = 1.0
    """Share of the preset's training steps: less is quicker, and worse."""
    force: bool = False
    """Train even where it is hopeless: with fewer than 3 photos, or without parallax."""
    live: bool = False
    """Serve the viewer on this machine while it trains: the scene and the lens of every photo as they come."""
    view: bool = False
    """Open the viewer at the end."""
    capture: CaptureOptions = dataclasses.field(default_factory=CaptureOptions)

    def check(self, out: Path) -> None:
        """Refuse what could not work, before anything is made."""
        check_folder("--out", out)
        self.capture.check()
        check_share(self.steps)
        if self.width is not None and self.width < 16:
            raise ValueError(f"--width {self.width}: expected 16 pixels or more")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"--minutes {self.minutes:g}: expected more than 0")
        if self.minutes is not None and self.width is not None:
            raise ValueError("--minutes and --width: each decides the width; give one")


def run(config: RunConfig) -> Run:
    """Do all stages that are not done yet; returns the trained run."""
    out = config.out or default_out(config.photos, "run")
    config.check(out)
    with locked(out), keeps(lambda: f"{out}, what is in it so far" if (out / RECORD).exists() else ""):
        return _run(config, out)


def _run(config: RunConfig, out: Path) -> Run:
    has_poses = _is_scene(config.photos)
    own = shortened(preset(config.preset), config.steps).method
    budget = 60 * (config.minutes or _MINUTES[config.preset])
    plan = Plan(own, 0 if has_poses else _count(config.photos), budget, config.width)
    plan.say()
    _say(1, "capture")
    settings = {"preset": config.preset, "steps": config.steps}
    for key in ("scale_by", "hold_every"):  # a trained run's scene stays as it is
        if (value := getattr(config.capture, key)) is not None:
            settings[key] = value
    _expect_same(out / RECORD, settings)
    scene = _scene_of(config, out, has_poses)
    width = _width_of(config, out / RECORD, scene, plan)
    _expect_same(out / RECORD, settings | {"width": width})
    if not (out / RECORD).is_file():
        write_json(out / RECORD, settings | {"width": width})
    scene = at_width(scene, width)
    print(f"scene    {scene.describe()}", flush=True)
    expect(scene, config.force)
    plan.done("capture", scene)
    _say(2, f"train ({config.preset}, {scene.size[0]}×{scene.size[1]} pixels)")
    training = shortened(preset(config.preset), config.steps)
    training = replace(training, method=training.method.for_photos_of(scene.size[0] * scene.size[1]))
    if all(f_numbers(scene)):  # the camera knows which photos have one aperture
        training = training.changed({"lens": {"share_aperture": "exif"}})
    with live(config.live, None):
        done = train(scene, training, out=out / RUN, resume=True, keep=KeepConfig(), quiet=False)
    print(
        f"trained  {out / RUN} in {done.learner.progress.seconds:.0f} s; every photo's lens is in "
        f"{out / RUN / 'lens.csv'}"
    )
    plan.done("train", scene)
    _say(3, "report")
    failed: list[str] = []
    _try("report", failed, lambda: write_run_page(out / RUN / FILE, done, scene, LpipsConfig().find()))
    _say(4, "page")
    source = source_of(done, out / RUN)
    _try("page", failed, lambda: export(export_config()(out / RUN, html=True), source))  # type: ignore[call-arg]
    _try("start page", failed, lambda: write_start(out, config, source, scene))
    page = "" if "start page" in failed else f"open {shlex.quote(str(out / START))}, or: "
    print(f"next     {page}dofnerf view {shlex.quote(str(out))}")
    if config.view:
        _try("viewer", failed, lambda: show(ViewConfig(out / RUN), source, scene))
    if failed:
        raise Failed(f"{', '.join(failed)} failed, see above; the trained run is in {out / RUN}")
    return done


def write_start(out: Path, config: RunConfig, source: Source, scene: Scene) -> None:
    """index.html: the scene to walk around in, the lens of every photo, report, films, and the commands."""
    folder = out / RUN
    pages = sorted((folder / "export").glob("*.html"), key=lambda path: (path.name != "scene.html", path.name))
    shown = pages[0].relative_to(out).as_posix() if pages else None
    links = [("The scene on a page of its own", shown)] if shown else []
    links += [("Report", f"{RUN}/{FILE}")] if (folder / FILE).is_file() else []
    links += [("Lenses as a table", f"{RUN}/lens.csv")] if (folder / "lens.csv").is_file() else []
    links += [(film.name, film.relative_to(out).as_posix()) for film in sorted((folder / FILMS).glob("*.mp4"))]
    name, photos = shlex.quote(str(out)), shlex.quote(str(config.photos))
    go_on = [
        f"dofnerf view {name}                      # in the browser, with films",
        f"dofnerf render {name} --rack-focus       # a film, linked above once it is there",
        f"dofnerf render {name} --as-shot          # every photo's own lens, sharp scene",
        f"dofnerf export {name} --html --out share.html",
        f"dofnerf report {name}",
    ]
    made = ["dofnerf run " + " ".join([photos, "--preset", config.preset, "--out", name])]
    if (out / SCENE).is_dir():
        made.append(
            f"# = dofnerf capture {photos} --out {shlex.quote(str(out / SCENE))}, then train, report and export"
        )
    about = "How wide open each photo's lens was, against the usual one of all, and how far away it was in focus"
    about += f" ({scene.metres:g} m to a unit of the scene)." if scene.metres else ", in units of the scene."
    StartPage(out.resolve().name, shown, links, source.lens_rows(scene.metres), about, go_on, made).write(out / START)


def at_width(scene: Scene, width: int) -> Scene:
    """The scene with photos of so many pixels across, as if it had been read so."""
    assert scene.origin is not None
    height = round(scene.size[1] * width / scene.size[0])
    origin = replace(scene.origin, options=replace(scene.origin.options, width=width))
    return replace(scene, frames=tuple(scaled(frame, width, height) for frame in scene.frames), origin=origin)


def _width_of(config: RunConfig, record: Path, scene: Scene, plan: Plan) -> int:
    """The width that is asked for, that of a run that was begun, or what the time allows."""
    if config.width:
        return min(config.width, scene.size[0])
    if record.is_file():
        with contextlib.suppress(ValueError):  # said when the record is compared
            found = read_json_value(record)
            if isinstance(found, dict) and isinstance(found.get("width"), int):
                return min(max(found["width"], 1), scene.size[0])
    plan.photos = len(scene.train)
    return plan.width(scene.size)


def _count(photos: Path) -> int:
    """Photos that capture will have, roughly."""
    with contextlib.suppress(ValueError):  # capture says what is wrong
        listing = list_files(photos)
        return len(listing.photos) + VIDEO_PHOTOS * len(listing.videos)
    return 0


def _is_scene(path: Path) -> bool:
    """Whether it has poses already."""
    if path.is_dir() or (path.exists() and path.suffix == ".json"):
        with contextlib.suppress(ValueError):  # a folder of photos, then
            scenes.detect(path)
            return True
        return False
    return str(path) == scenes.PACKAGED and not path.exists()


def _scene_of(config: RunConfig, out: Path, has_poses: bool) -> Scene:
    """The scene: captured now, before, or given as it is."""
    if has_poses:
        if flags := ", ".join(given(config.capture)):
            raise ValueError(
                f"{config.photos}: a scene that has poses already; {flags}: only for photos that have none"
            )
        return scenes.load(config.photos)
    with Progress(keep=True) as display:
        return capture(config.photos, out / SCENE, config.capture, display)


def _expect_same(path: Path, settings: dict[str, Any]) -> None:
    """A folder holds one run: refuse another preset, width, number of steps, scale or split."""
    if not path.is_file():
        return
    try:
        found = read_json_value(path)
    except ValueError:
        raise ValueError(f"{path}: not readable; remove the folder or give another --out") from None
    found = found if isinstance(found, dict) else {}
    differing = [f"--{key.replace('_', '-')}" for key in settings if found.get(key) != settings[key]]
    if differing:
        raise ValueError(f"--out {path.parent}: was begun with another {', '.join(differing)}; give another --out")


def _try(name: str, failed: list[str], act: Callable[[], object]) -> None:
    """A stage after training: its failure is noted, and keeps nothing else from being done."""
    try:
        act()
    except (ValueError, OSError) as error:
        failed.append(name)
        print(f"dofnerf: {name}: {error}; the trained run is there all the same", file=sys.stderr)


def _say(number: int, name: str) -> None:
    print(f"stage    {number} of 4: {name}", flush=True)
