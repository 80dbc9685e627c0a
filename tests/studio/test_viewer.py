"""`dofnerf view` as a person meets it: a browser at a small run, clicks and sliders, and what is seen then."""

from __future__ import annotations

import http.client
import math
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from looks import sharpness
from PIL import Image
from small_shots import CAMERA, FAR, NEAR, card_and_wall, write_ply, write_run

from browser import screenshot
from dofnerf.cli import main
from dofnerf.optics import scatter_layers
from dofnerf.studio.view import DEMO_RUN, VIEW_RUN, ViewConfig, demo_run, prepare
from dofnerf.studio.viewer.renderer import draw, photograph, quick_look, smaller
from dofnerf.studio.viewer.session import Session, same, side_by_side, to_pane
from dofnerf.studio.viewer.settings import STOPS, Settings, from_json

viser = pytest.importorskip("viser", reason="viser is not installed (pip install 'dofnerf[view]')")
WINDOW = 700, 320
SIZE = 80  # pixels of the picture's longer side
NEAR_PART, FAR_PART = (8, 24), (40, 54)  # columns of CAMERA's picture in which there is only the card, only the wall


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from dofnerf.studio.viewer.server import serve

    folder = tmp_path_factory.mktemp("viewed")
    write_run(folder / "run")
    shared = prepare(ViewConfig(folder / "run", size=SIZE))
    served = serve(shared, "127.0.0.1", 18080, "test")
    served.shared = shared
    yield served
    served.stop()


@pytest.fixture
def visit(server, watched):
    """Opens the viewer as one more session → (page, session)."""

    def enter():
        before = set(server.sessions)
        page = watched(f"http://127.0.0.1:{server.get_port()}", *WINDOW)
        session = newcomer(server, before)
        settle(page, session)
        return page, session

    return enter


def newcomer(server, before):
    until(lambda: set(server.sessions) - before)
    return server.sessions[max(set(server.sessions) - before)]


