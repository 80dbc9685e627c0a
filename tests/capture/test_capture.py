"""A capture against the truth: the painted world's cameras, walls and colours, which the photos alone must give
back."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from small_photos import COUNT, FOCAL, HEIGHT, WIDTH, place

from dofnerf import scenes
from dofnerf.capture import capture, mapping
from dofnerf.capture.pipeline import find_masks
from dofnerf.cli import main
from dofnerf.models.data import Setting, aperture_groups, exif_apertures, f_numbers
from oracles.poses import align
from painted import BOARD, WALL


def test_cameras_are_where_they_were(captured):
    scene = captured.scene
    assert [frame.name for frame in scene.frames] == [f"images/IMG_{i}.png" for i in range(COUNT)]
    assert scene.size == (WIDTH, HEIGHT) and "pycolmap" not in sys.modules
    found = np.stack([scene.camera(i).position for i in range(COUNT)])
    true = np.stack([place(i).position for i in range(COUNT)])
    scale, turn, shift = align(found, true)
    off = np.linalg.norm(scale * found @ turn.T + shift - true, axis=1)
    assert off.max() < 0.01 * np.linalg.norm(np.ptp(true, axis=0))
    for i in range(COUNT):
        assert turn @ scene.camera(i).forward @ place(i).forward > np.cos(np.radians(0.5))
        assert scene.camera(i).fx == pytest.approx(FOCAL, rel=0.02)
    # --scale-by says that photos 0 and 3 were taken 1.5 m apart.
    assert scene.metres == 1 and np.linalg.norm(found[0] - found[3]) == pytest.approx(1.5, rel=1e-6)
    # The mean camera is at the origin, y is up.
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    assert np.mean([scene.camera(i).camera_to_world[:, 1] for i in range(COUNT)], axis=0)[1] > 0.99
    xyz = scale * scene.points.xyz @ turn.T + shift
    missed = np.minimum(np.abs(xyz[:, 2] + WALL), np.abs(xyz[:, 2] + BOARD))
    assert len(xyz) > 300 and np.percentile(missed, 90) < 0.05


def test_the_scene_holds_photos_points_and_what_happened(captured, pictures):
    scene = captured.scene
    for i in (0, 2):  # photo 2 was stored turned by 90 degrees
        straight = scene.photo(i)
        assert np.abs(straight - pictures[i])[20:-20, 20:-20].mean() < 0.05
        seen = scene.visible(i)
        assert len(seen.ids) > 100 and seen.error.mean() < 0.5
        column, row = seen.pixels.astype(int).T
        assert np.median(np.abs(straight[row, column] - scene.points.rgb[seen.ids] / 255)) < 0.06
        assert scene.frames[i].bounds is not None
    result = json.loads((captured.out / "result.json").read_text())
    assert (result["registered"], result["photos"], result["width"]) == (COUNT, COUNT + 2, WIDTH)
    assert result["error_pixels"] < 0.5
    left_out = result["left_out"]
    assert set(left_out) == {"IMG 1 copy.jpg", "IMG 7.jpg"}
    assert "truncated or corrupt" in left_out["IMG 7.jpg"]
    assert left_out["IMG 1 copy.jpg"] == "the same picture as IMG 1.jpg"
    assert "captured: 6 of 8 photos have a pose" in scene.notes[0] and any("IMG 7.jpg" in note for note in scene.notes)
    assert (captured.out / "photos.jpg").is_file()


def test_exif_reaches_the_lens(captured):
    scene = captured.scene
    assert f_numbers(scene) == [1.8] * 4 + [4.0] * 2
    groups = aperture_groups(scene, "exif")
    assert len(set(groups[:4])) == len(set(groups[4:])) == 1 and groups[0] != groups[4]
    exif = scene.frames[0].exif
    assert (exif.focal_length, exif.focal_length_35, exif.subject_distance) == (
        35,
        34,
        3.5,
    ) and exif.camera == "Maker Model 1"
    # In metres a lens of 35 mm at f/1.8 has a radius of 35 / 3.6 mm.
    for i, aperture in enumerate(exif_apertures(scene)):
        assert aperture == pytest.approx(scene.camera(i).fx * 0.035 / 2 / (1.8 if i < 4 else 4.0), rel=1e-6)


def test_a_lens_starts_where_exif_says(captured):
    from dofnerf.train import preset
    from dofnerf.train.photos.lens import PhotoLens

    config = preset("fast").lens
    setting = Setting.of(captured.scene)
    start = PhotoLens.make(config, setting).aperture.tolist()
    widest = 0.9 * config.max_radius / (setting.disparities[1] - setting.disparities[0])
    np.testing.assert_allclose(start, np.minimum(exif_apertures(captured.scene), widest), rtol=1e-3)


def test_a_second_call_does_nothing_and_another_is_refused(captured, monkeypatch, capsys):
    monkeypatch.setattr(mapping, "run_child", None)
    before = {path: path.stat().st_mtime_ns for path in captured.out.rglob("*") if path.is_file()}
    assert len(capture(captured.photos, captured.out, captured.options)) == COUNT
    assert {path: path.stat().st_mtime_ns for path in captured.out.rglob("*") if path.is_file()} == before
    assert main(["capture", str(captured.photos), "--out", str(captured.out), "--size", "200"]) == 2
    assert "made with another size; choose another folder" in capsys.readouterr().err


def test_scale_and_held_out_photos_change_without_work(captured, tmp_path, monkeypatch, capsys):
    """Photo 2 is "IMG 1.jpg" in the folder's order, where "IMG 1 copy.jpg" is photo 1."""
    monkeypatch.setattr(mapping, "run_child", None)
    out, before = tmp_path / "scene", captured.scene
    shutil.copytree(captured.out, out, ignore=shutil.ignore_patterns("work"))
    arguments = ["capture", str(captured.photos), "--out", str(out), "--hold-every", "2", "--attempts", "1"]
    assert main([*arguments, "--scale-by", "2,IMG 4.jpg,7"]) == 0
    after = scenes.load(out)
    ratio = 7 / np.linalg.norm(before.camera(1).position - before.camera(4).position)
    for i in range(COUNT):
        np.testing.assert_allclose(after.camera(i).position, ratio * before.camera(i).position, atol=1e-6)
        np.testing.assert_array_equal(after.photo(i), before.photo(i))
    np.testing.assert_allclose(after.points.xyz, ratio * before.points.xyz, rtol=1e-5)
    assert after.near == pytest.approx(ratio * before.near) and after.metres == 1
    assert after.test == (4,) and after.train == (0, 1, 2, 3, 5) and after.notes == before.notes
    capsys.readouterr()
    assert main([*arguments, "--scale-by", "1,2,3"]) == 2
    assert "--scale-by: photo 1, IMG 1 copy.jpg, has no pose" in capsys.readouterr().err
    assert main(arguments) == 0 and scenes.load(out).near == pytest.approx(after.near)  # not said: stays


