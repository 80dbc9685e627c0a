"""How each kind of field is trained. A file of this folder that sets `METHODS` is found; others `register` theirs."""

from __future__ import annotations

import importlib
import pkgutil

from dofnerf.train.methods.base import Group, Method, NotFinite, Outcome, Steps

__all__ = ["Group", "Method", "NotFinite", "Outcome", "Steps", "method", "methods", "register"]

_known: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """Every method by the name of its field."""
    if not _known:
        for module in pkgutil.iter_modules(__path__):
            for found in getattr(importlib.import_module(f"{__name__}.{module.name}"), "METHODS", ()):
                _known[found.name] = found
    return dict(sorted(_known.items()))


def method(field: str) -> Method:
    """That of a field."""
    if field not in methods():
        raise ValueError(f"there is no field {field!r}; there are {', '.join(methods())}")
    return _known[field]


def register(new: Method) -> None:
    """Make a method known, for a field that lives elsewhere; also before its runs are loaded."""
    methods()
    _known[new.name] = new