def until(true, seconds=60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def settle(page, session) -> None:
    page.wait_for_timeout(100)
    assert session.resting.wait(60)
    page.wait_for_function("document.body.innerText.includes('resting')")
    page.wait_for_timeout(300)


def seen(page) -> tuple[float, float]:
    """Sharpness of the card and of the wall, in pixels of CAMERA's picture."""
    shot = Image.fromarray((255 * screenshot(page)).astype(np.uint8))
    parts = []
    for first, last in (NEAR_PART, FAR_PART):
        (left, top), (right, bottom) = place(page, first, 20), place(page, last, 42)
        crop = shot.crop((round(left), round(top), round(right), round(bottom)))
        parts.append(sharpness(np.asarray(crop.resize((last - first, 22), Image.Resampling.BOX)).astype(float) / 255))
    return parts[0], parts[1]


def place(page, column: float, row: float) -> tuple[float, float]:
    """Where a pixel of CAMERA's picture is in the window: the canvas is as high, and shows more at its sides."""
    box = page.locator("canvas").first.bounding_box()
    scale = box["height"] / CAMERA.height
    return box["x"] + box["width"] / 2 + (column - CAMERA.width / 2) * scale, box["y"] + row * scale


def act(page, session, do) -> tuple[float, float]:
    """Do something that changes the settings or the camera → what is seen then."""
    session.resting.clear()
    do()
    settle(page, session)
    return seen(page)


def test_click_sliders_reload_and_a_second_session(visit, server):
    page, session = visit()
    near = act(page, session, lambda: page.mouse.click(*place(page, 16, 30)))
    assert 1 / session.settings.disparity == pytest.approx(NEAR, rel=0.03)
    far = act(page, session, lambda: page.mouse.click(*place(page, 47, 30)))
    assert 1 / session.settings.disparity == pytest.approx(FAR, rel=0.05)
    assert near[0] > 2 * far[0] and far[1] > 2 * near[1]

    aperture = page.get_by_role("slider").nth(0)
    wide = act(page, session, lambda: aperture.press("End"))
    assert session.settings.radius == pytest.approx(server.shared.widest) and wide[0] < 0.7 * far[0]
    sharp = act(page, session, lambda: page.get_by_role("button", name="All sharp", exact=True).click())
    assert session.settings.radius == 0 and sharp[0] > 2 * wide[0]
    focused = act(page, session, lambda: (aperture.press("End"), page.get_by_role("slider").nth(1).press("Home")))
    assert session.settings.disparity == pytest.approx(server.shared.range[1], rel=1e-3) and focused[1] < 0.7 * sharp[1]

    settings, before = session.settings, set(server.sessions)
    act(page, session, lambda: page.mouse.click(*place(page, 16, 30)))
    settings = session.settings
    page.reload()
    again = newcomer(server, before)
    settle(page, again)
    assert again.settings == settings
    assert np.allclose(again.client.camera.position, session.client.camera.position, atol=1e-4)

    other, second = visit()
    kept = again.settings
    act(other, second, lambda: other.mouse.click(*place(other, 47, 30)))
    assert second.settings.disparity < 0.6 * kept.disparity and again.settings == kept
    other.close()

    shot = act(page, again, lambda: page.get_by_role("button", name="As shot").click())
    lens = server.shared.learned("view-0")
    assert again.settings.radius == pytest.approx(lens.aperture) and again.settings.disparity == pytest.approx(
        1 / lens.focus_depth
    )
    assert min(shot) > 0
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the frame").click()
    with Image.open(download.value.path()) as picture:
        assert max(picture.size) == SIZE

    page.get_by_text("Film", exact=True).click()
    for _ in range(2):
        page.get_by_role("button", name="Add a keyframe").click()
    until(lambda: not again.panel.film.disabled)
    again.panel.seconds.value = 0.5
    page.get_by_role("button", name="Render the film").click()
    films = server.shared.folder / "films"
    until((films / "film-1.mp4").is_file)
    assert (films / "film-1.json").is_file()


def test_only_this_machine_and_only_the_page_is_served(server):
    assert server.get_host() == "127.0.0.1"
    assert server.request_share_url() is None
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/checkpoint.safetensors", "/_viser.py"):
        connection = http.client.HTTPConnection("127.0.0.1", server.get_port(), timeout=20)
        connection.putrequest("GET", path, skip_host=False)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status >= 400, path
        assert b"root:" not in body
        connection.close()


def test_the_lens_is_put_before_kept_layers_without_the_model(monkeypatch):
    model = card_and_wall()
    drawn = draw(model, CAMERA, 3)
    monkeypatch.setattr(model, "layers", None)
    monkeypatch.setattr(model, "view", None)
    near, far = (photograph(drawn, Settings(8 / CAMERA.fx, 1 / depth), 2.2) for depth in (NEAR, FAR))
    assert sharpness(near[6:-6, 6:24]) > 4 * sharpness(far[6:-6, 6:24])
    assert sharpness(far[6:-6, 40:58]) > 4 * sharpness(near[6:-6, 40:58])
    half = smaller(drawn, 2)
    assert photograph(half, Settings(), 2.2).shape == (24, 32, 3) and half.camera.fx == CAMERA.fx / 2


def test_strips_of_a_volumetric_field_make_the_whole(tmp_path):
    from dofnerf.studio.source import open_source
    from dofnerf.studio.viewer import renderer

    write_run(tmp_path / "volume", "hash")
    model = open_source(tmp_path / "volume", device="cpu").model
    whole, layers = model.layers(CAMERA, 3)
    strips = renderer.STRIP
    try:
        renderer.STRIP = 7 * CAMERA.width
        drawn = draw(model, CAMERA, 3)
    finally:
        renderer.STRIP = strips
    assert float((drawn.view.image - whole.image).abs().max()) < 1e-5
    assert float((drawn.layers.alpha - layers.alpha).abs().max()) < 1e-5
    assert draw(model, CAMERA, 3, wanted=lambda: False) is None


def test_a_glance_shows_the_same_picture_with_fewer_pixels():
    model = card_and_wall()
    settings = Settings(5 / CAMERA.fx, 1 / NEAR)
    drawn, picture = quick_look(model, CAMERA.resized(32, 24), settings, 2.2)
    whole = photograph(draw(model, CAMERA, 3), settings, 2.2).reshape(24, 2, 32, 2, 3).mean((1, 3))
    assert drawn.layers is None and np.abs(picture - whole)[2:-2, 2:-2].mean() < 0.04


def test_overlays_mark_what_is_in_focus_and_what_is_near():
    drawn = draw(card_and_wall(), CAMERA, 3)
    plain = photograph(drawn, Settings(8 / CAMERA.fx, 1 / NEAR), 2.2)
    peaking = photograph(drawn, Settings(8 / CAMERA.fx, 1 / NEAR, overlay="focus peaking"), 2.2)
    redder = (peaking - plain)[..., 0] - (peaking - plain)[..., 1:].mean(-1)
    assert redder[6:-6, 6:24].mean() > 0.05 + redder[6:-6, 40:58].mean()
    depth = photograph(drawn, Settings(overlay="depth"), 2.2)
    assert depth[24, 15, 0] > 0.4 > depth[24, 50, 0] or depth[24, 15, 2] < depth[24, 50, 2]


def test_side_by_side_and_where_a_click_lands():
    picture, photo = np.full((30, 40, 3), 0.25), np.full((30, 40, 3), 0.75)
    for aspect in (1.0, 2.0, 4.0):
        sheet = side_by_side(picture, photo, aspect)
        assert sheet.shape[1] / sheet.shape[0] == pytest.approx(aspect, rel=0.03)
        rows, columns = np.nonzero(sheet[..., 0] == 0.25)
        for row, column, wanted in ((rows.min(), columns.min(), (0, 0)), (rows.max() + 1, columns.max() + 1, (1, 1))):
            place = to_pane(column / sheet.shape[1], row / sheet.shape[0], sheet.shape[1] / sheet.shape[0], 4 / 3)
            assert place == pytest.approx(wanted, abs=0.05)
        assert (sheet[..., 0] == 0.75).sum() == (sheet[..., 0] == 0.25).sum() == 1200


def test_kept_settings_come_back_and_nonsense_does_not():
    settings = Settings(0.1, 0.4, 6, 30.0, -1.0, "depth", "a.png", True)
    pose = {"position": [0.0, 1, 2], "wxyz": [1.0, 0, 0, 0], "look_at": [0.0, 0, 0], "up": [0.0, 1, 0], "fov": 0.8}
    text = settings.to_json(pose)
    assert from_json(text, 1.0, ("a.png",)) == (settings, pose)
    broken = [
        text.replace(*pair) for pair in (("0.4", "NaN"), ("0.1", "9"), ("depth", "x"), ("a.png", "b"), ("0.8", "[]"))
    ]
    for bad in (None, "", "[]", "{}", text[:-4], *broken):
        assert from_json(bad, 1.0, ("a.png",)) is None, bad
    assert same(CAMERA, CAMERA) and same(CAMERA, CAMERA.resized(32, 24)) and not same(CAMERA, CAMERA.resized(40, 24))


def test_the_demo_is_a_run_that_is_there_or_is_trained_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        sys.modules["dofnerf.train"],
        "train",
        lambda scene, training, **options: asked.append((scene, training, options)),
    )
    assert demo_run() == VIEW_RUN
    (scene, training, options), *more = asked
    assert not more and scene.name == "demo_scene" and 100 < training.method.total < 1000
    assert options["out"] == VIEW_RUN and options["resume"]
    DEMO_RUN.mkdir(parents=True)
    (DEMO_RUN / "checkpoint.safetensors").write_bytes(b"")
    assert demo_run() == DEMO_RUN and len(asked) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give the folder of a run, or --demo"),
        (["RUN", "--demo"], "not both"),
        (["RUN", "--size", "9"], "--size must be 64"),
        (["RUN", "--port", "99999"], "--port must be"),
        (["nowhere"], "no such run"),
        (["--demo", "--eye", "0,0,1"], "give both --eye and --look-at"),
        (["--demo", "--blend", "light"], "--blend is for .ply files"),
    ],
)
def test_refusals(server, capfd, arguments, words):
    run = str(server.shared.folder)
    assert main(["view", *(argument.replace("RUN", run) for argument in arguments)]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_ply_keeps_its_colours_when_the_lens_opens(tmp_path):
    from dofnerf.studio.flags import SplatFileFlags
    from dofnerf.studio.shoot import PAGE_LIGHT, layered_picture
    from dofnerf.studio.source import open_file

    model = card_and_wall()
    with torch.no_grad():
        model.opacity_logits.fill_(0.0)  # much shines through: how that mixes is seen
    write_ply(tmp_path / "a.ply", model)
    source = open_file(tmp_path / "a.ply", SplatFileFlags(), "cpu")
    assert source.flat
    sharp = source.model.view(CAMERA).image.detach().numpy()
    drawn = draw(source.model, CAMERA, 3, cut=source.light)
    barely = photograph(drawn, Settings(1e-4 / CAMERA.fx, 1 / NEAR), source.light)
    assert np.abs(barely - sharp).max() < 0.01
    layers = layered_picture(source, CAMERA, 4).layers
    page = scatter_layers(layers.colour, layers.alpha, torch.zeros_like(layers.alpha), light=PAGE_LIGHT)
    assert np.abs(page.numpy() - sharp).max() < 0.01
    theirs = photograph(draw(source.model, CAMERA, 3), Settings(1e-4 / CAMERA.fx, 1 / NEAR), source.light)
    assert np.abs(theirs - sharp).max() > 0.02  # or else nothing is shown by this


def test_films_of_two_sessions_have_names_of_their_own(tmp_path):
    from dofnerf.studio.viewer.server import reserve

    (tmp_path / "film-2.mp4").write_bytes(b"")
    assert [reserve(tmp_path).name for _ in range(3)] == ["film-1.mp4", "film-3.mp4", "film-4.mp4"]


def test_what_a_browser_sends_is_kept_within_bounds_and_runs_apart(server):
    from dofnerf.studio.viewer.panel import Panel

    panel = object.__new__(Panel)
    panel.shared = server.shared
    sent = {
        "aperture": 7,
        "focus": math.nan,
        "blades": "999",
        "rotation": -5,
        "exposure": 1e9,
        "overlay": "x",
        "beside": True,
    }
    for name, value in sent.items():
        setattr(panel, name, SimpleNamespace(value=value))
    assert panel.read(0.3, "view-0") == Settings(server.shared.widest, 0.3, 0, 0.0, STOPS, "none", "view-0", False)
    assert panel.disparity() == server.shared.range[1]
    other = replace(server.shared, source=replace(server.shared.source, path=server.shared.folder / "other"))
    assert other.key != server.shared.key == replace(server.shared).key


def test_no_photo_is_shown_beside_that_has_no_file(server):
    session = object.__new__(Session)
    session.shared = replace(server.shared, photos={"view-1": np.zeros((18, 24, 3))})
    session.settings, session.pull, session.lock = Settings(photo="view-1", beside=True), (0.0, 0.0), threading.RLock()
    session.resting, session.changed = threading.Event(), threading.Event()
    session.change(exposure=1.0)
    assert session.settings.beside
    session.change(photo="view-0")
    assert session.settings == Settings(photo="view-0", exposure=1.0)
