"""Pictures, depth maps and videos on disk. Bad files raise ValueError or OSError with one line that names the file."""

from dofnerf.pictures.deep_png import write_deep_png
from dofnerf.pictures.files import (
    atomic,
    image_size,
    is_linear,
    read_image,
    read_map,
    write_exr,
    write_image,
    write_json,
    write_map,
)
from dofnerf.pictures.sheet import contact_sheet
from dofnerf.pictures.video import write_video

__all__ = [
    "atomic",
    "contact_sheet",
    "image_size",
    "is_linear",
    "read_image",
    "read_map",
    "write_deep_png",
    "write_exr",
    "write_image",
    "write_json",
    "write_map",
    "write_video",
]
