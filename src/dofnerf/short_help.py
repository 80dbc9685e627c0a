"""One screen of help for a verb, made from its config: the flags that it lists in its class variable `EVERYDAY`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro


def short_help(name: str, config: Any) -> str:
    """A screen of help: what the verb is for, its positional arguments, its `EVERYDAY` flags, and examples."""
    width = min(max(shutil.get_terminal_size().columns, 60), 120)
    about, _, examples = inspect.cleandoc(config.__doc__ or "").partition("For example:")
    found = {field: (flag, words) for field, flag, words in flags_of(config)}
    positional = [field for field, (flag, _) in found.items() if not flag.startswith("--")]
    shown = [found[field] for field in (*positional, *config.EVERYDAY)]
    column = min(max(len(flag) for flag, _ in shown), width // 4) + 2
    lines = [f"usage: dofnerf {name} {' '.join(found[field][0] for field in positional)} [FLAGS]", ""]
    lines += [*textwrap.wrap(about.split("\n\n")[0], width), ""]
    for flag, words in shown:
        first, *rest = textwrap.wrap(re.split(r"[.;] ", words)[0].rstrip("."), width - column - 2)
        lines += [f"  {flag:<{column}}{first}"] if len(flag) < column else [f"  {flag}", f"  {' ' * column}{first}"]
        lines += [f"  {' ' * column}{line}" for line in rest]
    if examples:
        lines += ["", "For example:", *_fitting(examples.strip("\n").splitlines(), width)]
    return "\n".join([*lines, "", f"All flags: dofnerf {name} --help-all"])


def _fitting(examples: list[str], width: int) -> list[str]:
    """The examples that fit, without what is said beside a command where that does not."""
    short = [line if len(line) <= width else "  " + re.split(" {2,}", line.strip())[0] for line in examples]
    return [line for line in short if len(line) <= width]


def flags_of(config: Any) -> Iterator[tuple[str, str, str]]:
    """(field, flag with its value, help) of each field of a config and of the configs inside it."""
    texts = _field_docs(config)
    for name, hint in typing.get_type_hints(config, include_extras=True).items():
        kind, options = _unwrapped(hint)
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        if dataclasses.is_dataclass(kind):
            yield from flags_of(kind)
            continue
        metavar = next((option.metavar for option in options if getattr(option, "metavar", None)), None)
        words = next((option.help for option in options if getattr(option, "help", None)), None) or texts.get(name, "")
        if tyro.conf.Positional in options:
            yield name, metavar or name.upper(), words
        else:
            flag = next((option.name for option in options if getattr(option, "name", None)), name.replace("_", "-"))
            yield name, f"--{flag} {metavar or _value(kind)}".strip(), words


def _unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """A type without Annotated and None, and all that Annotated says about it."""
    options: list[Any] = []
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            options += hint.__metadata__
            hint = typing.get_args(hint)[0]
        elif typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint):
            rest = tuple(part for part in typing.get_args(hint) if part is not type(None))
            hint = typing.Union[rest]  # noqa: UP007
        else:
            return hint, options


def _value(kind: Any) -> str:
    """What a flag of this type takes."""
    if kind is bool:
        return ""
    parts = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(map(str, parts))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return "|".join(map(_value, parts))
    if parts:
        return f"{_value(parts[0])} ..."
    return {int: "N", float: "X", str: "TEXT", Path: "PATH"}.get(kind, "VALUE")


def _field_docs(config: type) -> dict[str, str]:
    """The string under each field of a dataclass, and of those that it inherits from, in one line."""
    found: dict[str, str] = {}
    for kind in reversed(config.__mro__[:-1]):
        try:
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        except OSError:  # a class made by make_dataclass has no source
            continue
        assert isinstance(body, ast.ClassDef)
        for one, two in zip(body.body, body.body[1:], strict=False):
            match one, two:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
