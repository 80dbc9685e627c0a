"""The page in which people walk around, in a browser: its picture against our own renderer, and what each control
does."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from small_shots import FAR, NEAR, card_and_wall, psnr, write_ply, write_run

from dofnerf.camera import Camera
from dofnerf.cli import main
from dofnerf.models.splat.model import SplatModel
from dofnerf.optics import DISC, Lens, shape_of, to_display
from dofnerf.optics.shapes import RealLens
from dofnerf.studio.flags import LensFlags, ViewpointFlags
from dofnerf.studio.shoot import exact
from dofnerf.studio.source import source_of
from dofnerf.studio.viewpoints import viewpoints
from dofnerf.studio.walk import walk_of
from dofnerf.train import Run
from dofnerf.web import shape_facts
from dofnerf.web.start_page import StartPage

WINDOW = 720, 260
SHOOT = """([opening, focus, blades, views]) => { const walk = dofnerf, stage = walk.stage;
  walk.stop(); walk.set({ lens: { opening, focus, blades, rotation: 0 } });
  const seen = walk.seen(); stage.draft(seen, 1);
  for (let i = 0; i < views; i++) stage.renderer.step(seen.camera, seen.lens, seen.reach, views);
  stage.renderer.present({ exact: views > 0 });
  return [walk.canvas.toDataURL(), seen.camera, seen.lens]; }"""


def uneven(light: float = 2.2):
    """The card and the wall, no two Gaussians equally far: whose turn it is to be blended is then beyond doubt."""
    model = card_and_wall(light)
    with torch.no_grad():
        model.means *= torch.empty(len(model.means), 1).uniform_(0.95, 1.05, generator=torch.Generator().manual_seed(0))
    return model


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("small_shots.card_and_wall", uneven)
        write_run(folder / "run")
    assert main(["export", str(folder / "run"), "--html", "--out", str(folder / "scene.html")]) == 0
    return folder


@pytest.fixture
def page(made, watched):
    return opened(watched, made)


def opened(watched, made, hash_="", window=WINDOW, name="scene.html"):
    page = watched((made / name).as_uri() + hash_, *window)
    page.wait_for_selector("body:is([data-state=refining], [data-state=done])")
    page.evaluate("dofnerf.stage.most = 6")  # a graphics card would not need that
    settle(page)
    page.wait_for_selector("#poster", state="detached")
    return page


def settle(page, state="done") -> None:
    page.wait_for_timeout(60)
    page.wait_for_selector(f"body[data-state={state}]")


def decoded(address: str) -> np.ndarray:
    data = base64.b64decode(address.split(",")[1])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(float) / 255


def shot(page, opening, focus, blades=0, views=0, shape=None):
    """(the page's picture, its camera, its lens) for so many exact views; 0: the quick blur. `shape`: of -1 blades."""
    address, seen, lens = page.evaluate(SHOOT, [opening, focus, blades, views])
    pose = np.concatenate([np.array(seen["axes"]).reshape(3, 3).T, np.array(seen["position"])[:, None]], axis=1)
    camera = Camera(pose, *(seen[key] for key in ("fx", "fy", "cx", "cy", "width", "height")))
    return (
        decoded(address),
        camera,
        Lens(lens["aperture"], focus_disparity=lens["focus"], shape=shape or shape_of(None, blades)),
    )


def quick(model, camera, lens):
    """Each Gaussian blurred by its own depth, as the camera is to see them."""
    shown = SplatModel(model.seen_by(camera), model.style, model.background)
    return shown.picture(camera, lens, "gaussian").image.detach().clamp(0, 1).numpy()


def test_the_picture_is_that_of_our_own_renderer(page, made):
    model = Run.load(made / "run").model
    wide, focus = page.evaluate("dofnerf.facts.opening"), 1 / 2.6
    picture, camera, _ = shot(page, 0, focus)
    assert camera.fx > 1.5 * model.seen_from[0, 3]  # larger than the photos: both draw nothing finer than these
    assert psnr(picture, model.view(camera).image.clamp(0, 1).numpy()) > 35
    picture, camera, lens = shot(page, wide, focus)
    assert psnr(picture, quick(model, camera, lens)) > 32
    picture, camera, lens = shot(page, 6 * wide, focus)  # so wide that both are drawn with fewer pixels
    assert abs(lens.coc_radius(NEAR)) > 12 and abs(lens.coc_radius(FAR)) > 12
    assert psnr(picture, quick(model, camera, lens)) > 32
    for blades in (0, 6):
        picture, camera, lens = shot(page, wide, focus, blades, views=128)
        truth = to_display(exact(model, camera, lens, 2.2, 128), 2.2).clamp(0, 1).numpy()
        assert psnr(picture, truth) > 35
    assert lens.aperture * (1 / NEAR - 1 / FAR) > 3  # pixels: there was blur to compare


@pytest.mark.parametrize(("pupil", "blades"), [(0.0, 0), (1.0, 0), (1.0, 4)])
def test_your_lens_has_its_character(page, made, pupil, blades):
    """Cat's eye and a hard rim, against weighted views of our own renderer; without them it is another picture."""
    model, wide, focus = Run.load(made / "run").model, 3 * page.evaluate("dofnerf.facts.opening"), 1 / 2.6
    shape = RealLens(blades, 0.1, cats_eye=2.0, profile=(0.6, 0.0), pupil=pupil)
    page.evaluate(f"Object.assign(dofnerf.facts, {json.dumps(shape_facts(shape, 256))})")
    picture, camera, lens = shot(page, wide, focus, -1, 256, shape)
    truth, plain = (
        to_display(exact(model, camera, one, 2.2, 256), 2.2).clamp(0, 1).numpy()
        for one in (lens, lens.with_shape(DISC))
    )
    assert psnr(picture, truth) > max(42, psnr(plain, truth) + 1.5)


def test_the_f_number_of_your_lens_is_by_its_area(page):
    page.evaluate(f"Object.assign(dofnerf.facts, {json.dumps(shape_facts(RealLens(3), 256) | {'unit': 0.01})})")
    numbers = []
    for blades in (-1, 0):
        page.evaluate(f"dofnerf.set({{ lens: {{ opening: 0.02, blades: {blades} }} }})")
        numbers.append(float(page.locator("#aperture-words").text_content().removeprefix("f/")))
    area = 3 * np.sqrt(3) / 4 / np.pi  # of a triangle, over that of the circle around it
    assert numbers[0] / numbers[1] == pytest.approx(1 / np.sqrt(area), rel=0.1)


def test_photos_whose_blur_tells_nothing_have_no_part(made):
    """Two of four are sharp all over: their lens is not told, and stops are relative to that of the others."""
    run = Run.load(made / "run")
    with torch.no_grad():
        run.lens.raw_aperture[:] = torch.tensor([-12.0, -12.0, -0.5, 0.5])
    source = source_of(run)
    for name in ("view-0", "view-2"):
        home = viewpoints(ViewpointFlags(view=(name,)), source)[0]
        walk, _ = walk_of(source, home, LensFlags(), "")
        facts = walk.facts()
        told = {photo["name"]: photo["opening"] for photo in facts["photos"]}
        assert told["view-0"] == told["view-1"] == told["view-3"] == 0 and 0 < told["view-2"] < told["view-4"]
        assert facts["opening"] == pytest.approx((told["view-2"] + told["view-4"]) / 2)
        assert facts["start"]["opening"] == pytest.approx(told["view-2"] if name == "view-2" else facts["opening"])
    rows = {name: rest for name, *rest in source.lens_rows(None)}
    assert rows["view-0"] == ["not known"] * 2 and rows["view-4"][0] == "the usual"
    assert rows["view-2"][0].endswith("stops narrower")


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_click_pulls_the_focus_to_the_depth_there(page, share):
    _, camera, _ = shot(page, 0, 0.3)
    box = page.locator("#picture").bounding_box()
    page.mouse.click(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_selector("#ring.seen")
    page.wait_for_timeout(900)
    settle(page)
    x, y = round(share * camera.width), camera.height // 2
    depth = 1 / np.median(uneven().view(camera).disparity.detach().numpy()[y - 3 : y + 4, x - 3 : x + 4])
    assert depth == pytest.approx(NEAR if share < 0.5 else FAR, rel=0.05)  # the card and the wall are uneven
    assert 1 / page.evaluate("dofnerf.view.lens.focus") == pytest.approx(depth, rel=0.03)


def test_hash_keys_thumbnails_compare_and_movements(page, made, watched):
    assert len(page.query_selector_all("#strip canvas")) == 5
    before = page.evaluate("dofnerf.view")
    page.focus("#picture")
    page.keyboard.press(".")
    assert page.evaluate("dofnerf.view.lens.focus") < before["lens"]["focus"]
    for key in ("ArrowLeft", "ArrowUp", "+", "[", "d"):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    settle(page)
    after = page.evaluate("dofnerf.view")
    assert after["pose"]["position"] != before["pose"]["position"] and after["pose"]["axes"] != before["pose"]["axes"]
    assert after["lens"]["opening"] > before["lens"]["opening"]
    page.keyboard.press("o")
    assert page.evaluate("dofnerf.view.lens.opening") == 0
    page.keyboard.press("o")
    settle(page)
    hash_ = page.evaluate("location.hash")
    again = opened(watched, made, hash_)
    for key in ("pose", "lens"):
        kept, shown = again.evaluate(f"dofnerf.view.{key}"), page.evaluate(f"dofnerf.view.{key}")
        for name, value in shown.items():
            assert np.allclose(kept[name], value, rtol=1e-4, atol=1e-5), name
    opened(watched, made, "#position=1,2&focal=x")  # says nothing: as without

    page.click("#strip button >> nth=2")
    page.wait_for_timeout(1500)
    settle(page)
    photo, view = page.evaluate("dofnerf.facts.photos[2]"), page.evaluate("dofnerf.view")
    assert np.allclose(view["pose"]["position"], photo["position"], atol=1e-6)
    assert view["lens"]["opening"] == pytest.approx(photo["opening"]) and photo["opening"] > 0
    page.evaluate("dofnerf.set({ lens: { opening: 0 } })")
    page.click("#compare")
    settle(page)
    picture = decoded(page.evaluate("dofnerf.canvas.toDataURL()"))
    width = picture.shape[1]
    assert page.locator("#split").is_visible()
    sharp = np.abs(np.diff(picture, axis=1)).mean(axis=(0, 2))
    assert sharp[width // 2 + 4 :].mean() > 0 and not np.allclose(
        picture[:, width // 2 - 1], picture[:, width // 2 + 1]
    )
    page.evaluate("dofnerf.perform('orbit')")
    page.wait_for_timeout(400)
    assert page.evaluate("dofnerf.playing") == "orbit"
    page.keyboard.press("Escape")
    page.focus("#picture")
    page.keyboard.press("Escape")
    assert page.evaluate("dofnerf.playing") is None


def test_soft_walls_hold_and_free_lifts_them(page, made, watched, tmp_path):
    push = (
        "() => { for (let i = 0; i < 60; i++) dofnerf.drag((p) => ({ ...p, position: [p.position[0] + 1, 0, 0] })); }"
    )
    far = "dofnerf.view.pose.position[0]"
    page.evaluate(push)
    page.evaluate("dofnerf.release()")
    page.wait_for_timeout(600)
    settle(page)
    assert page.evaluate(far) < 3
    assert main(["export", str(made / "run"), "--html", "--free", "--out", str(made / "free.html")]) == 0
    free = opened(watched, made, name="free.html")
    free.evaluate(push)
    assert free.evaluate(far) > 50
    free.evaluate("dofnerf.goHome()")
    settle(free)


def test_a_saved_picture_is_exact_and_its_tiles_fit(page, made):
    page.evaluate("document.getElementById('size').append(new Option('1300', '1300'))")
    wide = page.evaluate("dofnerf.facts.opening")
    _, camera, _ = shot(page, wide, 1 / NEAR)
    large = camera.resized(1240, round(1240 * camera.height / camera.width))  # two tiles
    script = """async (width) => { const { canvas } = dofnerf;
      const height = Math.round(width * canvas.height / canvas.width);
      const camera = dofnerf.camera(width, height), lens = dofnerf.lensFor(camera);
      const asked = { camera, lens, reach: dofnerf.reach(), views: 12, exposure: 0 };
      return (await dofnerf.picture(asked, () => true)).toDataURL(); }"""
    picture = decoded(page.evaluate(script, 1240))
    assert picture.shape[:2] == (large.height, large.width)
    seam = np.abs(np.diff(picture, axis=1)).mean(axis=(0, 2))
    assert seam[1023] < 2 * np.median(seam) + 0.01
    with page.expect_download() as download:
        page.click("#save")
    with Image.open(download.value.path()) as saved:
        assert saved.size == (camera.width, camera.height)


def test_memory_stays_while_one_walks_around(made, browser):
    context = browser.new_context(viewport={"width": 480, "height": 300})
    page = context.new_page()
    page.add_init_script("""const made = { count: 0 }; window.made = made;
      for (const kind of ["Texture", "Framebuffer", "Buffer", "Program"]) {
        const p = WebGL2RenderingContext.prototype, create = p[`create${kind}`], remove = p[`delete${kind}`];
        p[`create${kind}`] = function () { made.count += 1; return create.call(this); };
        p[`delete${kind}`] = function (one) { if (one) made.count -= 1; remove.call(this, one); };
      }""")
    page.goto((made / "scene.html").as_uri())
    page.wait_for_selector("body:is([data-state=refining], [data-state=done])")
    page.evaluate("dofnerf.stage.most = 6")
    settle(page)
    page.wait_for_selector("#poster", state="detached")
    session = context.new_cdp_session(page)

    def heap() -> tuple[float, int]:
        session.send("HeapProfiler.collectGarbage")
        return session.send("Runtime.getHeapUsage")["usedSize"], page.evaluate("made.count")

    walk = """async () => { for (let i = 0; i < 60; i++) { dofnerf.drag((p) => p); dofnerf.perform("orbit");
      await new Promise((go) => setTimeout(go, 20)); } dofnerf.stop(); }"""
    page.evaluate(walk)
    settle(page)
    before, objects = heap()
    page.evaluate(walk)
    settle(page)
    after, still = heap()
    assert still == objects
    assert after < before + 500_000
    context.close()


def test_a_phone_has_a_layout_of_its_own_and_every_control_a_name(made, watched):
    page = opened(watched, made, window=(390, 844))
    box = page.locator("#picture").bounding_box()
    assert box["width"] == 390 and box["height"] > 480
    assert page.locator("#aperture").is_visible() and not page.locator("#strip").is_visible()
    page.click("#tabs >> text=Photos")
    assert page.locator("#strip").is_visible() and not page.locator("#aperture").is_visible()
    page.click("#tabs >> text=Play")
    assert page.locator("[data-move=rack]").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    nameless = """[...document.querySelectorAll("button, input, select, canvas[role]")].filter((one) =>
      !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML)"""
    assert page.evaluate(nameless) == []
    words = page.evaluate("document.body.innerText").lower()
    assert not any(word in words for word in ("scene unit", "pixel", " px", "gaussian", "disparity", "resting"))


def test_a_ply_of_another_tool_gets_the_lens(made, watched, capfd):
    write_ply(made / "garden.ply", uneven(light=1.0))
    flags = ["--eye", "0,0,0.4", "--look-at", "0,0,-3", "--up", "0,1,0"]
    assert main(["export", str(made / "garden.ply"), "--html", *flags, "--out", str(made / "garden.html")]) == 0
    assert '<iframe src="garden.html"' in capfd.readouterr().out
    page = opened(watched, made, name="garden.html")
    assert page.locator("#photos").is_hidden()
    picture, camera, _ = shot(page, 0, 0.3)
    from dofnerf.studio.source import open_source

    truth = open_source(made / "garden.ply").model.view(camera).image.clamp(0, 1).numpy()
    assert psnr(picture, truth) > 35
    page.click("#compare")
    settle(page)
    assert page.inner_text("#split-left") == "All sharp"


def test_the_page_needs_nothing_from_elsewhere_and_runs_no_other_script(made):
    words = (made / "scene.html").read_text(encoding="utf-8")
    policy = words.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src" not in policy
    assert "http:" not in words and "https:" not in words
    facts = json.loads(words.split('id="facts">')[1].split("</script>")[0])
    assert len(facts["photos"]) == 5 and torch.isfinite(torch.tensor(facts["range"])).all()


def test_the_start_page_shows_the_scene_and_says_nothing_in_the_console(made, browser):
    StartPage("cans", "scene.html", [("Report", "report.html")], [], "", [], []).write(made / "index.html")
    page, said = browser.new_page(viewport={"width": WINDOW[0], "height": 900}), []
    page.on("console", lambda message: said.append(message.text))
    page.on("requestfailed", lambda request: said.append(request.url))
    page.goto((made / "index.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("body:is([data-state=refining], [data-state=done])").wait_for(timeout=120_000)
    frame.locator("#keys").click()
    assert frame.locator("#help").is_visible()
    page.close()
    assert said == []


def test_hostile_names_are_words(tmp_path, watched):
    """Names of photos and folders as markup, in the page and in the one that `dofnerf run` ends with."""
    nasty = "\"'><img src=x onerror=hacked=1><script>hacked=1<\\script>@facts@"
    run = tmp_path / nasty
    write_run(run)
    names = (run / "cameras.json").read_text().replace('"view-', json.dumps(nasty)[:-1] + "</script>")
    (run / "cameras.json").write_text(names)
    assert main(["export", str(run), "--html", "--out", str(tmp_path / "scene.html")]) == 0
    rows = [["Photo"], [nasty + "</script>"]]
    StartPage(nasty, None, [(nasty, f"{nasty}.html")], rows, nasty, [nasty], [nasty]).write(tmp_path / "a.html")
    start = watched((tmp_path / "a.html").as_uri(), *WINDOW)
    assert start.title() == nasty and start.locator("td").inner_text() == nasty + "</script>"
    assert start.locator("a").first.get_attribute("href").startswith("%22")
    page = opened(watched, tmp_path)
    assert page.evaluate("dofnerf.facts.photos[0].name") == nasty.replace("\\", "/") + "</script>0"
    for one in (start, page):
        assert one.evaluate("typeof hacked") == "undefined" and one.locator("img[src=x]").count() == 0
