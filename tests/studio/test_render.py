"""`dofnerf render` end to end: runs and .ply files, views, lenses and the files that come out."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from looks import printed
from PIL import Image
from small_shots import (
    CAMERA,
    FAR,
    FOCAL,
    HEIGHT,
    NEAR,
    PHOTO,
    WIDTH,
    card_and_wall,
    halves,
    psnr,
    write_ply,
    write_run,
)
from small_splats import through_points

from dofnerf import scenes
from dofnerf.camera import Camera
from dofnerf.cli import main
from dofnerf.files import has_more_than_8_bits, read_image, read_map
from dofnerf.models.volume.weights import average_light
from dofnerf.scenes import Lens, Viewpoint, read_cameras, write_cameras
from dofnerf.scenes.exif import Exif
from dofnerf.studio.flags import LensFlags
from dofnerf.studio.shoot import exact, from_point
from dofnerf.train import Run
from oracles.lens_rays import render_exact


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files that tests only read: run, volume (a run of a volumetric field), wall.ply, cameras.json."""
    folder = tmp_path_factory.mktemp("made")
    write_ply(folder / "wall.ply", write_run(folder / "run"))
    write_run(folder / "volume", "hash")
    write_cameras(folder / "cameras.json", [Viewpoint("front", CAMERA, Lens(9.0, FAR)), Viewpoint("again.png", CAMERA)])
    return folder


@pytest.fixture
def render(made, tmp_path, monkeypatch, capfd):
    """Runs the command in an empty folder → what it printed; the source is one of `made`."""
    monkeypatch.chdir(tmp_path)

    def run(source, *arguments) -> str:
        return printed(capfd, "render", made / source, *arguments)

    return run


def pixels(path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(float) / 255


def ply(made, *more) -> list:
    return ["--camera", made / "cameras.json", "--view", 0, *more, "--out", "out.png"]


def test_a_run_shows_its_held_out_views_as_it_sees_them(render, made):
    assert "view-3.png  (all in focus)" in render("run", "--out", "shots")
    assert sorted(os.listdir("shots")) == ["transforms.json", "view-3.png"]
    camera = read_cameras(made / "run" / "cameras.json")[3].camera
    truth = Run.load(made / "run").render(camera).image.clamp(0, 1).numpy()
    assert np.abs(pixels("shots/view-3.png") - truth).max() < 0.51 / 255 + 1e-5


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--views", "train"], ["view-0", "view-1", "view-2", "view-4"]),
        (["--views", "all"], [f"view-{i}" for i in range(5)]),
        (["--view", "4", "view-0", "4"], ["view-0", "view-4"]),
    ],
)
def test_views_by_number_name_and_part(render, flags, names):
    render("run", *flags, "--out", "shots")
    assert sorted(os.listdir("shots")) == ["transforms.json", *(f"{name}.png" for name in names)]


@pytest.mark.parametrize("lens", [[], ["--aperture", 9, "--focus", FAR]])
def test_a_ply_of_a_run_shows_what_the_run_does(render, made, lens):
    render("run", "--view", 3, *lens, "--out", "run.png")
    same = ["--camera", made / "run" / "cameras.json", "--blend", "light", "--background", "0.3,0.4,0.5"]
    render("wall.ply", *same, "--view", 3, *lens, "--out", "ply.png")
    np.testing.assert_allclose(pixels("ply.png"), pixels("run.png"), atol=1.01 / 255)


@pytest.mark.parametrize("how", [[], ["--lens-samples", 24], ["--blades", 6]])
@pytest.mark.parametrize("source", ["run", "wall.ply"])
@pytest.mark.parametrize("at", ["14,24", "50,24"])
def test_what_is_focused_at_is_sharp_and_the_rest_is_not(render, made, source, how, at):
    which = ply(made) if source == "wall.ply" else ["--view", 0, "--out", "out.png"]
    render(source, *which, "--out", "sharp.png")
    words = render(source, *which, "--aperture", 9, "--focus-at", at, *how)
    before, after = halves(pixels("sharp.png")), halves(pixels("out.png"))
    focused, other = (0, 1) if at == "14,24" else (1, 0)
    assert after[focused] > 0.9 * before[focused]
    assert after[other] < 0.35 * before[other]
    assert f"focus at pixel {at}" in words
    assert float(words.split("focus ")[1].split(":")[0]) == pytest.approx((NEAR, FAR)[focused], rel=0.02)


