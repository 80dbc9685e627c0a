"""The child process of triangulation.py: pycolmap's features, matches and triangulation with fixed poses.

Run by its path, and imports nothing of ours: pycolmap and Pillow must not share a process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap


def triangulate(folder: Path) -> None:
    """Read task.json and photos/ in `folder`; write points.npz: xyz, rgb, and the features as photo, point, pixels."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    photos, database, pairs = folder / "photos", folder / "database.db", folder / "pairs.txt"
    names = [view["name"] for view in task["views"]]
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.num_threads = task["threads"]
    extraction.use_gpu = False
    extraction.sift.peak_threshold = 0.0015
    extraction.sift.max_num_features = task["features"]
    extraction.sift.first_octave = task["first_octave"]
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = "PINHOLE"
    reader.mask_path = str(folder / "masks") if task["masked"] else ""
    options: dict[str, Any] = {"reader_options": reader, "extraction_options": extraction}
    posed = _posed(database, task["views"], task["size"])
    pycolmap.extract_features(database, photos, names, camera_mode=pycolmap.CameraMode.PER_IMAGE, **options)
    matching = pycolmap.FeatureMatchingOptions()
    matching.num_threads = task["threads"]
    matching.use_gpu = False
    matching.skip_geometric_verification = True  # done below with the known poses
    verification = pycolmap.TwoViewGeometryOptions()
    verification.min_num_inliers = 8  # blurred photos share few features
    pairs.write_text("".join(f"{names[a]} {names[b]}\n" for a, b in task["pairs"]), encoding="utf-8")
    pairing = pycolmap.ImportedPairingOptions()
    pairing.match_list_path = str(pairs)
    pycolmap.match_image_pairs(database, matching_options=matching, pairing_options=pairing)
    pycolmap.guided_geometric_verification(
        posed, database, two_view_geometry_options=verification, num_threads=task["threads"]
    )
    pipeline = pycolmap.IncrementalPipelineOptions()
    pipeline.num_threads = 1  # several add up in any order, to other bits
    pipeline.triangulation.ignore_two_view_tracks = False
    pipeline.triangulation.random_seed = 0
    (folder / "model").mkdir()
    model = pycolmap.triangulate_points(posed, database, photos, folder / "model", clear_points=True, options=pipeline)
    _save(folder, model, names)


def _posed(database: Path, views: list[dict[str, Any]], size: tuple[int, int]) -> Any:
    """A reconstruction without points: the task's poses and cameras.

    They are listed in the database first, so that numbers follow the order of the photos. Threads that extract features
    would give them in the order in which they finish, and another numbering gives other points.
    """
    model = pycolmap.Reconstruction()
    with pycolmap.Database.open(database) as db, pycolmap.DatabaseTransaction(db):
        for view in views:
            camera = pycolmap.Camera(model="PINHOLE", width=size[0], height=size[1], params=np.array(view["params"]))
            camera.has_prior_focal_length = True
            camera.camera_id = db.write_camera(camera)
            rig, frame = pycolmap.Rig(), pycolmap.Frame()
            rig.add_ref_sensor(camera.sensor_id)
            frame.rig_id = db.write_rig(rig)
            image = pycolmap.Image(name=view["name"], camera_id=camera.camera_id)
            image.image_id = db.write_image(image)
            frame.add_data_id(image.data_id)
            db.write_frame(frame)
            model.add_camera_with_trivial_rig(camera)
            pose = np.array(view["cam_from_world"])
            model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(pycolmap.Rotation3d(pose[:, :3]), pose[:, 3]))
    return model


def _save(folder: Path, model: Any, names: list[str]) -> None:
    ids = sorted(model.points3D)
    row = {image.image_id: names.index(image.name) for image in model.images.values()}
    photo, point, pixels = [], [], []
    for number, one in enumerate(ids):
        for element in model.points3D[one].track.elements:
            photo.append(row[element.image_id])
            point.append(number)
            pixels.append(model.images[element.image_id].points2D[element.point2D_idx].xy)
    np.savez(
        folder / "points.npz",
        xyz=np.array([model.points3D[p].xyz for p in ids]).reshape(-1, 3),
        rgb=np.array([model.points3D[p].color for p in ids], dtype=np.uint8).reshape(-1, 3),
        photo=np.array(photo, dtype=int),
        point=np.array(point, dtype=int),
        pixels=np.array(pixels, dtype=float).reshape(-1, 2),
    )


def _limit(seconds: int) -> None:
    """End this process by SIGXCPU after `seconds` of processor time."""
    try:
        import resource
    except ImportError:  # not on this system; the parent has a wall-clock limit
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


if __name__ == "__main__":
    _limit(int(sys.argv[2]))
    triangulate(Path(sys.argv[1]))
