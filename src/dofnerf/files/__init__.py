"""Pictures, depth maps, videos and .ply on disk. Bad files raise ValueError or OSError with one line that names the
file."""

from dofnerf.files.outputs import atomic, write_json
from dofnerf.files.pictures import (
    contact_sheet,
    has_more_than_8_bits,
    image_size,
    is_linear,
    read_image,
    read_map,
    write_deep_png,
    write_exr,
    write_image,
    write_map,
)  # fmt: skip
from dofnerf.files.video import write_video

__all__ = [
    "atomic", "contact_sheet", "has_more_than_8_bits", "image_size", "is_linear", "read_image", "read_map",
    "write_deep_png", "write_exr", "write_image", "write_json", "write_map", "write_video",
]  # fmt: skip
