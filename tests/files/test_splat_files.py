"""Splats as .ply: what others write is read, what we write others read, and bad files give one line."""

import struct

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dofnerf.files.ply import Drawing, Splats, read_drawing, read_ply, read_splats, write_splats

NAMES = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", *(f"f_rest_{i}" for i in range(9)), "opacity",
         "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]  # fmt: skip
VALUES = {name: float(i + 1) for i, name in enumerate(NAMES)} | {"rot_0": 1.0, "rot_1": 0.0, "rot_2": 0.0, "rot_3": 0.0}


def by_hand(path, names=NAMES, kind="float", form="binary_little_endian", values=VALUES, count=2, claimed=None):
    """A file as other tools write it, made without the code under test."""
    lines = ["ply", f"format {form} 1.0", "comment by hand", f"element vertex {count if claimed is None else claimed}"]
    header = "\n".join([*lines, *(f"property {kind} {name}" for name in names), "end_header\n"]).encode()
    row = [values.get(name, 7.0) for name in names]
    if form == "ascii":
        body = (" ".join(str(value) for value in row) + "\n").encode()
    else:
        body = struct.pack(("<" if "little" in form else ">") + ("d" if kind == "double" else "f") * len(row), *row)
    path.write_bytes(header + body * count)
    return path


@pytest.mark.parametrize("form", ["binary_little_endian", "binary_big_endian", "ascii"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_files_of_other_tools(tmp_path, form, kind):
    shuffled = [*NAMES[::-1], "confidence"]
    splats = read_splats(by_hand(tmp_path / "a.ply", shuffled, kind, form))
    assert len(splats) == 2 and splats.degree == 1
    np.testing.assert_array_equal(splats.means[1], [1, 2, 3])
    np.testing.assert_array_equal(splats.harmonics[0, 0], [7, 8, 9])
    # f_rest runs channel by channel: the first three are red's.
    np.testing.assert_array_equal(splats.harmonics[0, 1:], np.arange(10, 19).reshape(3, 3).T)
    np.testing.assert_array_equal(splats.log_scales[0], [20, 21, 22])
    assert splats.opacities[0] == 19
    np.testing.assert_array_equal(splats.rotations[0], [1, 0, 0, 0])


def test_layout_that_viewers_read(tmp_path):
    """Byte for byte the file that is made by hand."""
    theirs = by_hand(tmp_path / "theirs.ply", values=VALUES | {"nx": 0.0, "ny": 0.0, "nz": 0.0})
    write_splats(tmp_path / "ours.ply", read_splats(theirs))
    assert (tmp_path / "ours.ply").read_bytes() == theirs.read_bytes().replace(b"comment by hand\n", b"")


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 5), st.sampled_from([1, 4, 9, 16]))
def test_roundtrip(tmp_path_factory, data, count, bases):
    numbers = st.floats(-1e6, 1e6, width=32)

    def draw(*shape):
        return data.draw(arrays.arrays(np.float32, shape, elements=numbers))

    rotations = draw(count, 4) + np.float32([1e7, 0, 0, 0])
    rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
    splats = Splats(draw(count, 3), draw(count, 3), rotations, draw(count), draw(count, bases, 3))
    path = tmp_path_factory.mktemp("splats") / "a.ply"
    write_splats(path, splats)
    again = read_splats(path)
    for name in ("means", "log_scales", "opacities", "harmonics"):
        np.testing.assert_array_equal(getattr(again, name), getattr(splats, name))
    np.testing.assert_allclose(again.rotations, splats.rotations, atol=1e-6)
    np.testing.assert_array_equal(read_ply(path).xyz, splats.means)  # also a cloud of points


def without(name):
    return [other for other in NAMES if other != name]


BAD = {
    "does not begin with 'ply'": lambda p: p.write_bytes(b"PNG"),
    "header has no end": lambda p: p.write_bytes(b"ply\nformat ascii 1.0\n"),
    "truncated": lambda p: by_hand(p, claimed=3),
    "truncated ": lambda p: by_hand(p, claimed=10**15),
    "it is truncated": lambda p: by_hand(p, form="ascii", claimed=3),
    "opacity is missing": lambda p: by_hand(p, without("opacity")),
    "f_dc_1 is missing": lambda p: by_hand(p, without("f_dc_1")),
    "points, not splats": lambda p: by_hand(p, ["x", "y", "z", "red"]),
    "8 properties f_rest_*": lambda p: by_hand(p, without("f_rest_3")),
    "splat 0: scale_1 is nan": lambda p: by_hand(p, values=VALUES | {"scale_1": float("nan")}),
    "splat 0: x is inf": lambda p: by_hand(p, values=VALUES | {"x": 1e300}, kind="double"),
    "rotation is zero": lambda p: by_hand(p, values=VALUES | {"rot_0": 0.0}),
    "holds no splats": lambda p: by_hand(p, count=0),
    "type list": lambda p: p.write_bytes(by_hand(p).read_bytes().replace(b"float nx", b"list uchar int nx")),
    "format binary is not known": lambda p: p.write_bytes(
        by_hand(p).read_bytes().replace(b"binary_little_endian", b"binary")
    ),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_files_give_one_line(tmp_path, words):
    path = tmp_path / "bad.ply"
    BAD[words](path)
    with pytest.raises(ValueError, match=words.strip().replace("*", r"\*")) as caught:
        read_splats(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_nothing_bad_is_written(tmp_path):
    good = read_splats(by_hand(tmp_path / "a.ply"))
    before = (tmp_path / "a.ply").read_bytes()
    with pytest.raises(ValueError, match="NaN"):
        write_splats(tmp_path / "a.ply", Splats(good.means * np.nan, *list(vars(good).values())[1:]))
    with pytest.raises(ValueError, match="no splats"):
        write_splats(tmp_path / "a.ply", Splats(*(values[:0] for values in vars(good).values())))
    assert (tmp_path / "a.ply").read_bytes() == before
    with pytest.raises(ValueError, match="harmonics has shape"):
        Splats(*list(vars(good).values())[:4], good.harmonics[:, :3])


def test_how_to_draw_them_is_a_comment_that_comes_back(tmp_path):
    good, path = read_splats(by_hand(tmp_path / "a.ply")), tmp_path / "b.ply"
    assert read_drawing(tmp_path / "a.ply") is None
    write_splats(path, good, Drawing("light", (0.25, 0.5, 1.0), (0.0, 0.6, -0.8)))
    assert read_drawing(path) == Drawing("light", (0.25, 0.5, 1.0), (0.0, 0.6, -0.8))
    np.testing.assert_array_equal(read_splats(path).means, good.means)
    for wrong in (b"blend=fog", b"background=0.25,0.5,nan", b"up=0,0,0"):
        part = wrong.split(b"=")[0] + b"="
        words = path.read_bytes()
        start = words.index(part)
        end = min(words.index(stop, start) for stop in (b" ", b"\n") if stop in words[start:])
        (tmp_path / "c.ply").write_bytes(words[:start] + wrong + words[end:])
        with pytest.raises(ValueError, match="does not say how to draw it"):
            read_drawing(tmp_path / "c.ply")