@pytest.mark.parametrize("source", ["run", "volume", "wall.ply"])
def test_aperture_0_is_the_sharp_picture(render, made, source):
    which = ply(made) if source == "wall.ply" else ["--view", 0, "--out", "out.png"]
    render(source, *which)
    render(source, *which, "--aperture", 0, "--focus", 3, "--out", "closed.png")
    render(source, *which, "--aperture", 1e-6, "--focus", 3, "--out", "nearly.png")
    np.testing.assert_array_equal(pixels("closed.png"), pixels("out.png"))
    assert psnr(pixels("nearly.png"), pixels("out.png")) > 45


def test_a_pixel_of_a_view_from_the_rim_is_the_lens_ray_of_that_point():
    """The camera moved over the lens, against the rays of rays/lens.py."""
    from dofnerf.models.volume.rays import camera_rays, lens_rays, pixel_centres, stack_cameras

    camera = replace(CAMERA, fy=1.2 * FOCAL, cx=30.0)
    points = torch.tensor([0.6, -0.7]).expand(HEIGHT, WIDTH, 1, 2)
    photo = torch.zeros(HEIGHT, WIDTH, dtype=torch.long)
    rays = lens_rays(stack_cameras([camera]), photo, pixel_centres(HEIGHT, WIDTH), points, 9.0, 1 / 3.0).reshape(
        HEIGHT, WIDTH
    )
    moved = camera_rays(from_point(camera, Lens(9.0, 3.0), 0.6, -0.7))
    torch.testing.assert_close(moved.origins, rays.origins)
    torch.testing.assert_close(moved.directions, rays.directions, atol=1e-6, rtol=1e-5)


def test_the_exact_lens_is_that_of_the_models(made):
    """Of splats, for the same points; and of a volume, whose own has other points at each pixel, nearly."""
    lens = Lens(6.0, 3.0)
    through = Lens(6.0, focus_disparity=1 / 3.0)
    model = card_and_wall()
    with torch.no_grad():
        theirs = through_points(model, CAMERA, through, 12)
        ours = average_light(exact(model, CAMERA, lens, 2.2, 12).pow(1 / 2.2)[..., None, :])
    torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=0)
    volume = Run.load(made / "volume").model
    theirs = render_exact(volume, CAMERA, through, 12, torch.Generator().manual_seed(0))
    ours = exact(volume, CAMERA, lens, 2.2, 12).pow(1 / 2.2)
    assert psnr(ours.numpy(), theirs.numpy()) > 30


def test_quick_blur_resembles_the_exact_lens(render, made):
    for source in ("run", "wall.ply"):
        which = ply(made) if source == "wall.ply" else ["--view", 0]
        render(source, *which, "--out", "sharp.png")
        lens = ["--aperture", 9, "--focus", FAR]
        render(source, *which, *lens, "--out", "quick.png")
        render(source, *which, *lens, "--lens-samples", 40, "--out", "exact.png")
        quick, true, sharp = (pixels(f"{name}.png")[4:-4, 4:-4] for name in ("quick", "exact", "sharp"))
        assert psnr(quick, true) > psnr(sharp, true) + 5


def test_as_shot_is_the_lens_that_was_learned(render, made):
    words = render("run", "--views", "train", "--as-shot", "--out", "shots")
    lens = Run.load(made / "run").lens
    listed = read_cameras("shots/transforms.json")
    assert [view.lens.focus_depth for view in listed] == pytest.approx(lens.focus_depth.tolist())
    # The run was trained on photos twice as wide as the picture, which has half the blur.
    assert [view.lens.aperture for view in listed] == pytest.approx((lens.aperture * WIDTH / PHOTO[0]).tolist())
    assert words.count("as shot") == 4
    words = render("wall.ply", *ply(made), "--as-shot", "--width", 128)
    assert f"aperture 18, focus {FAR:g}: as shot" in words


def test_the_paper_s_k_and_f_stops_by_hand(render, made):
    """f/0.5 with 60 px for 64 px on 36 mm: 33.75 mm, a radius of 33.75 mm; × 60 px = 2.025 px·m; in units of 0.25 m,
    8.1."""
    where = ply(made, "--focus", 2)
    assert "aperture 4.5, focus 2: K as given" in render("wall.ply", *where, "--paper-k", 9)
    assert "aperture 2.025, focus 2: f/0.5 at 33.8 mm" in render("wall.ply", *where, "--fstop", 0.5, "--unit", 1)
    assert "aperture 8.1, focus 2" in render("wall.ply", *where, "--fstop", 0.5, "--unit", 0.25)
    assert "aperture 1.012, focus 2: f/0.5 at 16.9 mm" in render(
        "wall.ply", *where, "--fstop", 0.5, "--unit", 1, "--sensor-width", 18
    )


