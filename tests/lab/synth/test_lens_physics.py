"""The thin-lens maker against physics: blur radius, planar depth, planar focus, projection."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mitsuba", reason="needs Mitsuba: pip install 'dofnerf[synth]'")

from dofnerf.camera import Camera
from dofnerf.lab.synth.geometry import Mesh, rectangle, sphere
from dofnerf.lab.synth.layout import Material, Part, look_at
from dofnerf.lab.synth.raytrace import RayTracer

SIZE = (96, 64)
BLACK = np.zeros((4, 8, 3))


def front_camera() -> Camera:
    """At the origin, looking along −z: depth is −z."""
    return look_at(np.zeros(3), np.array([0.0, 0.0, -1.0]), 0.0, 53.0, SIZE)


def tracer(*meshes: Mesh) -> RayTracer:
    return RayTracer([Part(mesh, Material((50.0, 50.0, 50.0), "light")) for mesh in meshes], BLACK, "scalar_rgb")


def moments(image: np.ndarray) -> tuple[np.ndarray, float]:
    """Centroid in pixels (column, row), and the variance per axis in square pixels, of the light in `image` (H, W,
    3)."""
    light = image.mean(axis=-1).astype(float)
    light /= light.sum()
    rows, columns = np.mgrid[0 : light.shape[0], 0 : light.shape[1]] + 0.5
    centre = np.array([(light * columns).sum(), (light * rows).sum()])
    spread = (light * ((columns - centre[0]) ** 2 + (rows - centre[1]) ** 2)).sum() / 2.0
    return centre, float(spread)


# In front of and behind the focal plane, on and off the axis (x/depth, y/depth).
@pytest.mark.parametrize(
    ("depth", "focus", "where"),
    [
        (1.3, 2.0, (0.0, 0.0)),
        (1.6, 6.0, (0.22, -0.12)),
        (3.0, 1.9, (0.0, 0.0)),
        (7.5, 1.9, (-0.22, 0.1)),
        (7.5, 4.0, (0.2, 0.1)),
    ],
)
def test_blur_of_a_point_is_the_lens_formula(depth: float, focus: float, where: tuple[float, float]) -> None:
    camera, radius = front_camera(), 0.12
    ball = sphere(0.012 * depth, 16).placed(where[0] * depth, where[1] * depth, -depth)
    scene = tracer(ball)
    _, blurred = moments(scene.photo(camera, (radius, focus), 256, 1))
    _, unblurred = moments(scene.photo(camera, None, 64, 1))
    measured = 2.0 * np.sqrt(max(blurred - unblurred, 0.0))  # a disc of radius r has variance r²/4 per axis
    expected = camera.fx * radius * abs(1.0 / focus - 1.0 / depth)
    assert measured == pytest.approx(expected, abs=0.3)
    assert expected > 1.0


def test_focus_is_on_a_plane_not_on_a_sphere() -> None:
    camera, depth = front_camera(), 3.0
    corner = sphere(0.03, 12).placed(0.4 * depth, 0.25 * depth, -depth)
    scene = tracer(corner)
    _, focused = moments(scene.photo(camera, (0.3, depth), 64, 1))
    _, sharp = moments(scene.photo(camera, None, 64, 1))
    assert 2.0 * np.sqrt(max(focused - sharp, 0.0)) < 0.3


def test_depth_is_planar_not_along_the_ray() -> None:
    depth = tracer(rectangle(20.0, 20.0).placed(y=-10.0, z=-4.0)).depth(front_camera())
    assert depth.shape == SIZE[::-1]
    assert np.abs(depth - 4.0).max() < 1e-4


def test_depth_of_nothing_is_infinite() -> None:
    assert np.isinf(tracer(sphere(0.1).placed(z=-3.0)).depth(front_camera())[0, 0])


@pytest.mark.parametrize("lens", [None, (0.1, 2.0)])
def test_a_known_point_is_seen_where_it_projects(lens: tuple[float, float] | None) -> None:
    camera = look_at(np.array([0.4, 0.7, 0.2]), np.array([-0.1, 0.2, -3.0]), 0.1, 50.0, SIZE)
    point = np.array([0.5, 0.4, -2.8])
    image = tracer(sphere(0.04, 12).placed(*point)).photo(camera, lens, 128, 3)
    pixels, _ = camera.project(point[None])
    seen, _ = moments(image)
    assert np.abs(seen - pixels[0]).max() < 0.15


def test_depth_and_pose_agree_between_views() -> None:
    ball = sphere(0.5, 64).placed(z=-3.0)
    one, other = front_camera(), look_at(np.array([0.8, 0.3, 0.1]), np.array([0.0, 0.0, -3.0]), 0.05, 53.0, SIZE)
    scene = tracer(ball)
    depth = scene.depth(one)
    rows, columns = np.nonzero(np.isfinite(depth))
    points = one.unproject(np.stack([columns, rows], axis=-1) + 0.5, depth[rows, columns])
    assert np.abs(np.linalg.norm(points - [0, 0, -3.0], axis=1) - 0.5).max() < 0.01
    pixels, expected = other.project(points)
    inward = (points - other.position) / np.linalg.norm(points - other.position, axis=1, keepdims=True)
    facing = -(inward * (points - [0, 0, -3.0])).sum(axis=1) / 0.5 > 0.6
    index = np.floor(pixels[facing]).astype(int)
    # Half a pixel aside on a surface turned away by 53° changes depth by about 0.03.
    assert np.abs(scene.depth(other)[index[:, 1], index[:, 0]] - expected[facing]).max() < 0.05


def test_a_near_object_hides_a_far_light() -> None:
    wall = Part(rectangle(0.8, 2.0).placed(x=-0.4, y=-1.0, z=-2.0), Material((0.0, 0.0, 0.0)))
    lamp = Part(rectangle(6.0, 6.0).placed(y=-3.0, z=-5.0), Material((0.5, 0.5, 0.5), "light"))
    image = RayTracer([wall, lamp], BLACK, "scalar_rgb").photo(front_camera(), (0.05, 2.0), 16, 0)
    assert image[32, 30].max() < 1e-3
    assert image[32, 70].min() == pytest.approx(0.5, abs=1e-3)
