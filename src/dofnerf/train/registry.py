"""Things of a kind by name: those that a package's modules offer, and those that other code registers."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import Any


class Registry:
    """The classes that modules of `package` name in `attribute`, and registered ones. Each has a `name`, a dataclass
    `Config`, whose fields become flags, and `is_on(config)`: whether these settings ask for it."""

    def __init__(self, package: str, attribute: str, words: str) -> None:
        self.package, self.attribute, self.words = package, attribute, words
        self.registered: dict[str, Any] = {}

    def all(self) -> dict[str, Any]:
        """Every one by its name."""
        found: dict[str, Any] = {}
        for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            one = getattr(importlib.import_module(f"{self.package}.{module.name}"), self.attribute, None)
            if one is not None:
                found[one.name] = one
        return found | self.registered

    def get(self, name: str) -> Any:
        """The one of that name."""
        known = self.all()
        if name not in known:
            raise ValueError(f"there is no {self.words} {name!r}; there are {', '.join(known)}")
        return known[name]

    def register(self, new: Any) -> Any:
        """Make one known that lives elsewhere; also before runs with it are loaded."""
        self.registered[new.name] = new
        return new

    def settings(self, changes: Any) -> dict[str, Any]:
        """The settings of all by name: their defaults, with `changes` by name."""
        return {name: replace(one.Config(), **changes.get(name, {})) for name, one in self.all().items()}

    def chosen(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Those of the settings that ask for something."""
        return {name: one for name, one in settings.items() if self.get(name).is_on(one)}
