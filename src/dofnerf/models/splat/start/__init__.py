"""Where splats begin: `starting_points(scene, count)` → points, colours, sizes, and where they come from."""

from dofnerf.models.splat.start.starting import Start, starting_points

__all__ = ["Start", "starting_points"]
