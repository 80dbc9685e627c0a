"""The command `dofnerf`: one thin verb each.

A verb is a line in `VERBS`: what it does, and where its config (a dataclass whose fields become flags) and its function
live. They are imported only when the verb is used. Verbs of two words, such as `synth blur`, form a group.

`dofnerf VERB --help` shows the flags that the config lists in its class variable `EVERYDAY` (names of fields, also of
configs inside it), `--help-all` every flag; a config without that variable has one help, which shows them all.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import tyro

from dofnerf import __version__
from dofnerf.plugins import load_plugins
from dofnerf.process import Failed, interrupted_words
from dofnerf.short_help import short_help

ABOUT = """Blurred photos in; a sharp 3D scene, every photo's lens, and a virtual lens out.

Start with the first, then take photos or a picture of your own:
  dofnerf demo
  dofnerf run PHOTOS
  dofnerf train SCENE --out runs/mine
  dofnerf render runs/mine --focus-at 120,100
  dofnerf view runs/mine
  dofnerf refocus photo.jpg depth.png --focus-at 320,200

Each VERB explains its flags, with units and examples: dofnerf VERB --help

Completion in your shell: dofnerf --completion bash|zsh|fish"""
_SCENE, _PHOTOS, _RUN = "scene", "folder or video", "run or file of splats"
_TRAINS = ("train", "run")
_NUMBERS = {  # flags of those, which import torch: type, least and most
    "--steps": (float, 1e-4, 100), "--width": (int, 1, 1 << 20), "--downscale": (int, 1, 1 << 20),
    "--hold-every": (int, 0, 1 << 20), "--hold-first": (int, 0, 1 << 20), "--seed": (int, 0, 1 << 63),
}  # fmt: skip
FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone)


@dataclass(frozen=True)
class Verb:
    """`module` holds the dataclass `config`, or a function of that name that makes one for the arguments, and the
    function `run(config)`. `takes` is what the first argument names, if that must exist."""

    about: str
    module: str
    config: str
    takes: str = ""

    def load(self, arguments: Sequence[str] = ()) -> tuple[type, Callable[[Any], Any]]:
        """The config's class and the function that takes one."""
        module = importlib.import_module(self.module)
        config = getattr(module, self.config)
        return config if isinstance(config, type) else config(arguments), module.run


