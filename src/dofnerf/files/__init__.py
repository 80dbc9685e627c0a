"""Pictures, depth maps and videos on disk. Bad files raise ValueError or OSError with one line that names the file."""

from dofnerf.files.deep_png import write_deep_png
from dofnerf.files.pictures import (
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
from dofnerf.files.sheet import contact_sheet
from dofnerf.files.video import write_video

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
