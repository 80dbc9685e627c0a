"""Photos of a painted world from known places, and the scene that a capture makes of them, once for all tests."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from small_photos import COUNT, place, save_photo

from dofnerf.capture import CaptureOptions, capture
from painted import paint

HOLE = np.s_[60:110, 90:150]


@pytest.fixture(scope="session")
def pictures():
    """What the cameras see, (H, W, 3) each."""
    return [paint(place(i)) for i in range(COUNT)]


@pytest.fixture(scope="session")
def captured(pictures, tmp_path_factory):
    """A folder of photos with one bad file, one double and one RAW file beside its JPEG, and what became of it."""
    if importlib.util.find_spec("pycolmap") is None:  # not imported here: it must not share a process with Pillow
        pytest.skip("needs pycolmap: pip install 'dofnerf[capture]'")
    root = tmp_path_factory.mktemp("captured")
    photos = root / "photos"
    photos.mkdir()
    (photos / "masks").mkdir()
    for i, picture in enumerate(pictures):
        if i == 3:  # somebody walks past, and is masked
            picture = picture.copy()
            picture[HOLE] = np.random.default_rng(0).random(picture[HOLE].shape)
            mask = np.full(picture.shape[:2], 255, np.uint8)
            mask[HOLE] = 0
            Image.fromarray(mask).save(photos / "masks" / "IMG 3.jpg.png")
        save_photo(photos / f"IMG {i}.jpg", picture, f_number=1.8 if i < 4 else 4.0, orientation=8 if i == 2 else 1)
    save_photo(photos / "IMG 1 copy.jpg", pictures[1], f_number=1.8)
    (photos / "IMG 7.jpg").write_bytes((photos / "IMG 0.jpg").read_bytes()[:4000])
    (photos / "IMG 0.CR2").write_bytes(b"RAW")
    (photos / "notes.txt").write_text("not a photo")
    options = CaptureOptions(scale_by="IMG 0.jpg,IMG 3.jpg,1.5", keep_work=True, hold_every=0)
    scene = capture(photos, root / "scene", options)
    return SimpleNamespace(photos=photos, out=root / "scene", scene=scene, options=options)
