"""The folder that a maker of scenes fills: it says what it holds, so that work can be resumed and never mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dofnerf.files import write_json


def claim(out: Path, record: str, source: Path | None, made_by: str, settings: dict[str, Any]) -> None:
    """Write into the file `record` what `out` is to hold, or check that it was begun with just these settings.

    A `source` stays untouched: `out` may not lie in it.
    """
    if source is not None and out.resolve().is_relative_to((source.parent if source.is_file() else source).resolve()):
        raise ValueError(f"--out {out}: lies in the source {source}, where nothing is written; choose another folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file, not a folder")
    content = content_of(made_by, settings)
    path = out / record
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{path}: not readable; delete the folder or choose another one") from None
        if found != content:
            theirs = found.get("settings") if isinstance(found, dict) else None
            theirs = theirs if isinstance(theirs, dict) else {}
            differing = [key for key in content["settings"] if theirs.get(key) != content["settings"][key]] or ["maker"]
            raise ValueError(
                f"--out {out}: holds a scene made with another {', '.join(differing)}; choose another folder"
            )
    elif out.is_dir() and any(out.iterdir()):
        raise ValueError(f"--out {out}: not empty and not begun by {made_by}; choose another folder")
    else:
        write_json(path, content)


def content_of(made_by: str, settings: dict[str, Any]) -> Any:
    """What the record of a folder with these settings holds, as JSON gives it back."""
    return json.loads(json.dumps({"made_by": made_by, "settings": settings}))
