"""What a scene is made of: points → colour, density. One file a field; `kinds()` finds them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from dofnerf.models.volume.fields.base import FieldKind, VolumetricField

__all__ = ["FieldKind", "VolumetricField", "kind", "kinds"]


@cache
def kinds() -> dict[str, FieldKind]:
    """Every field of this folder by its name: the modules that set FIELD."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        field = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FIELD", None)
        if isinstance(field, FieldKind):
            found[field.name] = field
    return dict(sorted(found.items()))


def kind(name: str) -> FieldKind:
    """The field of that name."""
    if name not in kinds():
        raise ValueError(f"there is no field {name!r}; there are {', '.join(kinds())}")
    return kinds()[name]