def test_an_f_stop_of_a_picture_held_upright():
    """The sensor is as wide as the longer side: 50 mm at f/2 before 36 mm, whichever way the camera is held."""
    wide = Camera(np.eye(4)[:3], 500.0, 500.0, 180.0, 120.0, 360, 240)
    upright = replace(wide, width=240, height=360, cx=120.0, cy=180.0)
    flags = LensFlags(fstop=2.0, unit=1.0)
    for camera in (wide, upright):
        assert flags.focal_mm(camera, None) == pytest.approx(50)
        assert flags.opening(camera)[0] == pytest.approx(0.0125 * 500)
        assert "on a sensor 36 mm wide" in flags.opening(camera)[1]


def test_stops_are_relative_to_the_lens_of_the_photos(render, made):
    """The photos are twice as wide as the picture; two stops wider is twice the radius."""
    own = float(Run.load(made / "run").lens.aperture.detach().median()) * WIDTH / PHOTO[0]
    where = "run", "--view", 3, "--focus", 2, "--out", "out.png"
    assert f"aperture {own:.4g}, focus 2: the aperture of the photos" in render(*where, "--stops", 0)
    assert f"aperture {2 * own:.4g}, focus 2: 2 stops wider than the photos" in render(*where, "--stops", 2)
    assert f"aperture {own / 2**0.5:.4g}, focus 2: 1 stop narrower" in render(*where, "--stops", -1)
    # A larger picture has larger blur, by the same lens.
    assert f"aperture {2 * own:.4g}, focus 2: the aperture" in render(*where, "--stops", 0, "--width", 2 * WIDTH)


def test_exif_gives_the_scale_and_so_true_f_numbers(render, tmp_path):
    """A lens of 30 mm at f/2.5 has a radius of 6 mm; the run says how many scene units that is."""
    write_run(tmp_path / "told", exif=Exif(f_number=2.5, focal_length=30.0))
    learned = float(Run.load(tmp_path / "told").lens.aperture[0].detach())
    metres = 0.006 / (learned / (FOCAL * PHOTO[0] / WIDTH))
    where = tmp_path / "told", "--view", 3, "--focus", 2, "--out", "out.png"
    words = render(*where, "--fstop", 2.5)
    assert f"1 scene unit = {metres:.3g} m by EXIF, photos differ by 0 %" in words
    # 30 mm are 60 of 64 pixels: the sensor is 32 mm wide. The photos' own f-number is their own aperture.
    assert f"aperture {learned * WIDTH / PHOTO[0]:.4g}, focus 2: f/2.5 at 30 mm on a sensor 32 mm wide" in words
    assert f"aperture {learned * WIDTH / PHOTO[0] / 2:.4g}, focus 2: f/5" in render(*where, "--fstop", 5)
    assert "aperture 0.18, focus 2: f/5" in render(*where, "--fstop", 5, "--unit", 1)  # 60 px × 3 mm


def test_focus_alone_opens_the_lens(render, made):
    assert "chosen automatically; focus as given" in render("wall.ply", *ply(made, "--focus", FAR))
    near, far = halves(pixels("out.png"))
    assert near < far


def test_exposure_doubles_the_light_and_exr_keeps_it(render, made):
    where = ply(made)[:-2]
    render("wall.ply", *where, "--out", "a.exr")
    render("wall.ply", *where, "--out", "b.exr", "--exposure", 3)
    render("wall.ply", *where, "--out", "c.png", "--exposure", -1)
    light = read_image("a.exr")
    np.testing.assert_allclose(read_image("b.exr"), 8 * light, rtol=1e-6)
    assert read_image("b.exr").max() > 1.5  # beyond white
    np.testing.assert_allclose(pixels("c.png"), (light / 2) ** (1 / 2.2), atol=0.51 / 255 + 2e-3)


def test_deep_photos_give_deep_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "a.exr"):
        write_run(tmp_path / name, photo=name)
        assert main(["render", name, "--view", "0", "--out", f"{name}.png"]) == 0
        assert main(["render", name, "--view", "0", "--format", "png", "--out", f"plain-{name}.png"]) == 0
        assert has_more_than_8_bits(f"{name}.png") == (name == "a.exr") and not has_more_than_8_bits(
            f"plain-{name}.png"
        )
        assert main(["render", name, "--view", "0", "--out", f"folder-{name[-3:]}"]) == 0
        suffixes = {file.suffix for file in Path(f"folder-{name[-3:]}").iterdir()} - {".json"}
        assert suffixes == {".exr" if name == "a.exr" else ".png"}


