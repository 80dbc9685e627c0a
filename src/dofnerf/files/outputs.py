"""Checks of what a command is about to write, made before the work starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def check_file(flag: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse an output file of another type, or one that could not be written; creates nothing."""
    if path.suffix.lower() not in suffixes:
        found = path.suffix or "no suffix"
        raise ValueError(f"{flag} {path}: unknown file type ({found}); use one of {' '.join(suffixes)}")
    if path.is_dir():
        raise ValueError(f"{flag} {path}: is a folder, not a file")
    check_folder(flag, path.parent)


def check_folder(flag: str, folder: Path) -> None:
    """Refuse a folder that is not there and could not be made, or in which nothing can be written; creates nothing."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise ValueError(f"{flag} {folder}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{flag} {folder}: no permission to write in {there}")
