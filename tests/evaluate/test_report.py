"""`dofnerf report`: the page in a real browser, headless, at the width of a phone and of a desk."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import socket
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from cameras_around import facing_forward
from dofnerf.cli import main
from dofnerf.evaluate.charts import PhotoLenses, curve_chart, lens_charts, measured_plot, pixels_of
from dofnerf.evaluate.comparison import Box, box_of_most, error_map, largest_error_box
from dofnerf.evaluate.report.gains import _energy, sightings
from dofnerf.evaluate.report.run_page import write_run_page
from dofnerf.evaluate.trained import open_trained
from dofnerf.scenes import Frame, Lens, Scene
from dofnerf.scenes.exif import Exif
from dofnerf.train.measured import MeasuredLens
from dofnerf.train.scale import Scale

SIZES = {"phone": (390, 844), "desk": (1280, 900)}


@pytest.fixture(scope="module")
def report(trained, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "page.html"
    assert main(["report", str(trained / "ours"), "--out", str(out)]) == 0
    return out


@pytest.fixture(params=SIZES)
def opened(request, browser, report):
    """The page, with what it complained about and what it asked the network for."""
    width, height = SIZES[request.param]
    page = browser.new_page(viewport={"width": width, "height": height})
    trouble, asked = [], []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    yield page, trouble, asked
    page.close()


def test_the_page_may_ask_nobody(opened):
    """The policy holds, also for a script that got in: nothing leaves."""
    page, listener = opened[0], socket.create_server(("127.0.0.1", 0))
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; img-src data:;") and "http" not in policy
    blocked = page.evaluate(
        """there => new Promise(resolve => {
            const blocked = [];
            document.addEventListener("securitypolicyviolation", event => {
                blocked.push(event.effectiveDirective);
                if (blocked.length === 4) resolve(blocked.sort());
            });
            fetch(there).catch(() => 0);
            new Image().src = there;
            for (const [name, key] of [["iframe", "src"], ["script", "src"]]) {
                const element = document.createElement(name);
                element[key] = there;
                document.body.append(element);
            }
        })""",
        f"http://127.0.0.1:{listener.getsockname()[1]}/",
    )
    assert blocked == ["connect-src", "frame-src", "img-src", "script-src-elem"]
    listener.settimeout(0.5)
    with listener, pytest.raises(TimeoutError):
        visitor = listener.accept()[0]  # Chromium may connect in advance, and then sends nothing
        visitor.settimeout(0.5)
        assert not visitor.recv(1)
        raise TimeoutError


def test_it_opens_without_trouble_and_without_network(opened, report):
    page, trouble, asked = opened
    assert trouble == []
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    broken = "[...document.images].filter(image => !(image.complete && image.naturalWidth > 0)).length"
    assert page.evaluate(broken) == 0
    assert page.evaluate("document.images.length") >= 10
    for words in (
        "Before and after",
        "What the photos do not show",
        "Held-out views",
        "The lens of every photo",
        "Figures",
        "Training",
        "The scene in space",
    ):
        assert page.get_by_role("heading", name=words).count() == 1


def test_the_slider_moves_by_pointer_and_keyboard(opened):
    page, trouble, _ = opened
    slider = page.locator(".compare").first
    slider.scroll_into_view_if_needed()
    place = slider.bounding_box()

    def edge() -> float:
        """Where the second picture begins, as a share of the width."""
        clip = slider.locator(".after").evaluate("image => getComputedStyle(image).clipPath")
        return float(re.search(r"([\d.]+)%\)?$", clip)[1]) / 100

    assert edge() == pytest.approx(0.5)
    middle = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + 0.5 * place["width"], middle)
    page.mouse.down()
    page.mouse.move(place["x"] + 0.2 * place["width"], middle, steps=4)
    page.mouse.up()
    assert edge() == pytest.approx(0.2, abs=0.01)
    page.mouse.click(place["x"] + 0.8 * place["width"], middle)
    assert edge() == pytest.approx(0.8, abs=0.01)
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    assert edge() == pytest.approx(0.78, abs=0.01)
    bar = slider.locator(".bar").bounding_box()
    assert bar["x"] + bar["width"] / 2 == pytest.approx(place["x"] + edge() * place["width"], abs=1)
    assert trouble == []


def test_the_scene_turns_and_a_click_on_a_camera_flies_there(opened):
    page, trouble, _ = opened
    page.set_default_timeout(120_000)
    canvas = page.locator("canvas.cameras")
    canvas.scroll_into_view_if_needed()
    page.wait_for_selector("body:is([data-state=refining], [data-state=done])")
    page.evaluate("dofnerf.stage.most = 4")  # a graphics card would not need that
    page.wait_for_selector("body[data-state=done]")
    place = canvas.bounding_box()

    def drawn() -> np.ndarray:
        with Image.open(io.BytesIO(canvas.screenshot())) as shot:
            return np.asarray(shot.convert("RGB")).reshape(-1, 3).astype(int)

    before = drawn()
    assert (np.abs(before - np.median(before, axis=0)).max(1) > 30).mean() > 0.01
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] / 2 + 30, place["y"] + place["height"] / 2 + 10, steps=3)
    page.mouse.up()
    page.wait_for_selector("body[data-state=done]")
    assert (drawn() != before).any(axis=1).mean() > 0.005

    tip = """() => { const [photo, tip, rim] = dofnerf.placed()[0]; return [photo, ...[0, 1].map((k) =>
      (tip[k] + rim.reduce((sum, corner) => sum + corner[k], 0)) / 5)]; }"""
    _, x, y = page.evaluate(tip)
    page.mouse.click(place["x"] + x, place["y"] + y)
    page.wait_for_timeout(1500)
    page.wait_for_selector("body[data-state=done]")
    photo, view = page.evaluate("dofnerf.photo"), page.evaluate("dofnerf.view")
    assert np.allclose(view["pose"]["position"], photo["position"]) and view["lens"]["focus"] == photo["focus"]
    assert page.locator("#space-photo").evaluate("list => list.selectedOptions[0].textContent") == photo["name"]
    page.click("#space-home")
    page.wait_for_timeout(1500)
    assert page.evaluate("dofnerf.photo") is None
    assert page.evaluate("location.hash") == ""
    assert trouble == []


def test_figures_on_the_page_are_those_of_eval(trained, report, tmp_path, capsys):
    assert main(["eval", str(trained / "ours"), "--out", str(tmp_path)]) == 0
    mean = (tmp_path / "eval.csv").read_text().splitlines()[-1].split(",")
    words = report.read_text(encoding="utf-8")
    assert f"<td>{float(mean[2]):.2f}</td>" in words
    assert f"<td>{float(mean[3]):.4f}</td>" in words


def test_the_table_of_photos_has_all_that_the_run_learned_of_them(trained, report):
    """Whatever columns the run's own table has; but for what a photo's blur does not tell."""
    untold = dict.fromkeys(("aperture", "K", "lens_radius"), "aperture_se")
    untold |= dict.fromkeys(("focus_depth", "focus_disparity"), "focus_disparity_se")
    with open(trained / "ours" / "lens.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    words = report.read_text(encoding="utf-8")
    assert len(rows) == 5
    for row in rows:
        for name, value in row.items():
            if name == "photo" or not value or not row[untold.get(name, name)]:
                continue
            try:
                value = f"{float(value):.4g}"
            except ValueError:  # words, as they are
                value = escape(value)
            assert f"<th>{name}</th>" in words and f"<td>{value}</td>" in words


def test_a_photo_that_does_not_tell_its_lens_has_words_instead_of_numbers(trained, tmp_path):
    shutil.copytree(trained / "ours", tmp_path / "run")
    with open(tmp_path / "run" / "lens.csv", newline="", encoding="utf-8") as file:
        first, second, *_ = rows = list(csv.DictReader(file))
    first |= {"aperture": "11.11", "K": "22.22", "aperture_se": "", "focus_depth": "3.333", "focus_disparity_se": "0.1"}
    first |= {"lens_note": "its blur tells nothing of its aperture"}
    second |= {
        "aperture": "44.44",
        "aperture_se": "0.1",
        "focus_depth": "5.555",
        "focus_disparity_se": "",
        "lens_note": "no",
    }
    with open(tmp_path / "run" / "lens.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(first))
        writer.writeheader()
        writer.writerows(rows)
    run, scene = open_trained(tmp_path / "run")
    write_run_page(tmp_path / "page.html", run, scene, "none")
    words = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [f"<td>{value}</td>" in words for value in ("11.11", "22.22", "3.333", "44.44", "5.555")] == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert "<td>its blur tells nothing of its aperture</td>" in words


def test_without_reference_without_held_out_views_without_a_lens(trained, tmp_path):
    run, scene = open_trained(trained / "pinhole")
    plain = replace(scene, frames=tuple(replace(frame, sharp=None, lens=None) for frame in scene.frames), test=())
    assert write_run_page(tmp_path / "page.html", run, plain, "none") is None
    words = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "without a lens model" in words and "no reference" not in words
    held = write_run_page(tmp_path / "page.html", run, replace(plain, test=(3,)), "none")
    assert held.mean["psnr"] == "no reference"
    assert "no reference" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_report_on_real_photos(trained, tmp_path):
    """No sharp photo is known: what was gained on the photos themselves, what EXIF says, what was left out and why."""
    run, scene = open_trained(trained / "ours")
    told = Exif(f_number=1.8, exposure_time=1 / 125, iso=400)
    frames = tuple(replace(frame, sharp=None, lens=None, depth=None, exif=told) for frame in scene.frames)
    notes = ("captured: 5 of 6", "left out: IMG_7.jpg: too blurred: 3 features")
    write_run_page(tmp_path / "page.html", run, replace(scene, frames=frames, notes=notes), "none")
    words = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in (
        "agreement through the lens, dB",
        "<td>1/125 s</td>",
        "<td>400</td>",
        "<td>IMG_7.jpg</td>",
        "<td>too blurred: 3 ",
    ):
        assert part in words
    assert "no reference" not in words


def test_gains_are_those_of_the_picture():
    """The agreement is a PSNR through the learned lens; detail counts only where the lens blurs."""
    picture = np.zeros((8, 12, 3), np.float32)
    picture[2, 3] = 1
    assert _energy(picture).sum() == 4
    assert box_of_most(_energy(picture)) in {(left, 1, left + 3, 3) for left in (1, 2)}


def test_what_few_photos_see_and_none_in_focus():
    cameras = facing_forward(3, (12, 16), focal=20.0)
    flat = np.full((12, 16), 1 / 4, np.float32)
    frames = [Frame(f"{i}", camera, None) for i, camera in enumerate(cameras)]
    scene = Scene("s", "test", tuple(frames), 2.0, 8.0, (0, 1, 2), ())
    run = SimpleNamespace(lenses=[Lens(40.0, 4.0), Lens(40.0, 2.0), Lens(40.0, 2.0)])
    seen, focused = sightings(run, scene, (cameras[1], flat), cameras, [flat] * 3)
    assert seen[6, 8] == 3 and focused[6, 8] == 1 and seen.min() >= 1
    hidden = [flat, flat, np.full_like(flat, 1 / 2)]  # before the third camera stands something
    assert sightings(run, scene, (cameras[1], flat), cameras, hidden)[0].max() == 2


def test_names_cannot_break_the_page(trained, tmp_path):
    run, scene = open_trained(trained / "ours")
    nasty = "</script><script>alert(1)</script>"
    scene = replace(
        scene, name=nasty, frames=tuple(replace(frame, name=f"{nasty}{i}") for i, frame in enumerate(scene.frames))
    )
    write_run_page(tmp_path / "page.html", run, scene, "none")
    assert nasty not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [["nothing"], [".", "--out", "page.txt"], ["."]])
def test_refusals_are_one_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_error_map_is_black_where_right_and_full_where_off_by_the_range():
    truth = np.full((4, 6, 3), 0.5, np.float32)
    image = truth.copy()
    image[:, 3:] += 0.1
    shown = error_map(image, truth).astype(int)
    assert shown[:, :3].sum(-1).max() < 20
    np.testing.assert_array_equal(shown[:, 3:], np.broadcast_to(error_map(truth + 0.4, truth)[0, 0], (4, 3, 3)))


def test_the_box_is_where_pictures_differ_most():
    truth = np.zeros((40, 60, 3), np.float32)
    image = truth.copy()
    image[22:32, 31:46] = 1
    image[:5, :5] = 0.9
    assert largest_error_box(image, truth) == Box(31, 22, 46, 32)


def drawn(svg, name):
    """(x, y) of the points with a tooltip that ends in `name`."""
    found = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*><title>([^<]*)</title>', svg)
    return [(float(x), float(y)) for x, y, tip in found if tip.endswith(name)]


def test_charts_place_their_points():
    names = tuple(f"<{i}>.jpg" for i in range(3))
    found = tuple(Lens(aperture, focus) for aperture, focus in ((2.0, 2.0), (4.0, 4.0), (6.0, 8.0)))
    lenses = PhotoLenses((0, 1, 2), names, found, (Lens(3.0, 4.0), Lens(3.0, 4.0), Lens(0.0, 1.0)), None, 1.0, 16.0)
    aperture, focus = lens_charts(lenses)
    (two,), (four,), (six,), (true, _) = (drawn(aperture, f": {value}") for value in (2, 4, 6, 3))
    assert four[0] - two[0] == pytest.approx(six[0] - four[0], abs=1e-4) and true[0] == two[0]
    assert four[1] - two[1] == pytest.approx(six[1] - four[1], abs=1e-4) and six[1] < two[1]
    assert true[1] == pytest.approx((two[1] + four[1]) / 2, abs=1e-4)
    ((_, y2),), ((_, y8),) = (drawn(focus, f": {value}") for value in (2, 8))
    assert [y for _, y in drawn(focus, ": 4")] == pytest.approx([(y2 + y8) / 2] * 3, abs=1e-4)  # logarithmic
    assert not drawn(focus, ": 1")  # a closed lens has no focus
    assert "&lt;0&gt;.jpg: 2" in aperture and "<0>" not in aperture
    for svg in (aperture, focus, curve_chart({0: (20.0, "a"), 5: (21.0, "b")})):
        assert svg.startswith("<svg") and "var(--ink)" in svg and "#333333" not in svg
        assert len(svg) < 40_000 and "system-ui" in svg


KNOWN = {"stops": 0.0, "stops_se": 0.1, "f_number": 2.0}
PHOTOS = (
    MeasuredLens("a", 10.0, 0.5, True, 2.0, 0.01, True, **KNOWN, f_number_exif=2.8),
    MeasuredLens("b", 99.0, None, False, 77.0, None, False, note="sharp all over"),
    MeasuredLens("c", 10.0, 0.5, True, math.inf, 0.01, True, **KNOWN),
)


def points(axes, label):
    """(x, y) of what is drawn with this label in its legend."""
    for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
        if name == label:
            drawn = handle.lines[0].get_xydata() if hasattr(handle, "lines") else handle.get_offsets()
            return [tuple(round(float(value), 6) for value in place) for place in drawn]
    return []


def test_the_plot_of_lenses_has_numbers_where_they_are_known():
    """In metres if there is a scale; a question mark for a photo that tells nothing, an arrow for infinity."""
    left, right = measured_plot(PHOTOS, "lenses", Scale(0.5, "a ruler")).axes
    assert left.get_ylabel() == "f-number" and right.get_ylabel() == "focus, metres"
    assert points(left, "measured") == [(0, 2.0), (2, 2.0)] and points(left, "EXIF") == [(0, 2.8)]
    assert points(right, "measured") == [(0, 1.0)]
    assert points(right, "farther") == [(2, round(right.get_ylim()[1], 6))]
    assert 50 < right.get_ylim()[1] < 100  # 0.5 m / 0.01 is the near end of what is focused at infinity
    for axes in (left, right):
        assert [x for x, _ in points(axes, "its blur does not tell")] == [1]
    left, right = measured_plot(PHOTOS, "lenses").axes
    assert left.get_ylabel().startswith("stops") and right.get_ylabel() == "focus depth, scene units"
    assert points(left, "measured") == [(0, 0.0), (2, 0.0)] and points(right, "measured") == [(0, 2.0)]


def test_the_plot_of_lenses_numbers_photos_as_views():
    """As the report's charts and --view do; those that are held out are missing."""
    numbered = [replace(one, view=view) for one, view in zip(PHOTOS, (1, 4, 8), strict=True)]
    left, right = measured_plot(numbered, "lenses", Scale(0.5, "a ruler")).axes
    assert [x for x, _ in points(left, "measured")] == [1, 8] and [x for x, _ in points(left, "EXIF")] == [1]
    assert [x for x, _ in points(right, "measured") + points(right, "farther")] == [1, 8]
    assert [x for x, _ in points(left, "its blur does not tell")] == [4] and left.get_xlim() == (-1, 9)


