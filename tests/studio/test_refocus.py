"""`dofnerf refocus` end to end, on small pictures whose answer is known, and on every bad input we could think of."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from looks import printed, sharpness
from PIL import Image

from dofnerf.cli import main
from dofnerf.files import read_image, write_exr, write_image, write_map
from dofnerf.studio import monocular
from dofnerf.studio.flags import AUTOMATIC_BLUR
from dofnerf.studio.refocus import sweep_focuses

WIDTH, HEIGHT = 96, 64
NEAR, FAR = 1.0, 4.0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A noisy picture, near on the left and far on the right, with its depth in every format."""
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(0).uniform(0.1, 0.9, (HEIGHT, WIDTH, 3)).astype(np.float32)
    depth = np.full((HEIGHT, WIDTH), NEAR, np.float32)
    depth[:, WIDTH // 2 :] = FAR
    write_image("photo.png", noise)
    write_image("photo.exr", noise**2.2)
    write_map("depth.npy", depth)
    write_map("depth.exr", depth)
    write_map("disparity.npy", 1 / depth)
    Image.fromarray((depth * 1000).astype(np.uint16)).save("depth.png")
    Image.fromarray(np.round(255 / depth / 2).astype(np.uint8)).save("disparity.png")
    return tmp_path


@pytest.fixture
def refocus(folder, capfd):
    """Runs the command with these arguments in the folder → what it printed."""

    def run(*arguments) -> str:
        return printed(capfd, "refocus", *arguments)

    return run


def pixels(path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(float)


def halves(image: np.ndarray) -> tuple[float, float]:
    """Sharpness of the near and of the far half, away from the depth edge and the border."""
    return sharpness(image[12:-12, 12:36]), sharpness(image[12:-12, 60:84])


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("at", ["20,30", "70,30"])
def test_what_is_focused_at_is_sharp_and_the_rest_is_not(refocus, at, layers):
    words = refocus("photo.png", "depth.npy", "--aperture", 8, "--focus-at", at, "--layers", layers, "--out", "out.png")
    before, after = halves(pixels("photo.png")), halves(pixels("out.png"))
    focused, other = (0, 1) if at == "20,30" else (1, 0)
    assert after[focused] > 0.98 * before[focused]
    assert after[other] < 0.1 * before[other]
    assert f"focus    {NEAR if focused == 0 else FAR:g} (at pixel {at})" in words
    assert "aperture 8 px × scene units (the paper's K = 16), as given" in words
    assert "blur     up to 6 px in radius" in words  # 8 · (1/1 − 1/4)
    assert "wrote    out.png" in words


def test_the_blur_is_a_disc_of_the_radius_that_it_says(refocus):
    """One white pixel on black, with linear light and a unit kernel, spreads evenly over πr² pixels."""
    point = np.zeros((65, 65, 3), np.float32)
    point[32, 32] = 1
    write_exr("point.exr", dict.fromkeys("RGB", point[..., 0]))
    write_map("flat.npy", np.full((65, 65), 2.0))
    words = refocus(
        "point.exr", "flat.npy", "--aperture", 20, "--focus", "inf", "--norm", "unit", "--out", "spread.exr"
    )
    assert "focus    infinity (as given)" in words
    spread = read_image("spread.exr")[..., 0]
    assert spread.sum() == pytest.approx(1, abs=1e-3)
    radius = np.hypot(*np.mgrid[-32:33, -32:33])
    np.testing.assert_allclose(spread[radius < 9], 1 / (np.pi * 10**2), rtol=0.02)
    assert np.abs(spread[radius > 11.01]).max() < 1e-7


@pytest.mark.parametrize("layers", [1, 3])
def test_a_closed_aperture_changes_no_byte(refocus, layers):
    refocus("photo.png", "depth.npy", "--aperture", 0, "--layers", layers, "--out", "out.png")
    np.testing.assert_array_equal(pixels("out.png"), pixels("photo.png"))
    refocus("photo.exr", "depth.npy", "--aperture", 0, "--layers", layers, "--out", "out.exr")
    np.testing.assert_array_equal(read_image("out.exr"), read_image("photo.exr"))


@pytest.mark.parametrize(
    "same",
    [
        ["depth.exr"],
        ["depth.png"],
        ["disparity.npy", "--depth-kind", "disparity"],
        ["depth.png", "--depth-scale", "0.001"],
        ["disparity.png", "--depth-kind", "disparity", "--depth-scale", str(2 / 255)],
    ],
)
def test_every_way_to_give_the_depth_gives_the_same(refocus, same):
    lens = ["--aperture", 8, "--focus", 4]
    refocus("photo.png", "depth.npy", *lens, "--out", "expected.png")
    refocus("photo.png", *same, *lens, "--out", "out.png")
    # 8-bit disparity is off by up to half a step: 0.05 pixels of blur.
    assert np.abs(pixels("out.png") - pixels("expected.png")).max() <= (3 if "disparity.png" in same else 0)


def test_png_disparity_runs_from_0_to_1(refocus):
    """128/255 and 32/255, unless a scale is given."""
    words = refocus("photo.png", "disparity.png", "--depth-kind", "disparity", "--aperture", 8, "--out", "out.png")
    assert "depth 1.992 to 7.969" in words


def test_f_stop_by_hand(refocus):
    """50 mm at f/2: the lens is 12.5 mm in radius. On 36 mm, f is 96 · 50/36 = 133.3 px; × 0.0125 m = 1.6667 px·m."""
    words = refocus("photo.png", "depth.npy", "--fstop", 2, "--focal-length", 50, "--focus", 1, "--out", "out.png")
    assert "aperture 1.667 px × scene units (the paper's K = 3.333), f/2 at 50 mm on a sensor 36 mm wide" in words
    assert "up to 1.25 px" in words
    refocus("photo.png", "depth.npy", "--aperture", 5 / 3, "--focus", 1, "--out", "same.png")
    np.testing.assert_array_equal(pixels("out.png"), pixels("same.png"))
    words = refocus(
        "photo.png",
        "depth.npy",
        "--fstop",
        2,
        "--focal-length",
        50,
        "--sensor-width",
        18,
        "--focus",
        1,
        "--out",
        "out.png",
    )
    assert "aperture 3.333" in words


def test_the_automatic_aperture_blurs_by_a_share_of_the_width(refocus):
    words = refocus("photo.png", "depth.npy", "--focus", 1)
    assert f"up to {AUTOMATIC_BLUR * WIDTH:.3g} px" in words
    assert "chosen automatically" in words
    assert "wrote    photo-refocused.png" in words
    assert os.path.exists("photo-refocused.png")


class Guess:
    """Stands in for a network: the left is nearer than the right."""

    gives_depth = False

    def __init__(self, name):
        assert name == "depth-anything/Depth-Anything-V2-Small-hf"

    def disparity(self, image):
        assert image.shape == (HEIGHT, WIDTH, 3) and image.max() <= 1
        return np.where(np.arange(WIDTH) < WIDTH // 2, 7.0, 3.0) * np.ones((HEIGHT, 1))


def test_a_network_guesses_depth(refocus, monkeypatch):
    monkeypatch.setattr(monocular, "MonocularNetwork", Guess)
    words = refocus("photo.png", "--depth", "network", "--aperture", 8, "--focus-at", "20,30", "--out", "out.png")
    assert "by the network depth-anything/" in words and "depth 1 to infinity" in words and "8 layers" in words
    before, after = halves(pixels("photo.png")), halves(pixels("out.png"))
    assert after[0] > 0.98 * before[0] and after[1] < 0.1 * before[1]
    refocus("photo.exr", "--depth", "network", "--aperture", 8, "--focus-at", "20,30", "--out", "out.exr")
    np.testing.assert_allclose(read_image("out.exr").clip(0, 1) ** (1 / 2.2) * 255, pixels("out.png"), atol=2)
    monkeypatch.setattr(Guess, "gives_depth", True)
    words = refocus("photo.png", "--depth", "network", "--fstop", 2, "--focal-length", 50, "--out", "out.png")
    assert "depth 0.1429 to 0.3333" in words and "1 scene unit = 1 m" in words


def test_without_transformers_a_network_is_one_line(folder, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["refocus", "photo.png", "--depth", "network"]) == 2
    err = capfd.readouterr().err
    assert "transformers" in err and "pip install 'dofnerf[depth]'" in err and err.count("\n") == 1


def test_without_focus_it_is_the_middle(refocus):
    depth = np.full((HEIGHT, WIDTH), 9.0)
    depth[20:44, 30:66] = 3
    write_map("middle.npy", depth)
    assert "focus    3 (in the middle of the picture)" in refocus("photo.png", "middle.npy")


def test_focus_at_takes_the_median_around_the_pixel(refocus):
    depth = np.load("depth.npy")
    depth[30, 20] = 77
    np.save("stray.npy", depth)
    assert "focus    1 (at pixel 20,30)" in refocus("photo.png", "stray.npy", "--focus-at", "20,30")


@pytest.mark.parametrize("hole", [0.0, np.nan, -1.0])
def test_holes_can_be_far(refocus, hole):
    depth = np.load("depth.npy")
    sky = depth.copy()
    depth[:8] = hole
    sky[:8] = np.inf
    np.save("holes.npy", depth)
    np.save("sky.npy", sky)
    lens = ["--aperture", 6, "--focus", 1, "--out"]
    refocus("photo.png", "holes.npy", "--holes", "far", *lens, "holes.png")
    refocus("photo.png", "sky.npy", *lens, "sky.png")
    np.testing.assert_array_equal(pixels("holes.png"), pixels("sky.png"))


def test_a_flat_picture_in_focus_stays_as_it_is(refocus):
    np.save("flat.npy", np.full((HEIGHT, WIDTH), 2.0))
    assert "aperture 0 px" in refocus("photo.png", "flat.npy", "--out", "out.png")
    np.testing.assert_array_equal(pixels("out.png"), pixels("photo.png"))


@pytest.mark.parametrize(
    ("layers", "rounding"), [(1, 1), (8, 2)]
)  # taking mixed pixels apart amplifies a PNG's rounding
def test_linear_and_display_pictures_agree(refocus, layers, rounding):
    lens = ["--aperture", 8, "--focus", 1, "--layers", layers, "--out"]
    refocus("photo.png", "depth.npy", *lens, "display.png")
    refocus("photo.exr", "depth.npy", *lens, "from-linear.png")
    refocus("photo.png", "depth.npy", *lens, "linear.exr")
    assert np.abs(pixels("display.png") - pixels("from-linear.png")).max() <= rounding
    np.testing.assert_allclose(255 * read_image("linear.exr") ** (1 / 2.2), pixels("display.png"), atol=0.51)


def test_blades_rotation_norm_and_light_change_the_picture(refocus):
    lens = ["--aperture", 8, "--focus", 1, "--out"]
    refocus("photo.png", "depth.npy", *lens, "plain.png")
    seen = [pixels("plain.png")]
    for flags in (
        ["--blades", 5],
        ["--blades", 5, "--rotation", 36],
        ["--light", "srgb"],
        ["--light", 1],
        ["--norm", "unit"],
    ):
        refocus("photo.png", "depth.npy", *flags, *lens, "other.png")
        other = pixels("other.png")
        assert all((other != one).any() for one in seen), flags
        seen.append(other)
    refocus("photo.png", "depth.npy", "--blades", 5, "--rotation", 72, *lens, "turned.png")
    assert np.abs(pixels("turned.png") - seen[1]).max() <= 1  # a fifth of a turn is none


def test_gif_sweep_goes_there_and_back(refocus):
    words = refocus("photo.png", "depth.npy", "--aperture", 8, "--sweep", "rack.gif", "--frames", 8, "--fps", 10)
    assert "sweep    focus 1 to 4, 8 frames at 10 a second" in words
    assert sorted(os.listdir()).count("photo-refocused.png") == 0
    with Image.open("rack.gif") as gif:
        assert gif.n_frames == 8
        assert gif.info["duration"] == 100
        assert gif.info["loop"] == 0
        frames = []
        for i in range(8):
            gif.seek(i)
            frames.append(np.asarray(gif.convert("RGB")).astype(float))
    near, far = zip(*map(halves, frames), strict=True)
    assert np.argmax(near) == 0
    assert np.argmax(far) == 4
    for k in (1, 2, 3):
        np.testing.assert_array_equal(frames[k], frames[8 - k])


def test_mp4_sweep_plays_once_from_near_to_far(refocus):
    import imageio_ffmpeg

    refocus(
        "photo.png", "depth.npy", "--aperture", 8, "--sweep", "rack.mp4", "--frames", 7, "--fps", 12, "--out", "out.png"
    )
    assert os.path.exists("out.png")
    reader = imageio_ffmpeg.read_frames("rack.mp4")
    facts = next(reader)
    assert facts["size"] == (WIDTH, HEIGHT)
    assert facts["fps"] == 12
    frames = [np.frombuffer(frame, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(float) for frame in reader]
    assert len(frames) == 7
    near, far = zip(*map(halves, frames), strict=True)
    assert np.argmax(near) == 0
    assert np.argmax(far) in (5, 6)  # the codec decides between two that are all but sharp


def test_a_sweep_eases():
    there = sweep_focuses(far=0.25, near=1.0, frames=9, loop=False)
    assert there[0] == 1.0
    assert there[-1] == pytest.approx(0.25)
    steps = -np.diff(there)
    assert (steps > 0).all()
    assert steps.argmax() in (3, 4)
    assert steps[0] < 0.5 * steps[3]
    assert steps[-1] < 0.5 * steps[4]


# Each: files to add, arguments after "refocus", and what the one line must name.
def _save(name, array):
    return lambda: np.save(name, array, allow_pickle=True)


def _cut(name, source, share=0.5):
    def make():
        with open(source, "rb") as file:
            data = file.read()
        with open(name, "wb") as file:
            file.write(data[: int(len(data) * share)])

    return make


def _write(name, data=b""):
    def make():
        with open(name, "wb") as file:
            file.write(data)

    return make


def _depth_with(value):
    depth = np.full((HEIGHT, WIDTH), 2.0)
    depth[5, 7] = value
    return _save("bad.npy", depth)


def _huge():
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999), }"
    return _write("bad.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


GOOD = ["photo.png", "depth.npy"]
BAD = {
    "missing picture": (None, ["nope.png", "depth.npy"], ["nope.png", "No such file"]),
    "missing depth": (None, ["photo.png", "nope.npy"], ["nope.npy", "No such file"]),
    "missing picture of two lines": (None, ["no\npe.png", "depth.npy"], ["no pe.png", "No such file"]),
    "missing depth of two lines": (None, ["photo.png", "no\npe.npy"], ["no pe.npy", "No such file"]),
    "missing exr": (None, ["photo.png", "nope.exr"], ["nope.exr", "No such file"]),
    "folder as picture": (lambda: os.mkdir("d.png"), ["d.png", "depth.npy"], ["d.png", "folder"]),
    "folder as depth": (lambda: os.mkdir("d.npy"), ["photo.png", "d.npy"], ["d.npy", "folder"]),
    "folder as exr": (lambda: os.mkdir("d.exr"), ["photo.png", "d.exr"], ["d.exr", "folder"]),
    "unknown picture type": (_write("photo.xyz"), ["photo.xyz", "depth.npy"], ["photo.xyz", ".xyz"]),
    "unknown depth type": (_write("depth.txt"), ["photo.png", "depth.txt"], ["depth.txt", ".txt"]),
    "no suffix": (_write("photo"), ["photo", "depth.npy"], ["photo", "(none)"]),
    "lossy depth": (_write("depth.jpg"), ["photo.png", "depth.jpg"], ["depth.jpg", ".jpg"]),
    "empty picture": (_write("bad.png"), ["bad.png", "depth.npy"], ["bad.png"]),
    "text as picture": (_write("bad.png", b"hello"), ["bad.png", "depth.npy"], ["bad.png"]),
    "empty npy": (_write("bad.npy"), ["photo.png", "bad.npy"], ["bad.npy"]),
    "text as exr": (_write("bad.exr", b"hello"), ["photo.png", "bad.exr"], ["bad.exr", "not an EXR"]),
    "truncated picture": (_cut("bad.png", "photo.png"), ["bad.png", "depth.npy"], ["bad.png", "truncated"]),
    "truncated exr picture": (_cut("bad.exr", "photo.exr"), ["bad.exr", "depth.npy"], ["bad.exr"]),
    "truncated png depth": (_cut("bad.png", "depth.png", 0.7), ["photo.png", "bad.png"], ["bad.png", "truncated"]),
    "truncated exr depth": (_cut("bad.exr", "depth.exr", 0.9), ["photo.png", "bad.exr"], ["bad.exr"]),
    "truncated exr header": (_cut("bad.exr", "depth.exr", 0.1), ["photo.png", "bad.exr"], ["bad.exr"]),
    "truncated npy": (_cut("bad.npy", "depth.npy"), ["photo.png", "bad.npy"], ["bad.npy"]),
    "absurd npy": (_huge(), ["photo.png", "bad.npy"], ["bad.npy"]),
    "pickled npy": (_save("bad.npy", np.array([{"a": 1}], object)), ["photo.png", "bad.npy"], ["bad.npy", "pickle"]),
    "words in npy": (_save("bad.npy", np.full((HEIGHT, WIDTH), "a")), ["photo.png", "bad.npy"], ["bad.npy", "numbers"]),
    "flat npy": (_save("bad.npy", np.ones(9)), ["photo.png", "bad.npy"], ["bad.npy", "(9,)"]),
    "four-dimensional npy": (_save("bad.npy", np.ones((2, 2, 2, 2))), ["photo.png", "bad.npy"], ["bad.npy",
    "(2, 2, 2, 2)"]),
    "colour depth": (None, ["photo.png", "photo.png"], ["photo.png", "colour"]),
    "colour npy": (_save("bad.npy", np.ones((HEIGHT, WIDTH, 3))), ["photo.png", "bad.npy"], ["bad.npy", "(64, 96, 3)"]),
    "another size": (_save("bad.npy", np.ones((32, 48))), ["photo.png", "bad.npy"], ["bad.npy", "48 × 32", "96 × 64"]),
    "turned": (_save("bad.npy", np.ones((WIDTH, HEIGHT))), ["photo.png", "bad.npy"], ["bad.npy", "64 × 96"]),
    "NaN depth": (_depth_with(np.nan), ["photo.png", "bad.npy"], ["bad.npy", "nan", "column 7, row 5", "--holes far"]),
    "zero depth": (_depth_with(0), ["photo.png", "bad.npy"], ["bad.npy", "found 0", "column 7, row 5", "--holes far"]),
    "negative depth": (_depth_with(-2), ["photo.png", "bad.npy"], ["bad.npy", "found -2", "column 7, row 5"]),
    "depth all zero": (
        _save("bad.npy", np.zeros((HEIGHT, WIDTH))), ["photo.png", "bad.npy", "--holes", "far"], ["bad.npy",
        "every other"],
    ),
    "negative disparity": (_depth_with(-2), ["photo.png", "bad.npy", "--depth-kind", "disparity"], ["bad.npy",
    "disparity"]),
    "infinite disparity": (_depth_with(np.inf), ["photo.png", "bad.npy", "--depth-kind", "disparity"], ["bad.npy",
    "inf"]),
    "NaN picture": (
        lambda: write_exr("bad.exr", {c: np.full((HEIGHT, WIDTH), np.nan) for c in "RGB"}),
        ["bad.exr", "depth.npy"], ["bad.exr", "NaN"],
    ),
    "depth next to nothing": (_depth_with(1e-9), ["photo.png", "bad.npy", "--aperture", "5"], ["aperture 5",
    "--depth-scale"]),
    "depth below floats": (_depth_with(1e-44), ["photo.png", "bad.npy"], ["bad.npy", "column 7, row 5"]),
    "depth above floats": (_depth_with(1e300), ["photo.png", "bad.npy"], ["bad.npy", "1e+300", "column 7, row 5"]),
    "huge disparity": (_depth_with(1e300), ["photo.png", "bad.npy", "--depth-kind", "disparity"], ["bad.npy",
    "1e+300"]),
    "scale above floats": (_depth_with(1e30), ["photo.png", "bad.npy", "--depth-scale", "1e300"], ["bad.npy",
    "out of any"]),
    "scale below floats": (_depth_with(1e-30), ["photo.png", "bad.npy", "--depth-scale", "1e-300"], ["bad.npy",
    "out of any"]),
    "negative aperture": (None, [*GOOD, "--aperture", "-1"], ["--aperture", "-1"]),
    "NaN aperture": (None, [*GOOD, "--aperture", "nan"], ["--aperture", "nan"]),
    "infinite aperture": (None, [*GOOD, "--aperture", "inf"], ["--aperture", "inf"]),
    "absurd aperture": (None, [*GOOD, "--aperture", "1e9"], ["--aperture", "1e+09"]),
    "aperture and f-stop": (None, [*GOOD, "--aperture=1", "--fstop=2", "--focal-length=50"],
    ["--aperture and --fstop"]),
    "f-stop alone": (None, [*GOOD, "--fstop", "2"], ["--fstop", "--focal-length"]),
    "focal length alone": (None, [*GOOD, "--focal-length", "50"], ["--fstop", "--focal-length"]),
    "f-stop 0": (None, [*GOOD, "--fstop", "0", "--focal-length", "50"], ["--fstop"]),
    "focal length negative": (None, [*GOOD, "--fstop", "2", "--focal-length", "-50"], ["--focal-length"]),
    "no sensor": (None, [*GOOD, "--fstop", "2", "--focal-length", "50", "--sensor-width", "0"], ["--sensor-width"]),
    "f-stop without a unit": (
        None,
        ["photo.png", "disparity.png", "--depth-kind", "disparity", "--fstop", "2", "--focal-length", "50"],
        ["--fstop", "metres", "--depth-scale"],
    ),
    "stops": (None, [*GOOD, "--stops", "1"], ["--stops", "--aperture"]),
    "no depth": (None, ["photo.png"], ["DEPTH", "--depth network"]),
    "depth twice": (None, [*GOOD, "--depth", "network"], ["DEPTH", "--depth network", "not both"]),
    "network of a map": (None, [*GOOD, "--model", "x"], ["--model", "--depth network"]),
    "scale of a network": (None, ["photo.png", "--depth", "network", "--depth-scale", "2"], ["--depth-scale"]),
    "scale 0": (None, [*GOOD, "--depth-scale", "0"], ["--depth-scale"]),
    "scale NaN": (None, [*GOOD, "--depth-scale", "nan"], ["--depth-scale"]),
    "focus twice": (None, [*GOOD, "--focus", "2", "--focus-at", "3,4"], ["--focus", "--focus-at"]),
    "focus 0": (None, [*GOOD, "--focus", "0"], ["--focus"]),
    "focus negative": (None, [*GOOD, "--focus", "-2"], ["--focus", "-2"]),
    "focus all but 0": (None, [*GOOD, "--focus", "1e-320"], ["--focus"]),
    "focus NaN": (None, [*GOOD, "--focus", "nan"], ["--focus"]),
    "focus outside": (None, [*GOOD, "--focus-at", "96,10"], ["--focus-at 96,10", "96 × 64"]),
    "focus below": (None, [*GOOD, "--focus-at", "10,64"], ["--focus-at 10,64"]),
    "focus left of": (None, [*GOOD, "--focus-at=-1,10"], ["--focus-at -1,10"]),
    "focus at a word": (None, [*GOOD, "--focus-at", "middle"], ["--focus-at", "X,Y", "'middle'"]),
    "focus at one number": (None, [*GOOD, "--focus-at", "1.5"], ["--focus-at", "X,Y"]),
    "focus at half a pixel": (None, [*GOOD, "--focus-at", "1.5,2"], ["--focus-at", "X,Y"]),
    "focus in a hole": (
        _save("bad.npy", np.pad(np.ones((HEIGHT, WIDTH - 20)), ((0, 0), (20, 0)))),
        ["photo.png", "bad.npy", "--holes", "far", "--focus-at", "5,5"], ["--focus-at", "5,5", "hole"],
    ),
    "blades 2": (None, [*GOOD, "--blades", "2"], ["--blades", "2"]),
    "blades negative": (None, [*GOOD, "--blades", "-6"], ["--blades", "-6"]),
    "rotation NaN": (None, [*GOOD, "--blades", "6", "--rotation", "nan"], ["--rotation"]),
    "light 0": (None, [*GOOD, "--light", "0"], ["--light"]),
    "light all but 0": (None, [*GOOD, "--light", "0.01"], ["--light", "0.2 to 10", "0.01"]),
    "light without end": (None, [*GOOD, "--light", "11"], ["--light", "0.2 to 10", "11"]),
    "light NaN": (None, [*GOOD, "--light", "nan"], ["--light"]),
    "layers 0": (None, [*GOOD, "--layers", "0"], ["--layers", "0"]),
    "layers without end": (None, [*GOOD, "--layers", "100000"], ["--layers", "100000"]),
    "blades without end": (None, [*GOOD, "--blades", "1000000000"], ["--blades"]),
    "frames 1": (None, [*GOOD, "--sweep", "rack.gif", "--frames", "1"], ["--frames", "1"]),
    "frames without end": (None, [*GOOD, "--sweep", "rack.gif", "--frames", "2000000000"], ["--frames", "2 to 10000"]),
    "fps all but 0": (None, [*GOOD, "--sweep", "r.gif", "--fps", "0.001", "--out", "a.png"], ["--fps", "0.1 to 240"]),
    "fps below floats": (None, [*GOOD, "--sweep", "r.gif", "--fps", "1e-320", "--out", "a.png"], ["--fps",
    "0.1 to 240"]),
    "fps of years": (None, [*GOOD, "--sweep", "r.mp4", "--fps", "1e-9"], ["--fps", "1e-09"]),
    "fps 241": (None, [*GOOD, "--sweep", "r.mp4", "--fps", "241"], ["--fps", "241"]),
    "fps 0": (None, [*GOOD, "--sweep", "rack.gif", "--fps", "0"], ["--fps"]),
    "fps NaN": (None, [*GOOD, "--sweep", "rack.gif", "--fps", "nan"], ["--fps"]),
    "unknown out": (None, [*GOOD, "--out", "out.xyz"], ["--out", "out.xyz"]),
    "out without suffix": (None, [*GOOD, "--out", "out"], ["--out", "no suffix"]),
    "out is a video": (None, [*GOOD, "--out", "out.gif"], ["--out", "out.gif"]),
    "sweep is a picture": (None, [*GOOD, "--out", "out.png", "--sweep", "rack.png"], ["--sweep", "rack.png"]),
    "out is a folder": (lambda: os.mkdir("out.png"), [*GOOD, "--out", "out.png"], ["--out", "out.png", "folder"]),
    "out under a file": (None, [*GOOD, "--out", "depth.npy/out.png"], ["--out", "depth.npy", "not a folder"]),
    "out over the picture": (None, [*GOOD, "--out", "./photo.png"], ["--out", "photo.png", "overwrite"]),
    "out over the depth": (None, ["photo.png", "depth.exr", "--out", "depth.exr"], ["--out", "depth.exr", "overwrite"]),
    "tiny mp4": (
        lambda: (write_image("tiny.png", np.ones((3, 3, 3))), np.save("tiny.npy", np.ones((3, 3)))),
        ["tiny.png", "tiny.npy", "--sweep", "rack.mp4"], ["--sweep", "rack.mp4", "3 × 3"],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's would be a second line
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(case, folder, capfd):
    make, arguments, named = BAD[case]
    if make:
        make()
    before = _contents(folder)
    capfd.readouterr()
    code = main(["refocus", *arguments])
    captured = capfd.readouterr()
    assert code == 2
    assert captured.err.startswith("dofnerf: error: ")
    assert captured.err.count("\n") == 1
    for words in named:
        assert words in captured.err
    assert captured.out == ""
    assert _contents(folder) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_that_may_not_be_written_is_refused(folder, capfd):
    (folder / "locked").mkdir(mode=0o500)
    assert main(["refocus", *GOOD, "--out", "locked/new/out.png"]) == 2
    assert "no permission to write" in capfd.readouterr().err


def test_an_interrupted_sweep_leaves_nothing(folder, capfd, monkeypatch):
    before = _contents(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dofnerf.studio.shoot.through_lens", interrupt)
    assert main(["refocus", *GOOD, "--sweep", "rack.mp4"]) == 130
    assert capfd.readouterr().err == "dofnerf: interrupted\n"
    assert _contents(folder) == before


@pytest.mark.parametrize("there", [False, True])
def test_a_sweep_that_fails_takes_the_picture_with_it(there, folder, capfd, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "rack.gif")

    if there:
        (folder / "out.png").write_bytes(b"an older one")
    before = _contents(folder)
    monkeypatch.setattr("dofnerf.studio.refocus.write_video", full)
    assert main(["refocus", *GOOD, "--out", "out.png", "--sweep", "rack.gif"]) == 2
    assert capfd.readouterr().err == "dofnerf: error: rack.gif: No space left on device\n"
    assert _contents(folder) == before


def _contents(folder) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}
