"""Where rendered pictures go: one file, or a folder that is a scene of its own.

A folder gets a transforms.json with the camera and the lens of every picture, marked as ours. What it lists may be
replaced by the next render; anything else that is in the way is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from dofnerf.files import is_linear, write_deep_png, write_image, write_json, write_map
from dofnerf.files.guard import read_json
from dofnerf.files.outputs import check_file, check_folder
from dofnerf.files.pictures import IMAGE_SUFFIXES
from dofnerf.scenes import Viewpoint
from dofnerf.scenes.export import plain_view

LIST = "transforms.json"
MARK = "dofnerf render"
_SUFFIX = {"png": ".png", "png16": ".png", "exr": ".exr", "jpg": ".jpg"}
_OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")


@dataclass(frozen=True)
class ShotFilesConfig:
    """What is written. Files are replaced only when the new ones are complete."""

    out: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FOLDER|FILE", help_behavior_hint="(default: renders in the run; FILE-render.png)"),
    ] = None
    """A picture's file, if there is one picture and this ends in .png, .exr, .jpg or the like; else a folder, made if
    it is not there, in which pictures are named as their photos are."""
    format: Annotated[
        Literal["png", "png16", "exr", "jpg"] | None, tyro.conf.arg(help_behavior_hint="(default: by --out; png)")
    ] = None
    """png and jpg have 8 bits, png16 has 16; exr is linear light as floats, lamps and all."""
    depth: Annotated[Literal["exr", "npy"] | None, _OPTIONAL] = None
    """Also write NAME-depth: depth along the optical axis of the sharp view, in scene units; infinite where nothing
    is."""
    alpha: Annotated[Literal["png", "exr", "npy"] | None, _OPTIONAL] = None
    """Also write NAME-alpha: how much of each pixel of the sharp view is covered, 0 to 1; png has 16 bits."""

    @property
    def one_file(self) -> bool:
        """Whether --out names a picture."""
        return self.out is not None and self.out.suffix.lower() in IMAGE_SUFFIXES and not self.out.is_dir()

    def check(self) -> None:
        """Refuse what could not be written."""
        if self.out is None:
            return
        if not self.one_file:
            check_folder("--out", self.out)
            return
        check_file("--out", self.out, IMAGE_SUFFIXES)
        suffix = self.out.suffix.lower().replace(".jpeg", ".jpg")
        if self.format is not None and suffix != _SUFFIX[self.format]:
            raise ValueError(f"--out {self.out}: is not a file of --format {self.format}; give one of them")


class ShotFiles:
    """The files of some pictures, all checked before the first is made. `inputs` are never replaced."""

    def __init__(self, config: ShotFilesConfig, out: Path, names: Sequence[str], inputs: Iterable[Path]) -> None:
        self.config, self.out = config, out
        self.single = out.suffix.lower() in IMAGE_SUFFIXES and not out.is_dir()
        if self.single and len(names) > 1:
            raise ValueError(f"--out {out}: {len(names)} pictures do not fit into one file; give a folder")
        suffix = out.suffix if self.single else _SUFFIX[config.format or "png"]
        folder, stems = (out.parent, [out.stem]) if self.single else (out, names)
        self.pictures = [folder / f"{stem}{suffix}" for stem in stems]
        self.entries: list[dict[str, Any]] = [] if self.single else _listed(out)
        theirs = {path.resolve() for path in inputs}
        ours = {entry.get("file_path") for entry in self.entries}
        for path in self.pictures:
            for file in (path, *self._beside(path)):
                if file.resolve() in theirs:
                    raise ValueError(f"--out {out}: would overwrite the input {file}")
                if not self.single and file.exists() and path.name not in ours:
                    raise ValueError(f"{file}: is there, and was not made by dofnerf render; give another --out")
                if file.is_dir():
                    raise ValueError(f"{file}: is a folder, where a picture is to go; give another --out")

    def _beside(self, path: Path) -> list[Path]:
        config = self.config
        kinds = ("depth", config.depth), ("alpha", config.alpha)
        return [path.with_name(f"{path.stem}-{what}.{kind}") for what, kind in kinds if kind is not None]

    def write(self, i: int, display: np.ndarray, light: np.ndarray, disparity: np.ndarray, alpha: np.ndarray) -> Path:
        """Picture i, (H, W, 3) in display values and in linear light, and what belongs to it, both (H, W)."""
        path = self.pictures[i]
        if is_linear(path):
            write_image(path, light)
        elif self.config.format == "png16":
            write_deep_png(path, display)
        else:
            write_image(path, display)
        if self.config.depth is not None:
            depth = np.divide(1, disparity, out=np.full_like(disparity, np.inf), where=disparity > 0)
            write_map(path.with_name(f"{path.stem}-depth.{self.config.depth}"), depth)
        if self.config.alpha is not None:
            file = path.with_name(f"{path.stem}-alpha.{self.config.alpha}")
            (write_deep_png if self.config.alpha == "png" else write_map)(file, alpha)
        return path

    def note(self, view: Viewpoint, path: Path) -> None:
        """List a picture that was written with its camera and its lens, for a folder."""
        if self.single:
            return
        entry = plain_view(view) | {"file_path": path.name}
        kept = [
            old
            for old in self.entries
            if old.get("file_path") != path.name and (self.out / str(old["file_path"])).is_file()
        ]
        self.entries = sorted([*kept, entry], key=lambda one: str(one["file_path"]))
        write_json(self.out / LIST, {"made_by": MARK, "camera_model": "PINHOLE", "frames": self.entries})


def _listed(folder: Path) -> list[dict[str, Any]]:
    """What an earlier render put into the folder."""
    file = folder / LIST
    if not file.exists():
        return []
    data = read_json(file)
    if data.get("made_by") != MARK:
        raise ValueError(f"{folder}: holds a scene of its own ({LIST}); give another --out")
    frames = data.get("frames")
    entries = frames if isinstance(frames, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("file_path"), str)]
