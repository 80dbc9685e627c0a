"""The page that anybody can refocus, opened from disk in a browser; and the other things that `dofnerf export`
writes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import OpenEXR
import pytest
import torch
from looks import printed
from PIL import Image
from small_shots import CAMERA, FAR, FOCAL, HEIGHT, NEAR, WIDTH, card_and_wall, halves, psnr, write_run

from browser import screenshot
from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.files import read_image, read_map
from dofnerf.files.ply import read_drawing, read_ply, read_splats
from dofnerf.optics import scatter_layers
from dofnerf.scenes import Lens, read_cameras
from dofnerf.studio.shoot import exact, fill

NEAR_SIDE, FAR_SIDE = (0.25, 0.5), (0.8, 0.5)  # of the picture, as shares of its width and height


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """run, volume, and page.html of the run's held-out view."""
    folder = tmp_path_factory.mktemp("exported")
    write_run(folder / "run")
    write_run(folder / "volume", "hash")
    assert (
        main(
            [
                "export",
                str(folder / "run"),
                "--html",
                "--single-view",
                "--aperture",
                "8",
                "--out",
                str(folder / "page.html"),
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def page(made, watched):
    opened = watched((made / "page.html").as_uri())
    settle(opened)
    return opened


def settle(page) -> np.ndarray:
    """What the canvas shows when nothing moves any more, at the picture's own size."""
    page.wait_for_timeout(50)
    page.wait_for_selector("body[data-state=resting]")
    for _ in range(100):  # until the ring has gone; the page's policy forbids the eval of wait_for_function
        if not page.evaluate("document.getAnimations().length"):
            break
        page.wait_for_timeout(50)
    return shrunk(screenshot(page, "#picture"))


def shrunk(shot: np.ndarray) -> np.ndarray:
    image = Image.fromarray((255 * shot).astype(np.uint8)).resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    return np.asarray(image).astype(float) / 255


def click(page, place) -> np.ndarray:
    box = page.locator("#picture").bounding_box()
    page.mouse.click(box["x"] + place[0] * box["width"], box["y"] + place[1] * box["height"])
    return settle(page)


def test_a_click_focuses_there_and_blurs_the_rest_as_a_lens_does(page, made):
    near, far = click(page, NEAR_SIDE), click(page, FAR_SIDE)
    assert halves(near)[0] > 4 * halves(far)[0]
    assert halves(far)[1] > 4 * halves(near)[1]
    assert float(page.evaluate("depth.value")) == pytest.approx(FAR, rel=0.05)

    camera = read_cameras(made / "run" / "cameras.json")[3].camera
    light = exact(card_and_wall(), camera, Lens(8.0, FAR), 2.2, 64)
    truth = light.clamp(0, 1).detach().numpy() ** (1 / 2.2)
    right = psnr(far[4:-4, 4:-4], truth[4:-4, 4:-4])
    assert right > 28
    assert psnr(near[4:-4, 4:-4], truth[4:-4, 4:-4]) < right - 3


def test_sliders_turn_the_lens_a_reload_keeps_it_and_another_visitor_has_their_own(page, made, watched):
    first = click(page, FAR_SIDE)
    page.click("#sharp")
    sharp = settle(page)
    assert halves(sharp)[0] > 4 * halves(first)[0]
    page.locator("#aperture").fill("0.4")
    stopped_down = settle(page)
    assert 2 * halves(first)[0] < halves(stopped_down)[0] < 0.9 * halves(sharp)[0]
    page.locator("#aperture").fill("1")
    page.locator("#rotation").fill("40")
    page.select_option("#blades", "5")
    wide = settle(page)
    assert halves(wide)[0] < 0.5 * halves(stopped_down)[0]
    page.locator("#focus").fill("0")
    near = settle(page)
    assert halves(near)[0] > 4 * halves(wide)[0]
    page.reload()
    assert np.abs(settle(page) - near).mean() < 0.004
    assert page.input_value("#blades") == "5" and page.input_value("#rotation") == "40"

    other = watched((made / "page.html").as_uri())
    settle(other)
    assert other.input_value("#blades") == "0"
    assert halves(click(other, FAR_SIDE))[1] > 4 * halves(near)[1]
    assert np.abs(settle(page) - near).mean() < 0.004


def test_a_picture_comes_to_rest_without_a_black_one_and_asks_for_one_frame_at_a_time(page):
    dark = """() => { quality = 4; draw(...QUALITY[4]); refine(0);
      const row = new Uint8Array(4 * width); gl.readPixels(0, 1, width, 1, gl.RGBA, gl.UNSIGNED_BYTE, row);
      return [canvas.width, row.filter((value, i) => i % 4 < 3 && value < 8).length]; }"""
    assert page.evaluate(dark) == [WIDTH, 0]
    settle(page)
    asked = """() => { let count = 0; const ask = requestAnimationFrame;
      window.requestAnimationFrame = (then) => { count += 1; return ask(then); };
      move(false); move(true); move(false); window.requestAnimationFrame = ask; return count; }"""
    assert page.evaluate(asked) == 1
    settle(page)


def test_many_blades_and_a_card_that_is_too_small(made, tmp_path, watched):
    assert (
        main(
            [
                "export",
                str(made / "run"),
                "--html",
                "--single-view",
                "--blades",
                "12",
                "--out",
                str(tmp_path / "page.html"),
            ]
        )
        == 0
    )
    opened = watched((tmp_path / "page.html").as_uri())
    settle(opened)
    assert opened.input_value("#blades") == "12" and opened.evaluate("lens.blades") == 12
    words = (tmp_path / "page.html").read_text(encoding="utf-8")
    broken = words.replace("const SCENE", "WebGL2RenderingContext.prototype.getParameter = () => 16; const SCENE", 1)
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    sorry = watched((tmp_path / "broken.html").as_uri())
    sorry.wait_for_selector("#sorry:not([hidden])")
    assert "64 × 48 pixels" in sorry.inner_text("#sorry")


def test_the_page_needs_nothing_from_elsewhere(made):
    words = (made / "page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in words
    assert "http:" not in words and "https:" not in words and "src=" not in words.replace("img-src", "")


def test_a_title_that_looks_like_the_template_is_only_a_title(made, tmp_path):
    run = tmp_path / "@scene@@script@<b>"
    shutil.copytree(made / "run", run)
    assert main(["export", str(run), "--html", "--single-view", "--out", str(tmp_path / "a.html")]) == 0
    words = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert words.count("const SCENE") == 1 and "<title>@scene@@script@&lt;b&gt; view-3</title>" in words


def test_a_page_that_would_be_large_gives_up_some_quality_and_one_that_is_large_says_so(
    made, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr("dofnerf.web.LEAST_ROOM", 0)
    assert "smaller page" not in printed(
        capfd, "export", made / "run", "--html", "--single-view", "--out", tmp_path / "page.html"
    )
    monkeypatch.setattr("dofnerf.studio.export.html.LARGE_PAGE", 0.001)
    words = printed(capfd, "export", made / "run", "--html", "--single-view", "--out", tmp_path / "again.html")
    assert "more than 0.001: a smaller --width" in words
    assert (tmp_path / "page.html").stat().st_size < 0.97 * (made / "page.html").stat().st_size


def test_layers_give_the_view_back_and_know_what_is_hidden():
    model = card_and_wall()
    sharp, layers = model.layers(CAMERA, 4)
    again = scatter_layers(layers.colour, layers.alpha, torch.zeros_like(layers.alpha))
    assert psnr(again.detach().numpy(), sharp.image.detach().numpy()) > 45
    behind = slice(WIDTH // 2 - 10, WIDTH // 2 - 2)  # where the wall goes on behind the card
    assert layers.disparity[0][10:-10, behind].mean() == pytest.approx(1 / FAR, rel=0.02)
    assert sharp.disparity[10:-10, behind].mean() == pytest.approx(1 / NEAR, rel=0.02)
    assert layers.alpha[-1][10:-10, 10:20].min() > 0.95 and layers.alpha[-1][10:-10, 45:].max() < 0.05


def test_filling_keeps_what_is_known_and_reaches_everywhere():
    rng = np.random.default_rng(1)
    values = torch.from_numpy(rng.uniform(2, 3, (13, 21, 2))).float()
    known = torch.from_numpy(rng.uniform(size=(13, 21)) > 0.9)
    filled = fill(values, known)
    assert torch.equal(filled[known], values[known])
    assert filled.min() >= values[known].min() - 1e-5 and filled.max() <= values[known].max() + 1e-5


def test_layers_on_disk(made, tmp_path, capfd):
    printed(capfd, "export", made / "volume", "--rgbd", "--view", 3, "--layers", 2, "--out", tmp_path)
    folder = tmp_path / "view-3-layers"
    facts = json.loads((folder / "layers.json").read_text())
    assert facts["camera"]["fl_x"] == pytest.approx(FOCAL) and len(facts["layers"]) == 2
    out = np.zeros((HEIGHT, WIDTH, 3))
    for entry in facts["layers"]:
        pixels = np.asarray(Image.open(folder / entry["colour"])).astype(float) / 255
        assert pixels.shape == (HEIGHT, WIDTH, 4)
        out = out * (1 - pixels[..., 3:]) + pixels[..., :3] * pixels[..., 3:]
        assert (read_map(folder / entry["depth"])[0] > 0).all()
    assert psnr(out, read_image(folder / "sharp.png")) > 30
    parts = {part.name(): part for part in OpenEXR.File(str(folder / "layers.exr"), separate_channels=True).parts}
    assert [*parts] == [f"{one}.{kind}" for one in ("sharp", "layer-0", "layer-1") for kind in ("Combined", "Depth")]
    light = sum_over([[parts[f"layer-{i}.Combined"].channels[c].pixels for c in "RGBA"] for i in range(2)])
    sharp = np.stack([parts["sharp.Combined"].channels[c].pixels for c in "RGB"], axis=-1)
    assert psnr(light ** (1 / 2.2), sharp ** (1 / 2.2)) > 30  # premultiplied, in linear light
    depth = read_map(folder / "sharp-depth.exr")[0]
    np.testing.assert_allclose(parts["sharp.Depth"].channels["Z"].pixels, depth)


def sum_over(layers):
    """Premultiplied RGBA, the farthest first, one over the other."""
    out = 0.0
    for *colour, alpha in layers:
        out = np.stack(colour, axis=-1) + out * (1 - alpha[..., None])
    return out


def test_splats_and_points_on_disk(made, tmp_path, capfd):
    printed(capfd, "export", made / "run", "--ply", "--mix", "light", "--out", tmp_path / "run.ply")
    np.testing.assert_allclose(  # y down, as other tools expect
        read_splats(tmp_path / "run.ply").means, card_and_wall().means.detach().numpy() * [1, -1, -1], atol=1e-5
    )
    same = ["--camera", made / "run" / "cameras.json", "--view", "3"]
    printed(capfd, "render", made / "run", "--view", "3", "--out", tmp_path / "run.png")
    printed(capfd, "render", tmp_path / "run.ply", *same, "--out", tmp_path / "ply.png")  # the file says how to draw it
    np.testing.assert_allclose(read_image(tmp_path / "ply.png"), read_image(tmp_path / "run.png"), atol=1.01 / 255)
    np.testing.assert_allclose(read_drawing(tmp_path / "run.ply").up, (0, 1, 0), atol=0.2)
    printed(capfd, "export", made / "volume", "--ply", "--out", tmp_path / "points")
    points = read_ply(tmp_path / "points" / "scene.ply")
    assert len(points) > 100 and np.isfinite(points.xyz).all()


def test_cameras_as_nerfstudio_reads_them(made, tmp_path, capfd):
    printed(capfd, "export", made / "run", "--cameras", "--out", tmp_path)
    folder = tmp_path / "nerfstudio"
    facts = json.loads((folder / "transforms.json").read_text())
    theirs = read_cameras(made / "run" / "cameras.json")
    for entry, view in zip(facts["frames"], theirs, strict=True):  # what nerfstudio's parser asks of a frame
        assert Image.open(folder / entry["file_path"]).size == (entry["w"], entry["h"]) == (WIDTH, HEIGHT)
        assert [entry[key] for key in ("fl_x", "fl_y", "cx", "cy")] == [FOCAL, FOCAL, WIDTH / 2, HEIGHT / 2]
        assert np.allclose(np.array(entry["transform_matrix"])[:3], view.camera.camera_to_world)
        assert ("learned_lens" in entry) is not view.held_out
    assert facts["camera_model"] == "OPENCV" and len(facts["train_filenames"]) == 4
    assert {*facts["train_filenames"], *facts["test_filenames"]} == {entry["file_path"] for entry in facts["frames"]}
    assert len(scenes.load(folder)) == 5
    printed(capfd, "export", made / "run", "--cameras", "--out", tmp_path)  # again: it is ours
    (folder / "transforms.json").write_text('{"frames": []}')
    assert main(["export", str(made / "run"), "--cameras", "--out", str(tmp_path)]) == 2
    assert "was not made by dofnerf export" in capfd.readouterr().err
    assert (folder / "transforms.json").read_text() == '{"frames": []}'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to export"),
        (["--html", "--layers", "17"], "--layers must be 1 to 16"),
        (["--html", "--ply", "--out", "a.html"], "need a folder"),
        (["--html", "--single-view", "--views", "train", "--out", "a.html"], "4 pages do not fit"),
        (["--html", "--view", "99"], "no such view"),
        (["--html", "--focus-at", "900,2"], "outside the picture"),
        (["--html", "--eye", "0,0,50", "--look-at", "0,0,60"], "shows nothing"),
        (["--html", "--views", "train"], "opens at one view"),
        (["--html", "--layers", "3"], "--layers is for --single-view"),
        (["--html", "--single-view", "--free"], "has no walls"),
        (["--html", "--aperture", "-1"], "--aperture must be 0 or more"),
    ],
)
def test_refusals(made, tmp_path, monkeypatch, capfd, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(made / "run"), *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir()) and not (made / "run" / "export").exists()
