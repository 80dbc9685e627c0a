"""A folder of photos, or a video, → a scene: poses by pycolmap, EXIF, undistorted photos, sparse points.

scene = capture("photos", "scene")          # dofnerf capture photos --out scene
"""

from dofnerf.capture.pipeline import CaptureOptions, capture

__all__ = ["CaptureOptions", "capture"]
