"""What each format of splats costs: a run is exported, read back, and drawn from its held-out views.

    python benchmarks/formats.py RUN [RUN ...]
    python benchmarks/formats.py RUN --picture beside.png

Of each file: its size; the PSNR of its pictures against the run's own sharp renders of the same views; and, where the
scene of the run is at hand and has photos all in focus, how much PSNR it costs against those. `light` is the .ply as
trained, read by dofnerf; `drawn by others` is that file where display values mix, over black, as in other tools.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dofnerf.camera import Camera
from dofnerf.evaluate.metrics import psnr
from dofnerf.evaluate.trained import open_trained
from dofnerf.files import write_image
from dofnerf.files.ply import read_drawing
from dofnerf.files.splats.turning import matrix
from dofnerf.studio.export import export_config
from dofnerf.studio.export import run as export
from dofnerf.studio.flags import SplatFileFlags
from dofnerf.studio.source import Source, open_source

KINDS = ("ply", "compressed_ply", "spz", "splat", "sog", "glb")


def mean(scores: list[float]) -> float:
    """Of PSNRs, by their errors."""
    return float(-10 * np.log10(np.mean([10 ** (-score / 10) for score in scores])))


def truths(folder: Path) -> list[np.ndarray] | None:
    """The held-out views all in focus, in the order of the run's; None where nobody knows them."""
    try:
        _, scene = open_trained(folder)
    except (ValueError, OSError) as error:
        print(f"(no photos to compare with: {error})")
        return None
    sharp = [scene.sharp(i) for i in scene.test]
    return None if any(one is None for one in sharp) else sharp  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument(
        "--picture", type=Path, help="the first view of the first run: ours, as trained elsewhere, refined"
    )
    parser.add_argument("--files", type=Path, help="exports of one run that are there already, scene.ply and so on")
    given = parser.parse_args()
    print("| run | file | MB | against our render | against photos | cost |\n|---|---|---|---|---|---|")
    for folder in given.runs:
        source = open_source(folder)
        cameras = [view.camera for view in source.views if view.held_out]
        ours = [shown(source, camera) for camera in cameras]
        photos = truths(folder)
        own = mean([psnr(*pair) for pair in zip(ours, photos, strict=True)]) if photos else None
        with tempfile.TemporaryDirectory() as place:
            out, kept = given.files or Path(place), []
            config = export_config()
            with contextlib.redirect_stdout(io.StringIO()):
                if given.files is None:
                    export(config(folder, out=out, **dict.fromkeys(KINDS, True)), source)
                export(config(folder, out=out / "light.ply", mix="light", ply=True), source)
            rows = [("drawn by others", out / "light.ply", "display")]
            rows += [(kind, out / f"scene.{kind.replace('_', '.')}", None) for kind in KINDS]
            turn = matrix(read_drawing(out / "scene.ply").turn)  # which .spz and .splat do not say
            for name, file, blend in [("light", out / "light.ply", None), *rows]:
                flags = SplatFileFlags(blend=blend, background="0,0,0" if blend else None)
                other = open_source(file, flags)
                seen = cameras if file.suffix not in (".spz", ".splat") else [rotated(one, turn) for one in cameras]
                pictures = [shown(other, camera) for camera in seen]
                near = mean([psnr(*pair) for pair in zip(pictures, ours, strict=True)])
                line = f"| {folder.name} | {name} | {file.stat().st_size / 1e6:.2f} | {near:.1f} dB |"
                if photos and own is not None:
                    score = mean([psnr(*pair) for pair in zip(pictures, photos, strict=True)])
                    line += f" {score:.2f} dB | {own - score:+.2f} dB |"
                print(line, flush=True)
                kept += [pictures[0]] if name in ("drawn by others", "ply") else []
            if given.picture and folder == given.runs[0]:
                write_image(given.picture, np.concatenate([ours[0], *kept], axis=1))


def rotated(camera: Camera, turn: np.ndarray) -> Camera:
    """The camera, rotated with the scene."""
    return replace(camera, camera_to_world=turn @ camera.camera_to_world)


@torch.no_grad()
def shown(source: Source, camera: Camera) -> np.ndarray:
    """The sharp picture, 0 to 1."""
    return source.model.view(camera).image.clamp(0, 1).cpu().numpy()


if __name__ == "__main__":
    main()
