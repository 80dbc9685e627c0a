"""What a scene can be made of. `base` is the contract; each folder here is a kind of model that brings its training.

A folder whose `training` module sets `METHODS` is found by itself; other code calls `register`.
"""

from __future__ import annotations

import importlib
import pkgutil

from dofnerf.models.base import PLAIN, Blur, Group, Method, Model, NotFinite, Outcome, Steps, View

__all__ = [
    "PLAIN",
    "Blur",
    "Group",
    "Method",
    "Model",
    "NotFinite",
    "Outcome",
    "Steps",
    "View",
    "method",
    "methods",
    "register",
]

_known: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """Every method by the name of its field."""
    if not _known:
        for module in pkgutil.iter_modules(__path__):
            if module.ispkg:
                for found in importlib.import_module(f"{__name__}.{module.name}.training").METHODS:
                    _known[found.name] = found
    return dict(sorted(_known.items()))


def method(field: str) -> Method:
    """That of a field."""
    if field not in methods():
        raise ValueError(f"there is no field {field!r}; there are {', '.join(methods())}")
    return _known[field]


def register(new: Method) -> None:
    """Make a method known that lives elsewhere; also before its runs are loaded."""
    methods()
    _known[new.name] = new
