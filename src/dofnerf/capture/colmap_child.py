"""The child process of `mapping`: pycolmap's features, matches and poses by a task file; progress on stdout.

Run by its path, and imports nothing of ours but the file beside it: pycolmap and Pillow must not share a process.
Stopped and started again, it resumes: the database keeps the features and pairs that are done.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap
from brackets import find_brackets, is_one_burst, is_one_place, rows_of, write_rigs  # beside this file

Task = dict[str, Any]
_PAIRS_AT_ONCE = 60
_NOISE = 0.3  # pixels: error of features of sharp photos
_LARGEST_ERROR, _SMALLEST_ANGLE = 4.0, 1.5  # pixels and degrees, of points: pycolmap's own
_FOCAL_RATIO, _FEWEST_SEEN, _ERROR_RATIO = 1.15, 40, 0.99  # limits of focal lengths of their own for each photo


class Messages:
    """One line of JSON a message, on what was stdout; what libraries print there goes to stderr, the log."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def __call__(self, step: str, done: int, total: int) -> None:
        self.out.write(json.dumps({"step": step, "done": done, "total": total}) + "\n")
        self.out.flush()


def apply(options: Any, changes: dict[str, Any]) -> Any:
    """Set named options, also those within options."""
    for name, value in changes.items():
        if not hasattr(options, name):
            raise AttributeError(f"pycolmap has no option {name}")
        if isinstance(value, dict):
            apply(getattr(options, name), value)
        else:
            setattr(options, name, value)
    return options


def extract(task: Task, send: Messages) -> None:
    """Features of all photos, a few at a time; photos of a group share a camera."""
    options = apply(pycolmap.FeatureExtractionOptions(), task["extraction"])
    options.num_threads, options.use_gpu = task["threads"], False
    database = Path(task["database"])
    database.parent.mkdir(parents=True, exist_ok=True)
    with pycolmap.Database.open(database) as db:
        there = {image.name: image for image in db.read_all_images()}
        done = {name for name, image in there.items() if db.exists_keypoints(image.image_id)}
    total = sum(len(group["names"]) for group in task["groups"])
    send("features", len(done), total)
    for group in task["groups"]:
        reader = pycolmap.ImageReaderOptions()
        reader.camera_model = "SIMPLE_RADIAL"
        reader.mask_path = task["masks"]
        reader.existing_camera_id = _listed(database, group, there)
        todo = [name for name in group["names"] if name not in done]
        for first in range(0, len(todo), task["threads"]):
            names = todo[first : first + task["threads"]]
            pycolmap.extract_features(
                database, task["photos"], names, camera_mode=pycolmap.CameraMode.SINGLE,
                reader_options=reader, extraction_options=options,
            )  # fmt: skip
            done |= set(names)
            send("features", len(done), total)


def _listed(database: Path, group: dict[str, Any], there: dict[str, Any]) -> int:
    """The number of the group's camera, after its photos have been listed in the database, if they were not.

    Numbers follow the order of the photos. Threads that extract features would give them in the order in which they
    finish, and another numbering gives other poses.
    """
    for name in group["names"]:
        if name in there:
            return int(there[name].camera_id)
    camera = pycolmap.Camera(
        model="SIMPLE_RADIAL", width=group["width"], height=group["height"], params=np.array(group["params"])
    )
    camera.has_prior_focal_length = group["known"]
    with pycolmap.Database.open(database) as db, pycolmap.DatabaseTransaction(db):
        camera.camera_id = db.write_camera(camera)
        rig = pycolmap.Rig()
        rig.add_ref_sensor(camera.sensor_id)
        rig_id = db.write_rig(rig)
        for name in group["names"]:
            image = pycolmap.Image(name=name, camera_id=camera.camera_id)
            image.image_id = db.write_image(image)
            frame = pycolmap.Frame()
            frame.rig_id = rig_id
            frame.add_data_id(image.data_id)
            db.write_frame(frame)
        return int(camera.camera_id)