def test_it_goes_on_where_it_stopped(captured, tmp_path, monkeypatch):
    """All but the last step done: nothing is computed again, and the same scene comes out."""
    out = tmp_path / "scene"
    shutil.copytree(captured.out, out)
    for name in ("transforms.json", "result.json", "images/IMG_1.png"):
        (out / name).unlink()
    task, real = json.loads((out / "work/attempt-0/task.json").read_text()), mapping.run_child
    monkeypatch.setattr(mapping, "run_child", None)
    again = capture(captured.photos, out, captured.options)
    np.testing.assert_allclose(again.camera(3).camera_to_world, captured.scene.camera(3).camera_to_world)
    np.testing.assert_array_equal(again.photo(1), captured.scene.photo(1))
    # Without its summary, an attempt is made again, from the features and matches in the database.
    (out / "transforms.json").unlink()
    (out / "result.json").unlink()
    (out / "work/attempt-0/summary.json").unlink()
    steps = []

    def child(path, log, report):
        assert json.loads(path.read_text())["pairs"] == task["pairs"]
        real(path, log, lambda step, done, total: steps.append((step, done, total)))

    monkeypatch.setattr(mapping, "run_child", child)
    again = capture(captured.photos, out, captured.options)
    assert len(again) == COUNT and steps[0] == ("features", COUNT, COUNT)


def test_what_somebody_else_left_is_neither_believed_nor_followed(captured, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mapping, "run_child", None)
    out, ours = tmp_path / "scene", tmp_path / "bashrc"
    shutil.copytree(captured.out, out)
    arguments = ["capture", str(captured.photos), "--out", str(out), "--size", str(captured.options.size)]
    result, summary = out / "result.json", out / "work/attempt-0/summary.json"

    def refused(path, *words, **change):
        kept = path.read_text()
        path.write_text(json.dumps(json.loads(kept) | change))
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert all(word in error for word in (path.name, *words)) and "Traceback" not in error, error
        path.write_text(kept)

    for change in ({"hold_every": "x"}, {"hold_every": -1}, {"left_out": 3}, {"inputs": [3]}, {"inputs": [["a", 3]]}):
        refused(result, "not what a capture leaves", **change)
    result.unlink()
    model = json.loads(summary.read_text())["models"][0]
    for change in ({"features": 3}, {"models": [3]}, {"models": [model | {"folder": "../../../.."}]}):
        refused(summary, "not what an attempt leaves", **change)
    ours.write_text("mine")
    (out / "work/pycolmap.log").unlink(missing_ok=True)
    (out / "work/pycolmap.log").symlink_to(ours)
    assert main(arguments) == 2 and "pycolmap.log: a link or a pipe" in capsys.readouterr().err
    assert ours.read_text() == "mine"


