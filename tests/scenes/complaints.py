"""What a reader says about a bad scene."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dofnerf import scenes


def complaint(root: Path, *mentions: str, **options: Any) -> str:
    """The one line that reading everything of a scene raises."""
    with pytest.raises((ValueError, OSError)) as caught:
        scene = scenes.load(root, **options)
        for i in range(len(scene)):
            scene.photo(i)
    text = str(caught.value)
    assert len(text.splitlines()) == 1, text
    for mention in mentions:
        assert mention in text, text
    return text


def edit(root: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    path = root / "transforms.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return root


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