def match(task: Task, send: Messages) -> None:
    """Matches of the task's pairs, verified, some at a time."""
    options = apply(pycolmap.FeatureMatchingOptions(), task["matching"])
    options.num_threads, options.use_gpu = task["threads"], False
    verification = apply(pycolmap.TwoViewGeometryOptions(), task["verification"])
    verification.ransac.random_seed = 0
    pairs = task["pairs"]
    listed = Path(task["database"]).with_suffix(".pairs.txt")
    pairing = pycolmap.ImportedPairingOptions()
    pairing.match_list_path = str(listed)
    for first in range(0, len(pairs), _PAIRS_AT_ONCE):
        send("matches", first, len(pairs))
        some = pairs[first : first + _PAIRS_AT_ONCE]
        listed.write_text("".join(f"{one} {other}\n" for one, other in some), encoding="utf-8")
        pycolmap.match_image_pairs(
            task["database"], matching_options=options, pairing_options=pairing, verification_options=verification
        )
    send("matches", len(pairs), len(pairs))


def reconstruct(task: Task, send: Messages) -> dict[int, Any]:
    """All models that mapping finds, written below the task's folder."""
    options = apply(pycolmap.IncrementalPipelineOptions(), task["mapping"])
    options.num_threads, options.random_seed = 1, 0  # several threads add up in any order, to other bits
    options.min_model_size = 3
    options.extract_colors = False
    total, count = sum(len(group["names"]) for group in task["groups"]), [2]
    send("poses", 0, total)

    def one_more() -> None:
        count[0] += 1
        send("poses", min(count[0], total - 1), total)

    models = Path(task["models"])
    models.mkdir(parents=True, exist_ok=True)
    found = pycolmap.incremental_mapping(
        task["database"], task["photos"], models, options=options, next_image_callback=one_more
    )
    result, shared = {}, brackets_of(task)
    for key, model in found.items():
        best = with_own_focal_lengths(adjust(model, distortion=True), models / f"{key}-own")
        result[key] = with_shared_poses(best, models / f"{key}-shared", shared) if shared else best
        result[key].write_binary(models / str(key))
    send("poses", max((model.num_reg_images() for model in result.values()), default=0), total)
    return result


def adjust(model: Any, distortion: bool) -> Any:
    """Bundle adjustment of poses, points and focal lengths (and `distortion`).

    With Cauchy's loss: features of blurred photos are less accurate, and would dominate a sum of squares. Points that
    end up far off, even behind a camera, are dropped.
    """
    options = pycolmap.BundleAdjustmentOptions()
    options.refine_extra_params, options.print_summary = distortion, False
    options.refine_sensor_from_rig = False  # the photos of a bracket have one place
    options.ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = _NOISE
    options.ceres.solver_options.num_threads = 1
    pycolmap.bundle_adjustment(model, options)
    pycolmap.ObservationManager(model).filter_all_points3D(_LARGEST_ERROR, _SMALLEST_ANGLE)
    model.update_point_3d_errors()
    return model


def with_own_focal_lengths(model: Any, folder: Path) -> Any:
    """The model with a focal length for each photo, if that explains the photos better; else the model itself.

    A lens focused nearer has a slightly longer focal length ("focus breathing"), and photos with a shallow depth of
    field are focused at many depths. Poses are first found with one focal length for a group of photos, which is more
    stable; this only corrects them.
    """
    _write_own_cameras(model, folder)
    free = adjust(pycolmap.Reconstruction(folder), distortion=False)
    before, after = model.compute_mean_reprojection_error(), free.compute_mean_reprojection_error()
    posed = {key: image for key, image in free.images.items() if image.has_pose}
    change = [image.camera.params[0] / model.images[key].camera.params[0] for key, image in posed.items()]
    seen = min(image.num_points3D for image in posed.values())
    plausible = min(change) > 1 / _FOCAL_RATIO and max(change) < _FOCAL_RATIO and seen >= _FEWEST_SEEN
    return free if plausible and after < _ERROR_RATIO * before else model


