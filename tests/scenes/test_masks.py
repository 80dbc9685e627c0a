"""Masks: found beside photos of every format, filled in before anything is resized, and of no effect on what counts."""

import json

import numpy as np
import pytest
from PIL import Image
from small_scenes import HEIGHT, WIDTH, colmap, llff, picture, transforms

from dofnerf import scenes
from dofnerf.files import write_exr
from dofnerf.scenes.masks import fill_in
from dofnerf.scenes.source import resize

HOLE = np.s_[4:9, 6:14]  # rows and columns that do not count
COUNTS = np.ones((HEIGHT, WIDTH), bool)
COUNTS[HOLE] = False


def spoil(path, colour):
    """Something else in the hole of a photo."""
    image = np.array(Image.open(path))
    image[HOLE] = colour
    Image.fromarray(image).save(path)


def write_mask(path, counts=COUNTS, size=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = Image.fromarray(np.uint8(255) * counts)
    (mask if size is None else mask.resize(size, Image.Resampling.NEAREST)).save(path)


def bare(root):
    return transforms(root, lens=False)


@pytest.mark.parametrize("make", [colmap, llff, bare])
@pytest.mark.parametrize("name", ["photo_2.png", "photo_2.png.png", "photo_2.jpg"])
def test_masks_beside_the_photos(tmp_path, make, name):
    root = make(tmp_path)
    write_mask(root / "masks" / name)
    scene = scenes.load(root)
    assert [scene.mask(i) is not None for i in range(6)] == [i == 2 for i in range(6)]
    assert (scene.mask(2) == COUNTS).all() and (scene.photo(2)[COUNTS] == make_photo(tmp_path, 2)[COUNTS]).all()
    assert "1 photo has a mask, which leaves out 10 % of it" in scenes.describe(scene)
    assert "mask leaves out 10 %" in scenes.describe_photos(scene)


def test_masks_in_folders_as_the_photos_are(tmp_path):
    root = bare(tmp_path)
    write_mask(root / "masks" / "images" / "photo_3.png")
    write_mask(root / "masks" / "other" / "photo_1.png")
    assert [scenes.load(root).mask(i) is not None for i in range(6)] == [i == 3 for i in range(6)]


def test_alpha_of_linear_light_is_a_mask(tmp_path):
    root = bare(tmp_path)
    data = json.loads((root / "transforms.json").read_text())
    light = np.full((HEIGHT, WIDTH), 0.25, np.float32)
    for i, frame in enumerate(data["frames"]):
        frame["file_path"] = f"images/photo_{i}.exr"
        channels = dict.fromkeys("RGB", np.where(COUNTS, light, 7))
        write_exr(root / frame["file_path"], channels | ({"A": COUNTS.astype(np.float32)} if i == 1 else {}))
    (root / "transforms.json").write_text(json.dumps(data))
    scene = scenes.load(root)
    assert [scene.mask(i) is not None for i in range(6)] == [i == 1 for i in range(6)]
    assert (scene.mask(1) == COUNTS).all() and scene.linear
    np.testing.assert_allclose(scene.photo(1), 0.25 ** (1 / 2.2), rtol=1e-5)  # filled in from around
    assert scene.photo(0)[HOLE].min() == 1


def make_photo(root, i):
    picture(root / "again.png", i / 10)
    return np.asarray(Image.open(root / "again.png"), dtype=np.float32) / 255


def test_nerfstudios_masks_and_what_they_hide_is_never_seen(tmp_path):
    loaded = []
    for colour in ((0, 0, 0), (255, 0, 255)):
        root = transforms(tmp_path / str(colour[0]), lens=False)
        data = json.loads((root / "transforms.json").read_text())
        for i, frame in enumerate(data["frames"]):
            spoil(root / f"images/photo_{i}.png", colour)
            frame["mask_path"] = f"masks/{i}.png"
            write_mask(root / frame["mask_path"], size=(2 * WIDTH, 2 * HEIGHT) if i else None)
        data |= {"k1": 0.05, "w": WIDTH, "h": HEIGHT}
        (root / "transforms.json").write_text(json.dumps(data))
        scene = scenes.load(root, width=16)
        loaded.append([(scene.photo(i), scene.mask(i)) for i in range(6)])
        again = scenes.load(scenes.write_transforms(scene, tmp_path / f"copy-{colour[0]}"))
        assert all((again.mask(i) == scene.mask(i)).all() for i in range(6))
    for (one, mask), (other, same) in zip(*loaded, strict=True):
        assert (one == other).all() and (mask == same).all() and 0.3 < mask.mean() < 0.9


def test_alpha_is_a_mask_but_where_renders_are_empty(tmp_path):
    root = transforms(tmp_path, lens=False)
    for i in range(6):
        image = Image.open(root / f"images/photo_{i}.png")
        alpha = np.full((HEIGHT, WIDTH), 255, np.uint8)
        alpha[HOLE] = 0 if i == 1 else 255
        alpha[0, 0] = 200 if i == 1 else 255  # half of the photo, half of what is behind: not this photo's
        image.putalpha(Image.fromarray(alpha))
        image.save(root / f"images/photo_{i}.png")
    scene = scenes.load(root)
    assert [scene.mask(i) is None for i in range(6)] == [True, False, True, True, True, True]
    assert not scene.mask(1)[0, 0] and scene.mask(1).sum() == COUNTS.sum() - 1
    (root / "transforms.json").rename(root / "transforms_train.json")
    blender = scenes.load(root)
    assert blender.mask(1) is None and (blender.photo(1)[HOLE] == 1).all()


def test_points_that_a_mask_hides_are_not_seen(tmp_path):
    root = colmap(tmp_path)
    before = scenes.load(root).visible(0)
    counts = np.ones((HEIGHT, WIDTH), bool)
    counts[:, WIDTH // 2 :] = False
    write_mask(root / "masks/photo_0.png", counts)
    after = scenes.load(root).visible(0)
    left = before.pixels[:, 0] < WIDTH // 2
    assert 0 < left.sum() < len(left) and set(after.ids) == set(before.ids[left])


def test_bad_masks(tmp_path):
    root = colmap(tmp_path)
    write_mask(root / "masks/photo_0.png", size=(WIDTH, 2 * HEIGHT))
    with pytest.raises(ValueError, match=r"photo_0.png.*another shape than its photo's 24×16"):
        scenes.load(root)
    (root / "masks/photo_0.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"photo_0.png: not a picture"):
        scenes.load(root)


def test_filling_in_continues_what_is_around():
    rows, columns = np.mgrid[:40, :61] / 60
    image = np.stack([rows, columns, 0.5 + 0 * rows], axis=-1).astype(np.float32)
    mask = np.ones((40, 61), bool)
    mask[10:30, 20:45] = False
    spoilt = np.where(mask[..., None], image, 7.0).astype(np.float32)
    filled = fill_in(spoilt, mask)
    assert (filled[mask] == image[mask]).all() and np.abs(filled - image).max() < 0.15
    assert (fill_in(image, ~np.ones_like(mask)) == 0.5).all()


@pytest.mark.parametrize("size", [(24, 17), (60, 40), (13, 9), (100, 77)])
def test_resized_masks_count_only_what_no_hidden_pixel_changes(size):
    mask = np.ones((40, 60), bool)
    mask[11:14, 20:31] = False
    photo = np.full((40, 60, 3), 0.5, np.float32)
    spoilt = np.where(mask[..., None], photo, 0.0).astype(np.float32)
    counts = resize(mask, *size)
    off = np.abs(resize(spoilt, *size) - 0.5).max(-1)
    assert off[counts].max() < 0.15 * off.max() and 0.5 < counts.mean() < 1