def test_info_shows_the_capture(captured, tmp_path, capsys):
    assert main(["info", str(captured.out), "--sheet", str(tmp_path / "sheet.png")]) == 0
    text = capsys.readouterr().out
    assert "captured: 6 of 8 photos have a pose, mean reprojection error" in text
    assert "f/1.8 (4), f/4 (2)" in text and "unit      1 m" in text
    for i in range(COUNT):
        near, far = captured.scene.frames[i].bounds
        line = next(line for line in text.splitlines() if line.split()[:2] == [str(i), f"IMG_{i}"])
        assert f"depth {near:.4g} to {far:.4g}" in line and "px off" in line


def test_the_child_imports_nothing_of_ours():
    code = (
        "import ast, sys; tree = ast.parse(open(sys.argv[1]).read()); print([ast.unparse(n) for n in ast.walk(tree) if "
        "isinstance(n, (ast.Import, ast.ImportFrom))])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(mapping.CHILD)], capture_output=True, text=True, check=True)
    assert "dofnerf" not in done.stdout and "PIL" not in done.stdout and "pycolmap" in done.stdout


def test_the_scene_trains(captured, tmp_path):
    scene = scenes.load(captured.out, width=60)
    assert scene.size == (60, 45) and scene.train == tuple(range(COUNT))
    assert scene.frames[1].seen_error.mean() == pytest.approx(captured.scene.frames[1].seen_error.mean() / 4, rel=1e-3)


SPOIL = """
import sys
sys.path.insert(0, sys.argv[1])
from colmap_child import adjust
import pycolmap
model = pycolmap.Reconstruction(sys.argv[2])
before = len(model.points3D)
for point in list(model.points3D.values())[::20]:
    seen = point.track.elements[0]
    model.images[seen.image_id].points2D[seen.point2D_idx].xy = [9000.0, -9000.0]
model.update_point_3d_errors()
spoiled = model.compute_mean_reprojection_error()
adjust(model, distortion=False)
print(spoiled, model.compute_mean_reprojection_error(), before, len(model.points3D))
"""


def test_what_fits_no_photo_is_dropped_and_does_not_spoil_the_error(captured):
    """pycolmap must not share a process with Pillow, hence another one."""
    (model,) = (path.parent for path in captured.out.glob("work/attempt-0/models/0/points3D.bin"))
    told = subprocess.run(
        [sys.executable, "-c", SPOIL, str(mapping.CHILD.parent), str(model)], capture_output=True, text=True, check=True
    )
    spoiled, error, before, after = (float(word) for word in told.stdout.split()[-4:])
    assert spoiled > 100 and error < 0.5
    assert 0.9 * before <= after <= before


@pytest.mark.slow
def test_the_same_photos_give_the_same_bits_with_any_number_of_threads(captured, tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(3 if threads == 1 else 1)
    try:
        capture(captured.photos, tmp_path / "scene", captured.options)
    finally:
        torch.set_num_threads(threads)
    for name in ("transforms.json", "points.ply", "images/IMG_0.png", "visible/IMG_3.npy"):
        assert (tmp_path / "scene" / name).read_bytes() == (captured.out / name).read_bytes(), name


def test_masks_reach_the_scene_and_features_stay_away_from_them(captured, pictures):
    scene = captured.scene
    assert [scene.mask(i) is not None for i in range(COUNT)] == [i == 3 for i in range(COUNT)]
    left_out = ~scene.mask(3)
    assert left_out[62:108, 92:148].all() and left_out.sum() < 1.4 * 50 * 60
    assert np.abs(scene.photo(3) - pictures[3])[20:-20, 20:-20].mean() < 0.06
    import sqlite3

    with sqlite3.connect(captured.out / "work" / "plain.db") as database:
        rows = database.execute(
            "SELECT rows, cols, data FROM keypoints JOIN images USING (image_id) WHERE name = 'IMG_3.png'"
        ).fetchall()
    count, columns, data = rows[0]
    places = np.frombuffer(data, np.float32).reshape(count, columns)[:, :2] * WIDTH / enlarged_width(captured.out)
    hidden = (places > (90, 60)).all(1) & (places < (150, 110)).all(1)
    assert count > 100 and not hidden.any()
    with pytest.raises(ValueError, match="no mask is called like a photo"):
        find_masks(captured.photos, [captured.photos / "IMG 0.jpg"], captured.photos / "masks")


def enlarged_width(out):
    with Image.open(out / "work" / "enlarged" / "IMG_3.png") as picture:
        return picture.width
