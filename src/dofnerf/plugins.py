"""Files that add to dofnerf without changing it: a shape, a field, a scene format and so on (docs/adding.md).

`DOFNERF_PLUGINS` names .py files, or folders of them, separated as PATH is; an installed package names a module as an
entry point of the group `dofnerf.plugins`. Each is imported once in a process and calls the `register` of what it adds
to. Child processes inherit the variable, and load the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

VARIABLE = "DOFNERF_PLUGINS"
GROUP = "dofnerf.plugins"


def load_plugins() -> None:
    """Import every plug-in that is not loaded yet; ValueError names the one that fails."""
    for path in _files():
        _load(str(path), partial(_import, path))
    for point in entry_points(group=GROUP):
        _load(f"{point.name} = {point.value}", point.load)


_loaded: set[str] = set()


def _load(name: str, run: Callable[[], Any]) -> None:
    if name in _loaded:
        return
    try:
        run()
    except (Exception, SystemExit) as error:  # whatever its code raises
        raise ValueError(f"the plug-in {name} cannot be loaded: {type(error).__name__}: {error}") from error
    _loaded.add(name)


def _files() -> list[Path]:
    found: list[Path] = []
    for part in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(part).expanduser().resolve()
        if path.is_dir():
            found += sorted(path.glob("*.py"))
        elif path.is_file():
            found.append(path)
        else:
            raise ValueError(f"{VARIABLE}: there is no file or folder {part}")
    return found


def _import(path: Path) -> None:
    # A name of its own for each file: pickle and dataclasses look a class's module up by name.
    name = f"dofnerf_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
