"""How well `dofnerf capture` finds poses: against a model that lies beside real photos, and against the truth.

    export PYTHONPATH=tests
    python benchmarks/capture.py drinks DATA/drinks/photos --truth DATA/drinks --format colmap --size 1560
    python benchmarks/capture.py fern DATA/fern/images_8 --truth DATA/fern
    python benchmarks/capture.py package            # the blurred training photos of the scene in the package
    python benchmarks/capture.py SCENE --of-scene   # photos of any scene with known poses, such as one of `synth lens`

Camera centres are compared after the similarity that fits them best; the error is given as a share of the scene's
extent, the diagonal of the box around the cameras and (but for the outermost 2 %) the points of the reference. With
--plain, one try with pycolmap's own settings and one camera for all, for comparison. Scenes stay in --work, and a
second call only measures.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from dofnerf import scenes
from dofnerf.capture import CaptureOptions, capture, mapping
from dofnerf.capture.mapping import Attempt
from dofnerf.files import write_image
from dofnerf.files.progress import Progress
from dofnerf.scenes import Scene
from oracles.poses import align

PLAIN = Attempt("pycolmap's own settings", "own")
COLUMNS = (
    "photos of", "settings", "with a pose", "error", "centres off, rms", "largest", "rms of the cameras' spread",
    "directions off", "points", "on processors",
)  # fmt: skip


def extent(scene: Scene) -> float:
    """The diagonal of the box around cameras and points."""
    places = [np.stack([frame.camera.position for frame in scene.frames])]
    if scene.points is not None and len(scene.points):
        places.append(np.percentile(scene.points.xyz, [2, 98], axis=0))
    return float(np.linalg.norm(np.ptp(np.concatenate(places), axis=0)))


def compare(found: Scene, true: Scene) -> tuple[float, float, float, float]:
    """(rms, largest) distance of camera centres as shares of the extent of `true`, that rms as a share of the diagonal
    of the box around the cameras alone, and the median angle between optical axes in degrees."""
    cameras = {Path(frame.name).stem: frame.camera for frame in true.frames}
    ours = [frame.camera for frame in found.frames]
    theirs = [cameras[Path(frame.name).stem] for frame in found.frames]
    a, b = (np.stack([camera.position for camera in group]) for group in (ours, theirs))
    scale, turn, shift = align(a, b)
    off = np.linalg.norm(scale * a @ turn.T + shift - b, axis=1)
    rms, whole = float(np.sqrt((off**2).mean())), extent(true)
    # Cameras close together say little about how the whole is turned, so directions are compared after a turn of their
    # own.
    axes = [(one.camera_to_world[:, :3], other.camera_to_world[:, :3]) for one, other in zip(ours, theirs, strict=True)]
    u, _, vt = np.linalg.svd(sum(other @ one.T for one, other in axes))
    cosines = [(u @ vt @ one.forward) @ other.forward for one, other in zip(ours, theirs, strict=True)]
    angle = float(np.degrees(np.median(np.arccos(np.clip(cosines, -1, 1)))))
    return rms / whole, float(off.max()) / whole, rms / float(np.linalg.norm(np.ptp(b, axis=0))), angle


def photos_of(scene: Scene, folder: Path) -> Path:
    """The photos that train, as files."""
    for i in scene.train:
        path = folder / f"{Path(scene.frames[i].name).stem}.png"
        if not path.exists():
            write_image(path, scene.photo(i))
    return folder


def main() -> int:
    """Capture, compare, print a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what to call it; or `package`; or with --of-scene a scene")
    parser.add_argument("photos", nargs="?", type=Path)
    parser.add_argument("--truth", type=Path, help="a scene with the poses to compare with")
    parser.add_argument("--format", default="auto")
    parser.add_argument("--of-scene", action="store_true")
    parser.add_argument("--size", type=int, default=1600)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("runs/capture"))
    options = parser.parse_args()
    name = Path(options.name).name + ("-plain" if options.plain else "")
    work = options.work / name
    if options.name == "package" or options.of_scene:
        true = scenes.demo() if options.name == "package" else scenes.load(options.name)
        source = photos_of(true, options.work / f"{Path(options.name).name}-photos")
    else:
        true, source = scenes.load(options.truth, format=options.format), options.photos
    ladder = (PLAIN,) if options.plain else mapping.ATTEMPTS
    row = [name]
    with mock.patch.object(mapping, "ATTEMPTS", ladder), Progress(keep=True) as display:
        asked = CaptureOptions(size=options.size, hold_every=0, keep_work=True)
        try:
            found = capture(source, work, replace(asked, attempts=1) if options.plain else asked, display)
        except ValueError as error:
            print(f"| {name} | {ladder[-1].name} | none: {error} |")
            return 1
    result = json.loads((work / "result.json").read_text())
    rms, largest, spread, angle = compare(found, true)
    seconds = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    row += [
        result["attempt"], f"{result['registered']} of {result['photos']}",
        f"{result['error_pixels']:.2f} px at {result['width']}", f"{100 * rms:.2f} %", f"{100 * largest:.2f} %",
        f"{100 * spread:.2f} %", f"{angle:.2f}°", str(result["points"]), f"{seconds:.0f} s",
    ]  # fmt: skip
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