def _write_own_cameras(model: Any, folder: Path) -> None:
    """The model as text, with a camera for each image, of the image's number."""
    folder.mkdir(parents=True, exist_ok=True)
    model.write_text(folder)
    for name in ("rigs.txt", "frames.txt"):
        (folder / name).unlink(missing_ok=True)
    cameras = {line.split()[0]: line.split()[1:] for line in rows_of(folder / "cameras.txt")}
    images = rows_of(folder / "images.txt")
    own = []
    for i in range(0, len(images), 2):  # two lines an image: number, pose, camera, name; then its features
        words = images[i].split(maxsplit=9)
        own.append(" ".join([words[0], *cameras[words[8]]]))
        images[i] = " ".join([*words[:8], words[0], words[9]])
    (folder / "cameras.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
    (folder / "images.txt").write_text("\n".join(images) + "\n", encoding="utf-8")


def with_shared_poses(model: Any, folder: Path, brackets: list[list[str]]) -> Any:
    """The model in which the photos of each bracket have one pose, and a focal length each; photos that had no pose get
    that of their bracket."""
    _write_own_cameras(model, folder)
    write_rigs(folder, brackets)
    return adjust(pycolmap.Reconstruction(folder), distortion=False)


def brackets_of(task: Task) -> list[list[str]]:
    """The focus brackets among the photos, by their matched features and by what the task says of them."""
    about = task["about"]
    with pycolmap.Database.open(task["database"]) as db:
        images = {image.name: image for image in db.read_all_images()}
        widths = {camera.camera_id: (camera.width, camera.height) for camera in db.read_all_cameras()}
        features: dict[str, Any] = {}

        def centred(name: str) -> Any:
            if name not in features:
                image = images[name]
                features[name] = db.read_keypoints(image.image_id)[:, :2] - np.array(widths[image.camera_id]) / 2
            return features[name]

        def same(one: str, other: str) -> bool:
            if not is_one_burst(about[one], about[other]):
                return False
            ids = images[one].image_id, images[other].image_id
            if not db.exists_two_view_geometry(*ids):
                return False
            matches = np.asarray(db.read_two_view_geometry(*ids).inlier_matches, dtype=np.int64).reshape(-1, 2)
            width = float(widths[images[one].camera_id][0])
            return is_one_place(centred(one)[matches[:, 0]], centred(other)[matches[:, 1]], width)

        places = {name: one["place"] for name, one in about.items() if one["place"]}
        return find_brackets(list(about), map(tuple, task["pairs"]), places, same)


def summarise(task: Task, models: dict[int, Any]) -> dict[str, Any]:
    """What each model holds, and for each photo its features and verified matches."""
    found = []
    for key, model in models.items():
        names = sorted(image.name for image in model.images.values() if image.has_pose)
        error = float(model.compute_mean_reprojection_error())
        found.append({"folder": str(key), "registered": names, "error": error, "points": len(model.points3D)})
    with pycolmap.Database.open(task["database"]) as db:
        images = {image.image_id: image.name for image in db.read_all_images()}
        features = {name: int(db.num_keypoints_for_image(key)) for key, name in images.items()}
        best = dict.fromkeys(images.values(), 0)
        pairs, verified = db.read_two_view_geometry_num_inliers()
        for pair, inliers in zip(pairs, verified, strict=True):
            for key in pycolmap.pair_id_to_image_pair(pair):
                name = images[int(key)]
                best[name] = max(best[name], int(inliers))
    return {"models": found, "features": features, "matches": best, "brackets": brackets_of(task)}


def follow(parent: int) -> None:
    """End this process soon after the one that started it, however that ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main(path: Path) -> None:
    """Do what the task file at `path` asks; the summary goes to the file that it names."""
    threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
    send = Messages()
    task = json.loads(path.read_text(encoding="utf-8"))
    extract(task, send)
    match(task, send)
    summary = summarise(task, reconstruct(task, send))
    temporary = Path(task["summary"]).with_suffix(".part")
    temporary.write_text(json.dumps(summary), encoding="utf-8")
    os.replace(temporary, task["summary"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
