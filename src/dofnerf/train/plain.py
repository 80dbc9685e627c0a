"""Configurations ↔ plain values for JSON. Reading checks every name and every type, wherever a file came from."""

from __future__ import annotations

import types
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = 1e300  # of numbers in files: beyond it are infinity, and integers that no float can hold


def to_plain(config: Any) -> dict[str, Any]:
    """A dataclass as numbers, words, lists and dictionaries."""
    return asdict(config)


def from_plain(cls: type[T], value: Any, where: str = "config", like: T | None = None) -> T:
    """The dataclass `cls` of a plain value; what is missing has its default. Where a field may be anything, the one of
    `like` says which dataclass it is."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected named values, found {value!r:.40}")
    hints = get_type_hints(cls)
    free = {f.name: getattr(like, f.name) for f in fields(cls) if hints[f.name] is Any}  # type: ignore[arg-type]
    names = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    for name in value:
        if name not in names:
            raise ValueError(f"{where}: unknown entry {name!r:.40}")
    found = dict(free)
    for name, given in value.items():
        inside = f"{where}.{name}"
        shown = free.get(name)
        found[name] = (
            from_plain(type(shown), given, inside, shown) if name in free else _value(hints[name], given, inside)
        )
    try:
        return cls(**found)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for one in arguments:
            try:
                return _value(one, value, where)
            except ValueError:
                continue
    elif origin is Literal:
        if isinstance(value, str | int) and value in arguments:
            return value
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(_value(kind, one, where) for kind, one in zip(kinds, value, strict=True))
    elif (
        hint is object
        or (hint is float and isinstance(value, int | float) and type(value) is not bool and -LARGEST < value < LARGEST)
        or (hint in (int, str, bool, type(None)) and type(value) is hint)
    ):
        return float(value) if hint is float else value
    raise ValueError(f"{where}: {value!r:.40} does not fit")
