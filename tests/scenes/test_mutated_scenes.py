"""Scenes with random damage: each loads, or fails with one line; nothing beside the scene is ever opened."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_scenes as small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dofnerf import scenes

opened: set[str] = set()
watching: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and event == "open" and isinstance(arguments[0], str | bytes | Path):
        name = arguments[0]
        path = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        if watching[0] in path:
            opened.add(path)


sys.addaudithook(_watch)
hammer = settings(
    max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)

damage = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), st.floats(0, 1), st.just(0)),
        st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
        st.tuples(st.just("run"), st.floats(0, 1), st.sampled_from([0, 0x7F, 0x80, 0xFF])),
        st.tuples(st.just("insert"), st.floats(0, 1), st.integers(0, 255)),
    ),
    min_size=1,
    max_size=3,
)


def damaged(data: bytes, changes: list[tuple[str, float, int]]) -> bytes:
    result = bytearray(data)
    for kind, place, value in changes:
        at = int(place * max(len(result) - 1, 0))
        if kind == "cut":
            del result[at:]
        elif kind == "flip" and result:
            result[at] ^= value
        elif kind == "run":
            result[at : at + 8] = bytes([value] * 8)
        elif kind == "insert":
            result[at:at] = bytes([value])
    return bytes(result)


def hammered(root: Path) -> None:
    """Read all of a scene; only one-line ValueError and OSError may come out, and no secret in."""
    opened.clear()
    watching[:] = ["secret-place"]
    try:
        scene = scenes.load(root, mix="photo")
        for i in range(len(scene)):
            scene.photo(i)
            scene.visible(i)
            scene.depth(i)
        assert len(scenes.describe(scene)) > 10
    except (ValueError, OSError) as error:
        assert type(error) is not UnicodeDecodeError
        assert len(str(error).splitlines()) == 1, str(error)
    finally:
        watching.clear()
    assert not opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for the scene, with secrets beside it."""
    small.picture(tmp_path / "secret-place/photo.png", 0.5)
    (tmp_path / "secret-place/points.ply").write_bytes(b"ply\n")
    (tmp_path / "scene").mkdir()
    return tmp_path / "scene"


def hammer_file(root: Path, name: str) -> None:
    """Damage one file of a scene in many ways; the rest stays whole."""
    whole = (root / name).read_bytes()

    @hammer
    @given(changes=damage)
    def one(changes: list) -> None:
        (root / name).write_bytes(damaged(whole, changes))
        hammered(root)

    one()


@pytest.mark.parametrize("name", ["poses_bounds.npy", "images/photo_1.png"])
def test_llff(place: Path, name: str) -> None:
    hammer_file(small.llff(place), name)


def test_triplets(place: Path) -> None:
    hammer_file(small.triplets(place), "poses_bounds.npy")


@pytest.mark.parametrize("name", ["cameras", "images", "points3D"])
@pytest.mark.parametrize("text", [False, True])
def test_colmap(place: Path, name: str, text: bool) -> None:
    hammer_file(small.colmap(place, text=text), f"sparse/0/{name}.{'txt' if text else 'bin'}")


def test_lightfield(place: Path) -> None:
    hammer_file(small.lightfield(place, count=3), "manifest.json")


@pytest.mark.parametrize("name", ["transforms.json", "points.ply", "visible/photo_1.npy", "depth/photo_1.npy"])
def test_transforms_bytes(place: Path, name: str) -> None:
    hammer_file(small.complete(place), name)


odd_numbers = st.sampled_from([0, -1, 1e308, -1e308, 10**400, 1e-300, 2**63, float("nan"), float("inf"), True])
odd_paths = [
    "../secret-place/photo.png",
    "../secret-place/points.ply",
    "images/../../secret-place/photo",
    "..",
    ".",
    "a\0b",
    "a\nb",
]
odd_paths += ["images", "~", "//", "C:\\x", "x" * 300, "\udc80", "points.ply", "images/photo_0.png"]
odd_values = st.one_of(
    odd_numbers,
    st.sampled_from(odd_paths),
    st.none(),
    st.recursive(st.one_of(odd_numbers, st.text(max_size=5)), lambda inner: st.lists(inner, max_size=3), max_leaves=6),
    st.dictionaries(st.sampled_from(["aperture", "focus_depth", "frames", "file_path"]), odd_numbers, max_size=3),
)


def test_transforms_values(place: Path) -> None:
    root = small.complete(place)
    whole = (root / "transforms.json").read_text()

    @settings(hammer, max_examples=250)
    @given(edits=st.lists(st.tuples(st.integers(0, 10**6), odd_values), min_size=1, max_size=3))
    def one(edits: list) -> None:
        data = json.loads(whole)
        for which, value in edits:
            spots = list(_spots(data))
            holder, key = spots[which % len(spots)]
            holder[key] = value
        (root / "transforms.json").write_text(json.dumps(data))
        hammered(root)

    one()


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from _spots(inner)
