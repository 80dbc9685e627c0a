"""Cameras around the painted world, and photos as cameras write them."""

import numpy as np
from PIL import Image

from dofnerf.camera import Camera
from dofnerf.files.pictures import to_bytes

WIDTH, HEIGHT, FOCAL, COUNT = 240, 180, 225.0, 6


def place(i):
    """The true camera of photo i."""
    x, y, turn = 0.6 * np.sin(i), 0.4 * np.cos(1.7 * i), 0.12 * np.sin(2.1 * i)
    turned = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    pose = np.concatenate([turned, [[x], [y], [0.1 * i]]], axis=1)
    return Camera(pose, FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)


def save_photo(path, image, f_number=None, orientation=1, **tags):
    """As a camera would: JPEG with EXIF, stored turned if `orientation` (EXIF's 6 or 8) says so."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    if f_number is not None:
        exif[0x010F], exif[0x0110] = "Maker", "Model 1"
        inner = exif.get_ifd(0x8769)
        inner[0x829D], inner[0x920A], inner[0xA405], inner[0x9206] = f_number, 35.0, tags.get("equivalent", 34), 3.5
    turn = {1: None, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}[orientation]
    picture = Image.fromarray(to_bytes(image))
    (picture if turn is None else picture.transpose(turn)).save(path, exif=exif, quality=97, subsampling=0)
