"""COLMAP scenes: a sparse model (sparse/0, binary or text) and its photos, undistorted on load."""

from __future__ import annotations

from pathlib import Path

from dofnerf.files.guard import inside
from dofnerf.scenes.colmap_model import Model, ModelImage, camera_pose, find_model, pinhole, read_model, seen_by
from dofnerf.scenes.distortion import straighten, undistorted
from dofnerf.scenes.masks import find_mask
from dofnerf.scenes.photos import photo_folder, picture_at, saved_smaller
from dofnerf.scenes.reading import Found, ReadOptions, common_bounds
from dofnerf.scenes.scene import Frame

SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".JPEG", ".PNG")
name, order = "colmap", 40


def detects(path: Path) -> bool:
    """Whether there is a COLMAP model at the usual places."""
    return find_model(path) is not None


def read(root: Path, options: ReadOptions) -> Found:
    """The scene in `root`, or in the model folder itself."""
    folder = find_model(root)
    if folder is None:
        expected = "expected sparse/0/cameras.bin (or .txt) with images and points3D beside it"
        raise ValueError(f"{root}: no COLMAP model; {expected}")
    model = read_model(folder)
    if not model.images:
        raise ValueError(f"{folder}: the model has no posed images (images.bin or images.txt)")
    order = sorted(model.images, key=lambda key: model.images[key].name)
    home = folder if root == folder else root
    photos = photo_folder(home, options.downscale)
    first = model.cameras.get(model.images[order[0]].camera_id)
    full_width = first.width if first else 0
    paths = [find_photo(home, photos, model.images[key].name, str(folder)) for key in order]
    if options.save_resized and options.downscale and full_width:
        paths = saved_smaller(home, paths, full_width, options.downscale)
    frames = [_frame(home, model, model.images[key], path) for key, path in zip(order, paths, strict=True)]
    frames = seen_by(model, frames, order)
    bounds, points = common_bounds(frames, str(folder)), model.sparse_points()
    notes = _left_over(photos, len(paths))
    name = home.resolve().name
    return Found(name, "COLMAP", frames, bounds, full_width, points, notes=notes, range_from="points")


def find_photo(root: Path, folder: Path, name: str, where: str) -> Path:
    """The photo called `name`, in `folder`, with this or another suffix."""
    relative = folder.resolve().relative_to(root.resolve())
    if not Path(name).name:
        raise ValueError(f"{where}: {name!r:.200} is no name of a photo")
    for suffix in SUFFIXES:
        trial = name if not suffix else str(Path(name).with_suffix(suffix))
        path = inside(root, str(relative / trial), f"{where}: image {name!r}"[:300])
        if path.is_file():
            return path
    missing = f"the photo {name!r:.200} is missing from {folder}"
    raise ValueError(f"{where}: {missing}; restore it or rebuild the model without it")


def _frame(home: Path, model: Model, image: ModelImage, path: Path) -> Frame:
    where = f"{model.folder}: image {image.name!r:.200}"
    if image.camera_id not in model.cameras:
        raise ValueError(f"{where}: its camera {image.camera_id} is not in the model")
    camera, distortion = pinhole(model.cameras[image.camera_id], camera_pose(image, where), where)
    source = picture_at(path, (camera.width, camera.height), where)
    camera = camera.resized(source.width, source.height)
    straight, zoom = straighten(camera, distortion, where)
    mask = find_mask(home, image.name, path, (source.width, source.height))
    frame = Frame(image.name, straight, source, mask=mask)
    return frame.converted(straight, lambda one: undistorted(one, distortion, camera, zoom), 1.0)


def _left_over(folder: Path, used: int) -> tuple[str, ...]:
    count = sum(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
    return (f"{count - used} of {count} files in {folder.name} have no pose and are left out",) if count > used else ()
