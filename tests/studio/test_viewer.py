"""`dofnerf view`: whom its server answers, with what, and the page in a browser at a small run."""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from looks import sharpness
from small_shots import CAMERA, FAR, NEAR, card_and_wall, write_ply, write_run

from dofnerf.cli import main
from dofnerf.optics import scatter_layers
from dofnerf.optics.shapes import RealLens
from dofnerf.studio.keyframes import between, read_keyframes
from dofnerf.studio.view import DEMO_RUN, VIEW_RUN, ViewConfig, demo_run, prepare
from dofnerf.studio.viewer.films import Job, reserve
from dofnerf.studio.viewer.renderer import Settings, draw, photograph
from dofnerf.studio.viewer.server import Guard, Server, settings_of
from dofnerf.train.checkpoint import FILE
from dofnerf.web.start_page import StartPage

SIZE = 80  # pixels of the longer side of what the server draws


def start(folder, field="splat"):
    write_run(folder, field)
    server = Server(prepare(ViewConfig(folder, size=SIZE)), "127.0.0.1", 0)
    server.start()
    return server


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    server = start(tmp_path_factory.mktemp("viewed") / "run")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    server = start(tmp_path_factory.mktemp("viewed") / "volume", "hash")
    yield server
    server.stop()


def ask(server, method, path, body=None, **headers) -> tuple[int, bytes]:
    """Status and body; `Host` is ours unless given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in headers)
    data = None if body is None else json.dumps(body).encode()
    for key, value in (headers | ({} if data is None else {"Content-Length": str(len(data))})).items():
        connection.putheader(key, value)
    connection.endheaders(data)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def told(camera=CAMERA) -> dict:
    pose = camera.camera_to_world
    numbers = {key: getattr(camera, key) for key in ("fx", "fy", "cx", "cy", "width", "height")}
    return {"position": pose[:, 3].tolist(), "axes": pose[:, :3].T.reshape(-1).tolist(), **numbers}


def asked(**more) -> dict:
    return {"camera": told(), "lens": {"aperture": 4.0, "focus": 0.4}, "level": 9} | more


def until(true, seconds=60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_only_its_own_host_and_origin_are_answered(served):
    ours = f"127.0.0.1:{served.port}"
    for headers in ({}, {"Host": ours}, {"Host": f"localhost:{served.port}"}, {"Origin": f"http://{ours}"}):
        assert ask(served, "GET", "/status", **headers)[0] == 200, headers
    evil = [
        {"Host": "evil.example"}, {"Host": f"evil.example:{served.port}"}, {"Host": ""},
        {"Host": f"{ours}@evil.example"},
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"https://{ours}"},
        {"Origin": "http://127.0.0.1:1"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
        {"Host": "192.168.1.5"}, {"Origin": "http://evil.example", "Upgrade": "websocket", "Connection": "Upgrade"},
        {"Host": "evil.example", "Upgrade": "websocket", "Connection": "Upgrade"},
    ]  # fmt: skip
    before = len(served.viewer.films.jobs)
    for headers in evil:
        for method, path, body in (
            ("GET", "/", None), ("GET", "/scene.bin", None), ("POST", "/films", {}), ("DELETE", "/films/film-1.mp4",
            None)
        ):  # fmt: skip
            if path == "/" and "Sec_Fetch_Site" in headers:
                continue  # a link from elsewhere may open the page
            assert ask(served, method, path, body, **headers)[0] == 403, (headers, path)
    assert len(served.viewer.films.jobs) == before


def test_more_hosts_by_flags():
    assert Guard("192.168.1.5").allows("192.168.1.5:80", None, None, False)
    assert not Guard("192.168.1.5").allows("192.168.1.6:80", None, None, False)
    everywhere = Guard("0.0.0.0", ["https://pictures.example"])
    assert everywhere.allows("10.0.0.3:8080", "http://10.0.0.3:8080", None, False)
    assert everywhere.allows("pictures.example", "https://pictures.example", "same-origin", False)
    assert not everywhere.allows("pictures.example", "https://evil.example", None, False)
    assert not everywhere.allows("evil.example", None, None, True)


def test_nothing_but_the_page_is_served_and_nonsense_is_refused_in_one_line(served, capfd):
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/checkpoint.safetensors", "/photos/99999.jpg",
                 "/films/../checkpoint.safetensors", "/films/film-1.mp4%00.json"):  # fmt: skip
        status, body = ask(served, "GET", path)
        assert status == 404 and b"root:" not in body, path
    for body in ({}, [], asked(camera=3), asked(lens=None), asked(level=float("1e999")),
                 asked(camera=told() | {"fx": -1}),
                 asked(camera=told() | {"axes": [0] * 9}), asked(camera=told() | {"fx": 1e-300}),
                 asked(camera=told() | {"position": [0, 1e300, 0]}), asked(camera=told() | {"cx": 10**400}),
                 {"keyframes": [1, 2], "seconds": 2}, {"keyframes": [asked()] * 20, "seconds": 60},
                 {"keyframes": [asked(camera=told() | {"width": 4000, "height": 1})] * 2, "seconds": 1}):  # fmt: skip
        for path in ("/picture", "/films", "/depth"):
            if path == "/depth" and isinstance(body, dict) and body.get("camera") == told():
                continue  # asks for no lens
            status, _ = ask(served, "POST", path, body)
            assert status == 400, (path, body)
    capfd.readouterr()
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as line:
            line.sendall(garbage)
            line.shutdown(socket.SHUT_WR)
            while line.recv(4096):
                pass
    time.sleep(0.3)
    err = capfd.readouterr().err
    assert "Traceback" not in err and err.count("\n") <= 3
    assert ask(served, "GET", "/status")[0] == 200


def test_a_slow_visitor_slows_nobody(served):
    lines = [socket.create_connection(("127.0.0.1", served.port), timeout=20) for _ in range(32)]
    try:
        for line in lines:
            line.sendall(b"GET /scene.bin HTTP/1.1\r\nHost: localhost\r\n")  # and never ends its question
        begun = time.monotonic()
        assert ask(served, "GET", "/scene.bin")[0] == 200
        assert time.monotonic() - begun < 10
    finally:
        for line in lines:
            line.close()


def test_the_server_draws_what_the_browser_cannot(volume):
    assert volume.viewer.scene is None and volume.viewer.facts["drawn"]
    status, data = ask(volume, "POST", "/picture", asked())
    assert status == 200 and data[:2] == b"\xff\xd8"
    status, data = ask(volume, "POST", "/picture", asked(png=True, overlay=2))
    assert status == 200 and data[:4] == b"\x89PNG"
    status, data = ask(volume, "POST", "/depth", {"camera": told(), "column": 30, "row": 20})
    assert status == 200 and "disparity" in json.loads(data)
    for x in range(6):
        moved = told() | {"position": [0.01 * x, 0, 0]}
        ask(volume, "POST", "/picture", asked(camera=moved))
    assert len(volume.viewer.kept) <= 3


def test_a_film_is_made_without_anybody_watching_and_can_be_cancelled(served):
    frames = [
        {k: v for k, v in asked(camera=told() | {"position": [x, 0, 0]}).items() if k != "level"} for x in (0, 0.1)
    ]
    folder = served.viewer.films.folder
    start = folder.parent.parent / "index.html"
    StartPage("all", None, [], [], "", [], []).write(start)
    status, data = ask(served, "POST", "/films", {"keyframes": frames, "seconds": 0.2})
    assert status == 200
    name = json.loads(data)["name"]
    until(lambda: served.viewer.films.facts()[0]["state"] == "done")
    assert (folder / name).is_file() and (folder / name).with_suffix(".json").is_file()
    assert ask(served, "GET", f"/films/{name}")[1][4:8] == b"ftyp"
    assert start.read_text().count(f'<a href="run/films/{name}">') == 1  # the page of `dofnerf run` links it
    status, data = ask(served, "POST", "/films", {"keyframes": frames, "seconds": 60})
    other = json.loads(data)["name"]
    ask(served, "DELETE", f"/films/{other}")
    until(lambda: served.viewer.films.facts()[0]["state"] == "cancelled")
    assert not (folder / other).exists() and not (folder / other).with_suffix(".json").exists()


def test_films_and_pictures_have_the_shape_of_your_own_lens(served, monkeypatch):
    """What the page calls -1 blades: the lens that was found, or --shape."""
    shape, begun = RealLens(blades=5, roundness=0.5), []
    monkeypatch.setattr(served.viewer, "shape", shape)
    monkeypatch.setattr(
        served.viewer.films, "start", lambda moments: begun.extend(moments) or Job(Path("a.mp4"), [], 2)
    )
    frames = [asked(blades=blades, rotation=30) for blades in (-1, 6)]
    served.viewer.film({"keyframes": frames, "seconds": 1})
    assert [(moment.shape, moment.blades) for moment in begun] == [("learned", 0), (None, 6)]
    settings = settings_of(frames[0], shape)
    assert settings.lens(CAMERA).shape == replace(shape, rotation=math.radians(30))


def test_films_of_two_pages_have_names_of_their_own(tmp_path):
    (tmp_path / "film-2.mp4").write_bytes(b"")
    assert [reserve(tmp_path).name for _ in range(3)] == ["film-1.mp4", "film-3.mp4", "film-4.mp4"]


def opened(watched, server, most=4):
    page = watched(f"http://127.0.0.1:{server.port}/", 720, 240)
    page.wait_for_selector("body:is([data-state=refining], [data-state=done])")
    if most:
        page.evaluate(f"dofnerf.stage.most = {most}")  # a graphics card would not need that
    page.wait_for_selector("body[data-state=done]")
    return page


def test_the_page_walks_where_the_browser_draws_and_where_the_server_does(served, volume, watched):
    page = opened(watched, served)
    box = page.locator("#picture").bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_selector("#ring.seen")
    page.wait_for_timeout(800)
    assert 1 / page.evaluate("dofnerf.view.lens.focus") == pytest.approx(NEAR, rel=0.03)
    assert opened(watched, volume, most=None).locator("#films").is_visible()


def test_a_film_is_planned_made_and_kept_when_the_tab_is_closed(served, watched):
    page, frames = opened(watched, served), "#keyframes li"
    page.click("#add")
    for focus in (0.2, 0.4):
        page.evaluate(f"dofnerf.set({{ lens: {{ focus: {focus} }} }})")
        page.click("#add")
    assert page.locator(frames).count() == 3 and page.locator(f"{frames} canvas").count() == 3
    page.click(f"{frames} >> nth=1 >> text=✕")
    page.click(f"{frames} >> nth=1 >> text=↑")  # 0.4 comes first now
    page.select_option("#seconds", "1")
    page.click("#preview")
    page.wait_for_timeout(400)
    assert page.evaluate("dofnerf.view.lens.focus") == pytest.approx(0.4, abs=0.05)
    page.wait_for_timeout(1500)
    page.wait_for_selector("body[data-state=done]")
    assert page.evaluate("dofnerf.view.lens.focus") != pytest.approx(0.4, abs=0.01)
    page.select_option("#seconds", "8")
    page.click("#render")
    page.click("#jobs >> text=Cancel")
    page.wait_for_selector("#jobs >> text=cancelled")
    page.select_option("#seconds", "1")
    page.evaluate("dofnerf.set({ lens: { focus: 0.3, opening: 0.05 }, exposure: 1 })")
    page.click("#add")  # three, so that there is a curve
    page.click("#render")
    page.wait_for_selector("#jobs button >> text=Cancel")
    # The name that was free is taken again.
    until(lambda: page.locator("#jobs li").count() == len(served.viewer.films.facts()))
    times = [0.0, 0.3, 0.9, 1.0, 1.6, 2.0]
    previewed = page.evaluate("(times) => times.map((time) => dofnerf.film(time / 2))", times)
    page.context.close()
    until(lambda: served.viewer.films.facts()[0]["state"] == "done")
    again = opened(watched, served)
    name = served.viewer.films.facts()[0]["name"]
    filmed = between(read_keyframes((served.viewer.films.folder / name).with_suffix(".json")), times)
    for moment, shown in zip(filmed, previewed, strict=True):
        assert shown["lens"]["focus"] == pytest.approx(moment.view.lens.focus_disparity, abs=1e-4)
        radius = moment.view.lens.aperture / moment.view.camera.fx
        assert shown["lens"]["opening"] * shown["pose"]["focal"] == pytest.approx(radius, rel=1e-3)
        assert shown["exposure"] == pytest.approx(moment.exposure, abs=1e-6)
        pose = moment.view.camera.camera_to_world
        assert np.allclose(shown["pose"]["position"], pose[:, 3], atol=1e-5)
        assert np.allclose(np.reshape(shown["pose"]["axes"], (3, 3)).T, pose[:, :3], atol=1e-5)
    with again.expect_download() as download:
        again.click(f"#jobs li:has-text('{name}') >> text=Download")
    assert download.value.suggested_filename == name
    assert download.value.path().read_bytes()[4:8] == b"ftyp" and (served.viewer.films.folder / name).is_file()


def test_the_page_follows_a_run_that_is_still_training(tmp_path, watched):
    server = start(tmp_path / "run")
    try:
        server.viewer.source.run.learner.progress.step = 1
        page = opened(watched, server)
        page.wait_for_selector("#training >> text=/Still learning: 0 %/")
        before = page.evaluate("dofnerf.canvas.toDataURL()")
        kept, reload = tmp_path / "run" / FILE, server.viewer.reload

        def trained():
            source = reload()
            with torch.no_grad():
                source.model.means += 0.1
            return source

        server.viewer.reload = trained
        os.utime(kept, (1, 1))
        page.wait_for_selector("#training", state="hidden")
        page.wait_for_selector("body[data-state=done]")
        after = page.evaluate("dofnerf.canvas.toDataURL()")
        assert before != after
    finally:
        server.stop()


def test_the_lens_is_put_before_kept_layers_without_the_model(monkeypatch):
    model = card_and_wall()
    drawn = draw(model, CAMERA, 3)
    monkeypatch.setattr(model, "layers", None)
    monkeypatch.setattr(model, "view", None)
    near, far = (photograph(drawn, Settings(8 / CAMERA.fx, 1 / depth), 2.2) for depth in (NEAR, FAR))
    assert sharpness(near[6:-6, 6:24]) > 4 * sharpness(far[6:-6, 6:24])
    assert sharpness(far[6:-6, 40:58]) > 4 * sharpness(near[6:-6, 40:58])


def test_overlays_mark_what_is_in_focus_and_what_is_near():
    drawn = draw(card_and_wall(), CAMERA, 3)
    plain = photograph(drawn, Settings(8 / CAMERA.fx, 1 / NEAR), 2.2)
    peaking = photograph(drawn, Settings(8 / CAMERA.fx, 1 / NEAR, overlay="focus peaking"), 2.2)
    redder = (peaking - plain)[..., 0] - (peaking - plain)[..., 1:].mean(-1)
    assert redder[6:-6, 6:24].mean() > 0.05 + redder[6:-6, 40:58].mean()
    depth = photograph(drawn, Settings(overlay="depth"), 2.2)
    assert depth[24, 15, 0] > 0.4 > depth[24, 50, 0] or depth[24, 15, 2] < depth[24, 50, 2]


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give the folder of a run, or --demo"),
        (["RUN", "--demo"], "not both"),
        (["RUN", "--size", "9"], "--size must be 64"),
        (["RUN", "--port", "99999"], "--port must be"),
        (["RUN", "--allow-origin", "evil"], "--allow-origin must be like"),
        (["nowhere"], "no such run"),
        (["--demo", "--eye", "0,0,1"], "give both --eye and --look-at"),
        (["--demo", "--blend", "light"], "--blend is for files of splats"),
    ],
)
def test_refusals(served, capfd, arguments, words):
    run = str(served.viewer.source.folder)
    assert main(["view", *(argument.replace("RUN", run) for argument in arguments)]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1
