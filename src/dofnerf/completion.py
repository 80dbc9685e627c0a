"""Completion of `dofnerf` in a shell: `dofnerf --completion bash|zsh|fish` prints a script for it.

    dofnerf --completion bash > ~/.dofnerf.bash                               # and `. ~/.dofnerf.bash` in ~/.bashrc
    dofnerf --completion zsh > ~/.zfunc/_dofnerf                              # a folder of $fpath, before compinit
    dofnerf --completion fish > ~/.config/fish/completions/dofnerf.fish

The script is made once from the verbs and their flags; it does not run dofnerf while you type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dofnerf.short_help import flags_of


@dataclass(frozen=True)
class Flag:
    """`choices` are its values, where those are few; `takes` says whether a value follows."""

    name: str
    about: str
    choices: tuple[str, ...]
    takes: bool


def script(shell: str, verbs: Mapping[str, tuple[str, Any]]) -> str:
    """The script for a shell; `verbs` are (what it does, its config's class) by name, of one word or two."""
    if shell not in SHELLS:
        raise ValueError(f"--completion must be one of {', '.join(SHELLS)}, found {shell!r}")
    return SHELLS[shell]({name: (about, _flags(config)) for name, (about, config) in verbs.items()})


def _flags(config: Any) -> list[Flag]:
    found = [Flag("--help", "The everyday flags", (), False), Flag("--help-all", "All flags", (), False)]
    for _, flag, words in flags_of(config):
        if flag.startswith("--"):
            name, _, value = flag.partition(" ")
            choices = tuple(value.split("|")) if re.fullmatch(r"[a-z0-9.-]+(\|[a-z0-9.-]+)+", value) else ()
            found.append(Flag(name, re.split(r"[.;:] ", words)[0].rstrip("."), choices, bool(value)))
    return found


_Verbs = Mapping[str, tuple[str, list[Flag]]]


def _first_words(verbs: _Verbs) -> dict[str, str]:
    """The words after `dofnerf`, with what they do; of a group, the verbs in it."""
    found: dict[str, str] = {}
    for name, (about, _) in verbs.items():
        first, _, second = name.partition(" ")
        found[first] = about if not second else ", ".join(filter(None, (found.get(first), second)))
    return found


def _groups(verbs: _Verbs) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for first, second in (name.split(" ") for name in verbs if " " in name):
        found.setdefault(first, []).append(second)
    return found


def _bash(verbs: _Verbs) -> str:
    flags = "\n".join(
        f'    "{name}") words="{" ".join(flag.name for flag in all_)}" ;;' for name, (_, all_) in verbs.items()
    )
    values = "\n".join(
        f'    "{name} {flag.name}") words="{" ".join(flag.choices)}" ;;'
        for name, (_, all_) in verbs.items()
        for flag in all_
        if flag.choices
    )
    groups = _groups(verbs)
    seconds = "\n".join(f'    "{first}") words="{" ".join(rest)}" ;;' for first, rest in groups.items())
    return f"""# completion of dofnerf in bash
_dofnerf() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(_first_words(verbs))} --help --version --completion" -- "$word")); return
  fi
  if [ "$COMP_CWORD" = 2 ]; then
    case "$verb" in
{seconds}
    "--completion") words="{" ".join(SHELLS)}" ;;
    esac
    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
  fi
  case "$verb" in {"|".join(groups)}) verb="$verb ${{COMP_WORDS[2]}}" ;; esac
  case "$verb $before" in
{values}
  esac
  if [ -z "$words" ] && [ "${{word:0:1}}" = - ]; then
    case "$verb" in
{flags}
    esac
  fi
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi
}}
complete -o default -F _dofnerf dofnerf
"""


def _zsh(verbs: _Verbs) -> str:
    def quoted(text: str) -> str:
        return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "’")

    def argument(flag: Flag) -> str:
        value = f":value:({' '.join(flag.choices)})" if flag.choices else ":value:_files" if flag.takes else ""
        return f"'{flag.name}[{quoted(flag.about)}]{value}'"

    cases = "\n".join(
        f"  \"{name}\") _arguments {' '.join(map(argument, all_))} '*:file:_files' ;;"
        for name, (_, all_) in verbs.items()
    )
    first = " ".join(f"'{name}:{quoted(about)}'" for name, about in _first_words(verbs).items())
    groups = "\n".join(
        f"  if (( CURRENT == 3 )) && [[ $words[2] == {first} ]]; then "
        f"local -a rest=({' '.join(rest)}); _describe verb rest; return; fi"
        for first, rest in _groups(verbs).items()
    )
    return f"""#compdef dofnerf
_dofnerf() {{
  if (( CURRENT == 2 )); then local -a verbs=({first}); _describe verb verbs; return; fi
{groups}
  local verb="$words[2]"
  case "$verb" in {"|".join(_groups(verbs))}) verb="$verb $words[3]" ;; esac
  case "$verb" in
{cases}
  esac
}}
if [ "$funcstack[1]" = "_dofnerf" ]; then _dofnerf "$@"; else compdef _dofnerf dofnerf; fi
"""


def _fish(verbs: _Verbs) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# completion of dofnerf in fish"]
    lines += [
        f"complete -c dofnerf -f -n __fish_use_subcommand -a {first} -d {quoted(about)}"
        for first, about in _first_words(verbs).items()
    ]
    for name, (about, all_) in verbs.items():
        first, _, second = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            lines.append(f"complete -c dofnerf -f -n {quoted(seen)} -a {second} -d {quoted(about)}")
            seen += f"; and __fish_seen_subcommand_from {second}"
        for flag in all_:
            value = f" -xa {quoted(' '.join(flag.choices))}" if flag.choices else " -r" if flag.takes else ""
            lines.append(f"complete -c dofnerf -n {quoted(seen)} -l {flag.name[2:]}{value} -d {quoted(flag.about)}")
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[_Verbs], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