def test_16_bits_are_16_bits(render, made):
    """Against the same picture as floats, decoded by ffmpeg."""
    import imageio_ffmpeg

    where = ply(made)[:-2]
    render("wall.ply", *where, "--out", "a.exr")
    render("wall.ply", *where, "--out", "deep.png", "--format", "png16")
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        "deep.png",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb48le",
        "-",
    ]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    deep = np.frombuffer(raw, "<u2").reshape(HEIGHT, WIDTH, 3) / 65535
    np.testing.assert_allclose(deep, np.clip(read_image("a.exr"), 0, 1) ** (1 / 2.2), atol=0.51 / 65535 + 1e-6)


def test_depth_and_alpha(render, made):
    where = ["--eye", "0,0,0", "--look-at", "0,0,-1", "--up", "0,1,0", "--fov", 90, "--width", 96, "--height", 64]
    render("wall.ply", *where, "--out", "a.png", "--depth", "exr", "--alpha", "png")
    render("wall.ply", *where, "--out", "b.png", "--depth", "npy", "--alpha", "npy")
    depth, alpha = read_map("a-depth.exr")[0], read_map("b-alpha.npy")[0]
    np.testing.assert_array_equal(depth, read_map("b-depth.npy")[0])
    values, full = read_map("a-alpha.png")
    np.testing.assert_allclose(values / full, alpha, atol=0.51 / 65535)
    assert depth[32, 30] == pytest.approx(NEAR, rel=0.01) and depth[32, 60] == pytest.approx(FAR, rel=0.01)
    assert np.isinf(depth[0, 0]) and alpha[0, 0] == 0 and alpha[32, 30] > 0.95


def test_without_a_camera_the_whole_is_seen(render):
    """Also where it was turned y down, as 3D Gaussian Splatting has it, and with floaters far out."""
    render("wall.ply", "--up", "0,1,0", "--alpha", "npy", "--out", "a.png")
    assert pixels("a.png").shape == (640, 960, 3)
    alpha = np.load("a-alpha.npy")
    assert alpha[320, 480] > 0.5 and alpha[[0, -1]].mean() < 0.3
    assert 0.1 < alpha.mean() < 0.9


def test_what_a_folder_holds_is_a_scene_that_can_be_shot_again(render, made):
    render("run", "--views", "all", "--aperture", 9, "--focus", 3, "--out", "shots")
    first = pixels("shots/view-2.png")
    loaded = scenes.load("shots")
    assert len(loaded) == 5 and loaded.lens(2) == Lens(9.0, 3.0)
    np.testing.assert_allclose(loaded.photo(2), first, atol=1e-6)
    render("run", "--camera", "shots/transforms.json", "--as-shot", "--view", "view-2", "--out", "again.png")
    np.testing.assert_array_equal(pixels("again.png"), first)
    render("run", "--view", 2, "--out", "shots")  # replaces one, keeps the others
    assert len(read_cameras("shots/transforms.json")) == 5
    assert (pixels("shots/view-2.png") != first).any()


def test_default_places(made, tmp_path, capfd):
    write_ply(tmp_path / "wall.ply", card_and_wall())
    assert main(["render", str(tmp_path / "wall.ply"), "--width", "60", "--format", "exr"]) == 0
    assert (tmp_path / "wall-render.exr").is_file()
    write_run(tmp_path / "run")
    assert main(["render", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "renders" / "view-3.png").is_file()


@pytest.mark.parametrize("blades", [0, 5])
def test_layers_before_splats_come_near_the_exact_lens(render, blades):
    shown = {}
    for name, flags in {"exact": ["--lens-samples", 128], "layers": ["--layers", 4], "paper": ["--layers", 1]}.items():
        lens = ["--aperture", 12, "--focus", FAR, "--blades", blades]
        render("run", "--view", 3, *lens, *flags, "--out", f"{name}.png")
        shown[name] = pixels(f"{name}.png")[6:-6, 6:-6]
    assert psnr(shown["layers"], shown["exact"]) > 33
    assert psnr(shown["layers"], shown["exact"]) > 2 + psnr(shown["paper"], shown["exact"])
