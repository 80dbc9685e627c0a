"""Scene formats: each is one file in this folder, found by itself; `register` adds one from elsewhere.

A format is a module, or a class, with a `name`, by which `--format` chooses it; `detects(path)`, whether `path`, a
folder or a file, looks like one; and `read(path, options)`, which gives what is there. Of several that detect a scene,
the one with the smallest `order` (0 unless given) reads it; the built-in ones have 10 to 50.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from dofnerf.files.pictures import PHOTO_SUFFIXES, READ_SUFFIXES
from dofnerf.files.splats import is_splat_name
from dofnerf.scenes.reading import Found, ReadOptions

T = TypeVar("T")
FORMATS: dict[str, Format] = {}


class Format(Protocol):
    """What a format offers."""

    name: str

    def detects(self, path: Path) -> bool: ...

    def read(self, path: Path, options: ReadOptions, /) -> Found: ...


def register(format: T) -> T:
    """Add a format, a module or a class; `dofnerf info`, `train` and others then read it. Also a class's decorator."""
    made: Format = format() if isinstance(format, type) else format  # type: ignore[assignment]
    if made.name in ("auto", *FORMATS):
        raise ValueError(f"there is a scene format {made.name!r} already")
    FORMATS[made.name] = made
    return format


for _module in pkgutil.iter_modules(__path__):
    register(importlib.import_module(f"{__name__}.{_module.name}"))


if TYPE_CHECKING:
    FormatName = str


def __getattr__(name: str) -> Any:
    """`FormatName`, the choices of `--format`: when a command's flags are declared, plug-ins are there."""
    if name == "FormatName":
        return Literal[("auto", *FORMATS)]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def find(path: Path, name: str = "auto") -> tuple[Format, Path]:
    """The format called `name`, or that detects the scene at `path`; and the path to read: a file, or its folder."""
    if name not in ("auto", *FORMATS):
        raise ValueError(f"{path}: unknown format {name!r}; use auto or one of {', '.join(FORMATS)}")
    in_order = sorted(FORMATS.values(), key=lambda format: getattr(format, "order", 0))
    places = [path, path.parent] if path.is_file() else [path]
    for place in places:
        for format in in_order if name == "auto" else [FORMATS[name]]:
            if format.detects(place):
                return format, place
    if name != "auto":
        return FORMATS[name], places[-1]  # it says itself what is missing
    folder = places[-1]
    if path.is_file() and is_splat_name(path):
        raise ValueError(f"{path}: splats, not a scene to train on; `dofnerf render`, `view` and `export` take them")
    if (folder / "checkpoint.safetensors").exists():
        raise ValueError(f"{folder}: a trained run, not a scene; `dofnerf render`, `view`, `eval` and `report` take it")
    if any(found.suffix.lower() in (*PHOTO_SUFFIXES, *READ_SUFFIXES) for found in folder.iterdir()):
        ways = f"`dofnerf capture {folder}` finds those, `dofnerf run {folder}` does all"
        raise ValueError(f"{folder}: photos without poses; {ways}")
    expected = "transforms.json, poses_bounds.npy, a COLMAP model in sparse/0, or view_00_00.jpg …"
    raise ValueError(f"{folder}: not a scene; expected {expected}")
