"""Checks of what a command is about to write, made before the work starts; they live where every part can use them."""

from dofnerf.pictures.outputs import check_file, check_folder

__all__ = ["check_file", "check_folder"]