def test_a_plot_of_photos_that_tell_nothing():
    left, right = measured_plot(PHOTOS[1:2], "lenses", Scale(0.5, "a ruler")).axes
    assert not points(left, "measured") and not points(right, "measured")


@pytest.mark.parametrize(
    ("depth", "error"), [(math.inf, None), (math.inf, 0.0), (math.inf, 1e-3), (5000.0, 1e-6), (5000.0, 1e-3)]
)
@pytest.mark.parametrize("others", [(), PHOTOS[:1]])
def test_a_plot_of_focus_beyond_its_axis(depth, error, others):
    far = MeasuredLens("far", 10.0, 0.5, True, depth, error, True, **KNOWN)
    figure = measured_plot([*others, far], "lenses")
    assert pixels_of(figure).ndim == 3
    assert len(points(figure.axes[1], "measured") + points(figure.axes[1], "farther")) == 1 + len(others)


def test_charts_of_the_page_leave_out_what_is_not_known():
    found = Lens(10.0, 2.0), Lens(9.0, 4.0), Lens(10.0, 6.0)
    lenses = PhotoLenses((0, 1, 2), ("a", "b", "c"), found, (None,) * 3, None, 1.0, 16.0, PHOTOS)
    for svg in lens_charts(lenses):
        assert "<title>a: " in svg and "<title>c: " in svg and "<title>b: " not in svg
