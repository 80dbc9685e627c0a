"""A plug-in: scenes as cameras.csv, a line a photo: its file, focal length in pixels, near, far, camera-to-world (3 ×
4)."""

import csv
from pathlib import Path

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files import image_size
from dofnerf.files.guard import bounds, inside, number, pose
from dofnerf.scenes import Found, Frame, PictureFile, ReadOptions
from dofnerf.scenes.formats import register


@register
class Csv:
    name = "csv"

    def detects(self, path: Path) -> bool:
        return (path / "cameras.csv").is_file()

    def read(self, path: Path, options: ReadOptions) -> Found:
        with open(inside(path, "cameras.csv", str(path)), encoding="utf-8") as file:
            frames = [self.frame(path, line, f"cameras.csv: line {i}") for i, line in enumerate(csv.reader(file), 1)]
        return Found(path.resolve().name, "CSV", frames)

    def frame(self, root: Path, line: list[str], where: str) -> Frame:
        photo = inside(root, line[0], where)  # refuses what lies outside the scene's folder
        focal, near, far, *matrix = (number(float(word), where) for word in line[1:])
        width, height = image_size(photo)
        to_world = pose(np.array(matrix).reshape(3, 4), where)
        camera = Camera(to_world, focal, focal, width / 2, height / 2, width, height)
        return Frame(line[0], camera, PictureFile(photo, width, height), bounds=bounds(near, far, where))
