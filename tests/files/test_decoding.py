"""Photos of more than 8 bits, in linear light, with colour profiles, and RAW: read as what they are."""

import sys

import numpy as np
import pytest
from PIL import Image
from small_files import ADOBE, deep_tiff, dng, profile_of, radiance

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.files import has_more_than_8_bits, image_size, is_linear, read_image, write_deep_png, write_exr
from dofnerf.files.pictures import turned
from dofnerf.scenes.source import PictureFile

RNG = np.random.default_rng(0)
DEEP = RNG.integers(0, 65536, (20, 30, 3)).astype(np.uint16)


@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bit_tiff(order, tmp_path):
    deep_tiff(tmp_path / "a.tif", DEEP, order)
    assert has_more_than_8_bits(tmp_path / "a.tif") and image_size(tmp_path / "a.tif") == (30, 20)
    np.testing.assert_allclose(read_image(tmp_path / "a.tif"), DEEP / 65535, atol=1e-7)


@pytest.mark.parametrize(
    "options", [{}, {"compression": "zlib"}, {"compression": "zlib", "predictor": 2}, {"tile": (16, 16)}]
)
def test_16_bit_tiff_by_another_program(options, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a.tif", DEEP, photometric="rgb", **options)
    np.testing.assert_allclose(read_image(tmp_path / "a.tif"), DEEP / 65535, atol=1e-7)


def test_16_bit_planes_are_refused(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a.tif", np.moveaxis(DEEP, -1, 0), photometric="rgb", planarconfig="separate")
    with pytest.raises(ValueError, match=r"a.tif: .*planes"):
        read_image(tmp_path / "a.tif")


def test_16_bit_png_upright(tmp_path):
    write_deep_png(tmp_path / "a.png", DEEP / 65535)
    np.testing.assert_allclose(read_image(tmp_path / "a.png"), DEEP / 65535, atol=1e-7)
    with Image.open(tmp_path / "a.png") as small:
        assert not has_more_than_8_bits(save(small, tmp_path / "b.png"))


def save(picture, path, **options):
    picture.save(path, **options)
    return path


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_as_pillow_does(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray((DEEP >> 8).astype(np.uint8))
    path = save(picture, tmp_path / "a.png", exif=exif)
    stored = read_image(path)
    assert np.array_equal(turned(stored, orientation), read_image(path, orient=True))


@pytest.mark.parametrize("coded", [True, False])
def test_radiance(coded, tmp_path):
    light = (RNG.random((11, 40, 3)) ** 3 * 20).astype(np.float32)
    light[3:6] = 0.25
    light[0] = 0
    radiance(tmp_path / "a.hdr", light, coded)
    assert image_size(tmp_path / "a.hdr") == (40, 11) and is_linear(tmp_path / "a.hdr")
    found = read_image(tmp_path / "a.hdr")
    assert np.abs(found - light).max() <= (light.max(axis=-1) / 100).max()
    assert (np.abs(found - light) <= light.max(axis=-1, keepdims=True) / 120 + 1e-9).all()
    shown = PictureFile(tmp_path / "a.hdr", 40, 11).load()
    np.testing.assert_allclose(shown, np.clip(found, 0, 1) ** (1 / 2.2), atol=1e-6)
    data = (tmp_path / "a.hdr").read_bytes()
    (tmp_path / "cut.hdr").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"cut.hdr: "):
        read_image(tmp_path / "cut.hdr")


def srgb_of(values, gamma, primaries):
    """Independent: by the numbers of the standard, in float64."""
    to_srgb = np.array(
        [[3.1338561, -1.6168667, -0.4906146], [-0.9787684, 1.9161415, 0.0334540], [0.0719453, -0.2289914, 1.4052427]]
    )
    linear = np.clip(values.astype(np.float64) ** gamma @ np.array(primaries).T @ to_srgb.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("gamma", [ADOBE[0], 1.0])
def test_profiles_lead_to_srgb(gamma, tmp_path):
    profile = profile_of(gamma, ADOBE[1])
    grey = np.linspace(0.3, 0.6, 20 * 30 * 3).reshape(20, 30, 3)[..., ::-1].astype(np.float32)
    grey[..., 0] += 0.2
    wanted = srgb_of(grey, gamma, ADOBE[1])
    path = save(Image.fromarray((grey * 255 + 0.5).astype(np.uint8)), tmp_path / "a.png", icc_profile=profile)
    assert np.abs(read_image(path) - wanted).max() < 3 / 255
    deep_tiff(tmp_path / "a.tif", np.round(grey * 65535), profile=profile)
    assert np.abs(read_image(tmp_path / "a.tif") - wanted).max() < 1e-3
    broken = save(Image.open(path), tmp_path / "b.png", icc_profile=profile[:90])
    assert np.abs(read_image(broken) - grey).max() < 1 / 255


def test_raw(tmp_path):
    pytest.importorskip("rawpy")
    light = (0.05 + 0.9 * RNG.random((6, 8, 3))).repeat(12, 0).repeat(12, 1).astype(np.float32)
    dng(tmp_path / "a.dng", light, neutral=(0.5, 1.0, 0.7))
    assert image_size(tmp_path / "a.dng") == (96, 72) and has_more_than_8_bits(tmp_path / "a.dng")
    found = read_image(tmp_path / "a.dng")
    assert np.abs(found - light).mean() < 0.01
    dng(tmp_path / "b.dng", light, orientation=6)
    assert read_image(tmp_path / "b.dng").shape == (72, 96, 3)
    np.testing.assert_allclose(read_image(tmp_path / "b.dng", orient=True), turned(read_image(tmp_path / "b.dng"), 6))
    (tmp_path / "bad.dng").write_bytes(b"II*\0 nothing")
    with pytest.raises(ValueError, match=r"bad.dng: "):
        read_image(tmp_path / "bad.dng")


def test_raw_without_rawpy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rawpy", None)
    (tmp_path / "a.dng").write_bytes(b"II*\0 nothing")
    with pytest.raises(ValueError, match=r"a.dng: RAW files need rawpy: install the extra 'raw'"):
        read_image(tmp_path / "a.dng")


def test_results_keep_up(tmp_path, capsys):
    """A 16-bit picture refocused is one of 16 bits; a scene of 16-bit photos stays one when it is written."""
    smooth = np.linspace(0.4, 0.41, 48 * 64 * 3).reshape(48, 64, 3)
    write_deep_png(tmp_path / "a.png", smooth)
    write_exr(tmp_path / "depth.exr", {"Z": np.full((48, 64), 2.0, np.float32)})
    command = ["refocus", str(tmp_path / "a.png"), str(tmp_path / "depth.exr"), "--focus", "2", "--aperture", "3"]
    assert main([*command, "--out", str(tmp_path / "out.png")]) == 0
    assert has_more_than_8_bits(tmp_path / "out.png")
    assert np.abs(read_image(tmp_path / "out.png") - smooth).max() < 1e-4
    small = scenes.load("demo", width=64, which_frames=(0, 1, 2))
    deep = tmp_path / "deep.png"
    photo = small.photo(0) * np.float32(0.998)
    write_deep_png(deep, photo)
    from dataclasses import replace

    frames = tuple(replace(f, near=None, far=None, photo=PictureFile(deep, *small.size)) for f in small.frames)
    again = scenes.load(scenes.write_transforms(replace(small, frames=frames), tmp_path / "scene"))
    assert np.abs(again.photo(1) - photo).max() < 1e-5
