"""The child process of `points`: pycolmap features, matches and triangulation with fixed poses. Writes points.npz."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap


def triangulate(folder: Path) -> None:
    """Read task.json and photos/ in `folder`; write points.npz: xyz, rgb, error (pixels), visible (views, points)."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    photos, database = folder / "photos", folder / "database.db"
    names = [view["name"] for view in task["views"]]
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = "PINHOLE"
    reader.camera_params = ",".join(str(value) for value in task["camera"]["params"])
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.num_threads = 2
    extraction.use_gpu = False
    extraction.sift.peak_threshold = 0.0015
    extraction.sift.max_num_features = 6000
    pycolmap.extract_features(
        database, photos, names, camera_mode=pycolmap.CameraMode.SINGLE, reader_options=reader, extraction_options=extraction
    )
    matching = pycolmap.FeatureMatchingOptions()
    matching.num_threads = 2
    matching.use_gpu = False
    verification = pycolmap.TwoViewGeometryOptions()
    verification.min_num_inliers = 8  # blurred pairs share little; the known poses weed out what is wrong
    verification.ransac.random_seed = 0
    pycolmap.match_exhaustive(database, matching_options=matching, verification_options=verification)
    pipeline = pycolmap.IncrementalPipelineOptions()
    pipeline.triangulation.ignore_two_view_tracks = False
    pipeline.triangulation.random_seed = 0
    posed = _posed(database, task)
    model = pycolmap.triangulate_points(posed, database, photos, folder / "model", clear_points=True, options=pipeline)
    _save(folder, model, names)


def _posed(database: Path, task: dict[str, Any]) -> Any:
    """A reconstruction without points: the database's images with the poses of the task."""
    poses = {view["name"]: np.array(view["cam_from_world"]) for view in task["views"]}
    model = pycolmap.Reconstruction()
    with pycolmap.Database.open(database) as db:
        for camera in db.read_all_cameras():
            model.add_camera_with_trivial_rig(camera)
        for image in db.read_all_images():
            pose = poses[image.name]
            cam_from_world = pycolmap.Rigid3d(pycolmap.Rotation3d(pose[:, :3]), pose[:, 3])
            model.add_image_with_trivial_frame(image, cam_from_world)
    return model


def _save(folder: Path, model: Any, names: list[str]) -> None:
    ids = sorted(model.points3D)
    column = {point: number for number, point in enumerate(ids)}
    row = {image.image_id: names.index(image.name) for image in model.images.values()}
    visible = np.zeros((len(names), len(ids)), dtype=bool)
    for point in ids:
        for element in model.points3D[point].track.elements:
            visible[row[element.image_id], column[point]] = True
    np.savez(
        folder / "points.npz",
        xyz=np.array([model.points3D[p].xyz for p in ids]).reshape(-1, 3),
        rgb=np.array([model.points3D[p].color for p in ids], dtype=np.uint8).reshape(-1, 3),
        error=np.array([model.points3D[p].error for p in ids]),
        visible=visible,
    )


if __name__ == "__main__":
    triangulate(Path(sys.argv[1]))
