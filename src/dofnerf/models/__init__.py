"""What a scene can be made of. `base` is the contract; each folder here is a kind of model that brings its training.

A folder whose `training` module has `methods()` is found by itself; other code calls `register`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from dofnerf.models.base import (
    PLAIN,
    Blur,
    Group,
    Method,
    MethodConfig,
    Model,
    NotFinite,
    Outcome,
    Preset,
    RunConfig,
    Steps,
    View,
)

__all__ = [
    "PLAIN", "Blur", "Group", "Method", "MethodConfig", "Model", "NotFinite", "Outcome", "Preset", "RunConfig", "Steps",
    "View", "method", "methods", "register",
]  # fmt: skip

_registered: dict[str, Method] = {}


def methods() -> dict[str, Method]:
    """Every method by the name of its field."""
    found = {one.name: one for module in _training() for one in module.methods()}
    return dict(sorted((found | _registered).items()))


def method(field: str) -> Method:
    """The method of a field."""
    found = methods()
    if field not in found:
        raise ValueError(f"there is no field {field!r}; there are {', '.join(found)}")
    return found[field]


def register(new: Method) -> None:
    """Make a method known that lives elsewhere; also before its runs are loaded."""
    _registered[new.name] = new


@cache
def _training() -> list[ModuleType]:
    packages = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    return [importlib.import_module(f"{__name__}.{name}.training") for name in packages]
