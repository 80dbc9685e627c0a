"""`dofnerf bench NAME`: one of the paper's experiments, on scenes of your own or the one in the package."""

from __future__ import annotations

import dataclasses
import shlex
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.files.outputs import check_folder
from dofnerf.lab.bench.cell import Outcomes, SceneChoice
from dofnerf.lab.bench.engines import PATIENCE, as_by_ctrl_c, engine, handled
from dofnerf.lab.bench.experiment import Choice, Experiment
from dofnerf.lab.bench.experiments import EXPERIMENTS
from dofnerf.lab.bench.results import MARKDOWN, Draft, Results, markdown_table, write_results
from dofnerf.lab.bench.schedule import already_done, announce, work_off
from dofnerf.models import methods
from dofnerf.process import keeps, locked, patient
from dofnerf.scenes import PACKAGED, detect
from dofnerf.train.config import check_share


@dataclass(frozen=True)
class BenchConfig:
    """Run one of the paper's experiments and write its table, with the paper's numbers where the scene is the paper's.

    NAME is one of:
      {experiments}

    It prints a rough estimate of the time. Stopped and run again, it goes on where it was; what is done is not done
    again.

    For example:
      dofnerf bench shallow
      dofnerf bench shallow --scenes demo fern-blurred room-blurred --field splat hash --jobs 2 --out bench/all
      dofnerf bench ablation --size 168 --steps 0.3
      dofnerf bench design --field hash --ray auto --jobs 16
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Which experiment."""
    scenes: tuple[str, ...] = (PACKAGED,)
    """Folders of scenes; demo is the one in the package. Blurred ones come from `dofnerf synth`."""
    field: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(help_behavior_hint="(default: the experiment's; mostly splat)")
    ] = None
    """Fields: splat, hash, nerf, dsnerf."""
    preset: Literal["fast", "best", "paper"] = "fast"
    """The settings of all runs."""
    steps: float = 1.0
    """Share of the preset's steps: less is quicker, and worse."""
    size: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: as they are)")] = None
    """Width of the photos in pixels; they are shrunk to it."""
    seeds: tuple[int, ...] = (0,)
    """Seeds: every run is made with each, tables have the means."""
    jobs: int = 1
    """Cells at once: processes of this machine, or with --ray tasks of the cluster."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="(default: no cluster)")] = None
    """Work on a Ray cluster: its address, auto for the one that this machine belongs to, local for a new one here. All
    its machines must see the folders of the scenes and of --out."""
    out: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="(default: bench/NAME)")] = None
    """The folder to write into: results.md, pictures, and a folder for each cell."""
    lpips: LpipsConfig = dataclasses.field(default_factory=LpipsConfig)

    def check(self) -> None:
        """Refuse what could not work, before anything is made."""
        if self.name not in EXPERIMENTS:
            raise ValueError(f"{self.name}: there is no such experiment; there are {', '.join(EXPERIMENTS)}")
        check_folder("--out", self.folder)
        check_share(self.steps)
        if self.jobs < 1:
            raise ValueError(f"--jobs must be 1 or more, found {self.jobs}")
        for flag, values in (("--scenes", self.scenes), ("--seeds", self.seeds)):
            if not values:
                raise ValueError(f"{flag} names none")
        unknown = [one for one in self.field or () if one not in methods()]
        if unknown:
            raise ValueError(f"--field {unknown[0]}: there is no such field; there are {', '.join(methods())}")

    @property
    def folder(self) -> Path:
        return self.out or Path("bench") / self.name


BenchConfig.__doc__ = (BenchConfig.__doc__ or "").replace(
    "{experiments}", "\n      ".join(f"{name:10} {one.about}" for name, one in EXPERIMENTS.items())
)


def run(config: BenchConfig) -> Results:
    """Do the experiment; returns its results."""
    config.check()
    lpips = config.lpips.resolved()
    experiment, out = EXPERIMENTS[config.name], config.folder
    choice = choose(config, experiment)
    if not choice.scenes:
        print(f"bench    {config.name}: nothing to do: --scenes names no scene of the format {experiment.format}")
        return Results(config.name, command_line(config), experiment.about)
    cells = experiment.plan(choice)
    done = already_done(cells, out, lpips)
    print(f"bench    {config.name}: {experiment.about}")
    sizes = {one.path: scene.size[0] * scene.size[1] for one, scene in choice.loaded.items()}
    pixels = {cell.key: sizes[cell.scene.path] for cell in cells}
    announce(done, pixels, config.jobs)
    if len(done.found) < len(cells):
        kept = f"{out}, with the cells that are done"
        with locked(out), handled(signal.SIGTERM, as_by_ctrl_c), keeps(lambda: kept), patient(PATIENCE):
            work_off(done, out, engine(out, lpips, config.jobs, config.ray), pixels)
    results = conclude(config, choice, done)
    for table in results.tables:
        print(f"\n{table.title}\n\n{markdown_table(table)}")
        print("".join(f"\n{note}" for note in table.notes))
    print(f"\nwrote    {out / MARKDOWN}; `dofnerf report {out}` makes a page of it")
    if done.failed:
        key, words = next(iter(done.failed.items()))
        raise ValueError(
            f"{len(done.failed)} of {len(cells)} cells failed; {key}: {words}; the others are done, run it again for "
            f"these"
        )
    return results


def choose(config: BenchConfig, experiment: Experiment) -> Choice:
    """What the flags say, with the scenes loaded."""
    fields = tuple(dict.fromkeys(config.field or experiment.fields))
    wrong = [one for one in fields if experiment.limited and one not in experiment.limited]
    if wrong:
        raise ValueError(f"--field {wrong[0]}: the experiment {config.name} is for {', '.join(experiment.limited)}")
    chosen = []
    for given in config.scenes:
        if experiment.format and (why := not_of_format(given, experiment.format)):
            print(f"skipped  {given}: {why}")
            continue
        packaged = given == PACKAGED and not Path(given).exists()
        path = PACKAGED if packaged else str(Path(given).resolve())
        chosen.append(SceneChoice(path, config.size or experiment.size, sharp_photos=experiment.sharp_photos))
    twice = [name for name, count in Counter(one.name for one in dict.fromkeys(chosen)).items() if count > 1]
    if twice:
        raise ValueError(f"--scenes: two are called {twice[0]}; give them folders of different names")
    loaded = {one: replace(one, validation=experiment.validation).load() for one in chosen}
    for one, scene in loaded.items():
        if not scene.test:
            raise ValueError(f"{one.path}: no view is held out, so there is nothing to compare")
    return Choice(tuple(loaded), loaded, fields, config.preset, config.steps, tuple(dict.fromkeys(config.seeds)))


def not_of_format(given: str, wanted: str) -> str:
    """Why a scene is not one of the format that an experiment wants, or nothing if it is."""
    if not Path(given).exists():
        return f"the scene in the package is not of the format {wanted}" if given == PACKAGED else "no such folder"
    try:
        found = detect(Path(given))
    except ValueError as problem:
        return str(problem)
    return "" if found == wanted else f"its format is {found}, not {wanted}"


def conclude(config: BenchConfig, choice: Choice, done: Outcomes) -> Results:
    """Make tables and figures, and write them."""
    experiment, draft = EXPERIMENTS[config.name], Draft(config.folder)
    experiment.conclude(choice, done, draft)
    failed = tuple(f"{key}: {words}" for key, words in done.failed.items())
    parts = tuple(draft.tables), tuple(draft.figures), draft.slider
    results = Results(config.name, command_line(config), experiment.about, *parts, failed)
    write_results(results, config.folder)
    return results


def command_line(config: BenchConfig) -> str:
    """The command that gives the same, without the flags that only change where and how fast."""
    words = ["dofnerf", "bench", config.name]
    plain = BenchConfig(config.name)
    for flag in ("scenes", "field", "preset", "steps", "size", "seeds"):
        value = getattr(config, flag)
        if value != getattr(plain, flag):
            words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    return shlex.join(words)