VERBS = {
    "refocus": Verb("Put a lens in front of a picture with a depth map.", "dofnerf.studio.refocus", "RefocusConfig"),
    "demo": Verb("See it work on the scene in the package, in minutes.", "dofnerf.studio.demo", "DemoConfig"),
    "info": Verb("Say what a scene is; on request, draw it on one sheet.", "dofnerf.studio.info", "InfoConfig", _SCENE),
    "run": Verb("Photos in; scene, lens, report and page out.", "dofnerf.studio.run", "RunConfig", _PHOTOS),
    "capture": Verb(
        "A folder of photos in, a scene with poses out.", "dofnerf.capture.pipeline", "CaptureConfig", _PHOTOS
    ),
    "train": Verb(
        "Photos in, a sharp scene and every photo's lens out.", "dofnerf.studio.train", "command_for", _SCENE
    ),
    "render": Verb("Shoot a run, or any file of splats, with a lens.", "dofnerf.studio.render", "RenderConfig", _RUN),
    "view": Verb(
        "A run in the browser: orbit, click to focus, turn the lens.", "dofnerf.studio.view", "ViewConfig", _RUN
    ),
    "export": Verb(
        "A page to refocus, layers, points or cameras of a run.", "dofnerf.studio.export", "export_config", _RUN
    ),
    "eval": Verb("Say how good a run is: PSNR, SSIM, LPIPS, the lens.", "dofnerf.evaluate.eval", "EvalConfig", "run"),
    "lens": Verb("Say what each photo's lens did, with error bars.", "dofnerf.studio.lens", "LensConfig", "run"),
    "doctor": Verb("Say what this machine has; check every backend.", "dofnerf.studio.doctor", "DoctorConfig"),
    "bench": Verb("Run one of the paper's experiments.", "dofnerf.lab.bench.run", "BenchConfig"),
    "report": Verb("Make a page about a run or an experiment.", "dofnerf.lab.report", "ReportConfig"),
    "synth lens": Verb(
        "Photograph a built-in place through a true thin lens.", "dofnerf.lab.synth.lens", "LensCommandConfig"
    ),
    "synth blur": Verb("Blur sharp photos by their depth: the paper's recipe.", "dofnerf.lab.synth.blur", "BlurConfig"),
    "synth lightfield": Verb(
        "Near- and far-focused photos from a light field.", "dofnerf.lab.synth.lightfield", "LightfieldConfig"
    ),
    "synth wild": Verb("A scene such as people bring, with the truth.", "dofnerf.lab.synth.wild", "WildConfig"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code: 0, 1 if the result is of no use, 2 for a mistake of the user's, 130 when
    interrupted, 141 when nobody reads on."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["--version"]:
            print(f"dofnerf {__version__}", flush=True)
            return 0
        if arguments[:1] == ["--completion"]:
            from dofnerf.completion import script

            load_plugins()
            shell = arguments[1] if len(arguments) > 1 else ""
            print(script(shell, {name: (verb.about, verb.load()[0]) for name, verb in VERBS.items()}), flush=True)
            return 0
        try:
            load_plugins()
            config, run = parse(arguments)
            run(config)
        finally:  # after --help, too, which exits
            sys.stdout.flush()
    except (ValueError, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            return 141  # as a shell says of a program that SIGPIPE ended
        if os.environ.get("DOFNERF_DEBUG") == "1":
            raise
        print(f"dofnerf: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except Failed as error:
        print(f"dofnerf: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if os.environ.get("DOFNERF_DEBUG") == "1":
            raise
        print(f"dofnerf: {interrupted_words()}", file=sys.stderr)
        return 130
    return 0


def parse(arguments: list[str]) -> tuple[Any, Callable[[Any], Any]]:
    """(the verb's config, its function); exits with 0 after --help, with 2 if the arguments make no sense."""
    for words in (1, 2):
        name = " ".join(arguments[:words])
        if len(arguments) >= words and name in VERBS:
            flags = _renamed(arguments[words:])
            _refuse_early(name, flags)
            config, run = VERBS[name].load(flags)
            if {"-h", "--help"} & set(flags) and "--help-all" not in flags and hasattr(config, "EVERYDAY"):
                print(short_help(name, config))
                raise SystemExit(0)
            flags = ["--help"] if "--help-all" in flags else flags
            return tyro.cli(config, prog=f"dofnerf {name}", args=flags, config=getattr(config, "FLAGS", FLAGS)), run
    # No verb: tyro explains which there are. Their flags are not needed for that, so nothing is imported.
    group = f"{arguments[0]} " if arguments else ""
    members = {name.removeprefix(group): verb for name, verb in VERBS.items() if group and name.startswith(group)}
    tyro.extras.subcommand_cli_from_dict(
        {name: _stub(verb.about) for name, verb in (members or VERBS).items()},
        prog=f"dofnerf {group}".strip() if members else "dofnerf",
        description=f"Each VERB explains its flags: dofnerf {group}VERB --help" if members else ABOUT,
        args=(arguments[1:] if members else arguments) or ["--help"],
    )
    raise AssertionError("tyro exits when it has no verb")


def _renamed(flags: list[str]) -> list[str]:
    """With the preset and the flag that were called sharp-oracle and --oracle under their present names."""
    new = {
        ("--preset", "sharp-oracle"): "sharp-photos", ("", "--preset=sharp-oracle"): "--preset=sharp-photos",
        ("", "--oracle"): "--sharp-photos",
    }  # fmt: skip
    pairs = pairwise(["", *flags])
    return [new.get((before, flag)) or new.get(("", flag), flag) for before, flag in pairs]


def _refuse_early(name: str, flags: list[str]) -> None:
    """Refuse what needs no more than a look at the disk, before anything large is imported."""
    takes = VERBS[name].takes
    if not takes or not flags or flags[0].startswith("-") or {"-h", "--help", "--help-all"} & set(flags):
        return
    path = Path(flags[0])
    packaged = flags[0] == "demo" and takes in (_SCENE, _PHOTOS)
    if not packaged and not path.exists():
        raise FileNotFoundError(f"{path}: there is no such {takes}")
    if name in _TRAINS:
        _refuse_numbers(flags)
    if name == "train":
        out = next((Path(value) for flag, value in pairwise(flags) if flag == "--out"), None)
        if out is not None and (out / "checkpoint.safetensors").exists() and "--resume" not in flags:
            raise ValueError(f"{out}: there is a run already; go on with it by --resume, or give another folder")
        if not packaged and not any(flag.partition("=")[0] == "--format" for flag in flags):
            from dofnerf import scenes

            scenes.detect(path)


def _refuse_numbers(flags: list[str]) -> None:
    words = [word for flag in flags for word in (flag.split("=", 1) if flag.startswith("--") else [flag])]
    for flag, value in pairwise([*words, ""]):
        if (kind := _NUMBERS.get(flag.replace("_", "-"))) is None:
            continue
        expected = "a number" if kind[0] is float else "a whole number"
        try:
            number = kind[0](value)
        except ValueError:
            raise ValueError(f"{flag} must be {expected}, found {value!r}") from None
        if not kind[1] <= number <= kind[2]:
            raise ValueError(f"{flag} must be {expected} from {kind[1]} to {kind[2]}, found {value}")


def _stub(about: str) -> Callable[[], NoReturn]:
    def verb() -> NoReturn:
        raise AssertionError("a verb is loaded before it is run")

    verb.__doc__ = about
    return verb


def _output_is_closed() -> bool:
    """Whether whoever read our output, such as `head`, has left; what is still to be said is then dropped."""
    try:
        print(flush=True)  # a line of nothing, to see whether it arrives
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _one_line(error: BaseException) -> str:
    from dofnerf.files.guard import visible

    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if error.filename is not None else error.filename2
        text = f"{name}: {error.strerror}" if name is not None else error.strerror
    return visible(" ".join(text.split())) or type(error).__name__
