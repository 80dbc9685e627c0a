"""From Python: whatever lies at a path loads, is shot as the command shoots it, and shows itself in a notebook."""

from __future__ import annotations

import html.parser
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_shots import CAMERA, FAR, NEAR, card_and_wall, halves, write_ply, write_run

import dofnerf
from dofnerf.cli import main
from dofnerf.files import read_image
from dofnerf.studio import notebook

HOSTILE = '<img src=x onerror=alert(1)>"</iframe>.png'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """run (splats), volume (hash) and wall.ply."""
    folder = tmp_path_factory.mktemp("notebook")
    write_ply(folder / "wall.ply", write_run(folder / "run"))
    write_run(folder / "volume", "hash")
    return folder


class Tags(html.parser.HTMLParser):
    """The tags and attributes that a browser would find."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def of(self, name: str) -> list[dict]:
        return [attributes for tag, attributes in self.found if tag == name]


def test_load_gives_what_lies_there(made):
    assert isinstance(dofnerf.load("demo"), dofnerf.Scene)
    assert isinstance(dofnerf.load(made / "run"), dofnerf.Run)
    assert isinstance(dofnerf.load(made / "run/checkpoint.safetensors"), dofnerf.Run)
    assert isinstance(dofnerf.load(made / "wall.ply"), dofnerf.SplatFile)
    with pytest.raises(FileNotFoundError, match=r"nothing.ply: there is no such"):
        dofnerf.load(made / "nothing.ply")


def test_a_run_is_shot_as_the_command_shoots_it(made, tmp_path):
    run = dofnerf.load(made / "run")
    flags = ["--view", "3", "--focus-at", "10,20", "--aperture", "9", "--blades", "6"]
    assert main(["render", str(made / "run"), *flags, "--out", str(tmp_path / "command.png")]) == 0
    lens = {"focus_at": (10, 20), "aperture": 9.0, "blades": 6}
    run.save(tmp_path / "saved.png", 3, **lens)
    picture = run.refocus(3, **lens)
    picture.save(tmp_path / "picture.png")
    command, saved, own = (read_image(tmp_path / f"{name}.png") for name in ("command", "saved", "picture"))
    assert np.abs(saved - command).max() <= 1 / 255 and np.array_equal(saved, own)
    near, far = halves(own)
    assert near > 2 * far  # pixel 10,20 is on the near card
    assert run.refocus("view-3", width=32, **lens).image.shape == (24, 32, 3)
    assert torch.equal(run.refocus(run.views[3].camera, **lens).image, picture.image)


def test_exr_is_linear_light(made, tmp_path):
    picture = dofnerf.load(made / "run").refocus(3)
    picture.save(tmp_path / "a.exr", light=2.2)
    assert read_image(tmp_path / "a.exr") == pytest.approx(picture.image.numpy() ** 2.2, abs=2e-3)


def test_a_splat_file_is_shot_as_the_command_shoots_it(made, tmp_path):
    flags = ["--eye", "0,0,0", "--look-at", "0,0,-1", "--up", "0,1,0", "--width", "64", "--height", "48"]
    out = str(tmp_path / "command.png")
    assert main(["render", str(made / "wall.ply"), *flags, "--aperture", "9", "--focus", "6", "--out", out]) == 0
    splats = dofnerf.load(made / "wall.ply")
    camera = splats.camera(64, height=48, eye=(0, 0, 0), look_at=(0, 0, -1), up=(0, 1, 0))
    own = splats.render(camera, aperture=9.0, focus_depth=6.0).image.numpy()
    assert np.abs(own - read_image(tmp_path / "command.png")).max() <= 1 / 255
    splats.save(tmp_path / "page.html")
    assert "<script" in (tmp_path / "page.html").read_text()
    assert splats.refocus(width=48).image.shape == (32, 48, 3)
    assert splats.render(splats.camera(48)).image.shape == (32, 48, 3)


def test_sharp_where_it_is_focused(made):
    run = dofnerf.load(made / "run")
    for depth, sharper in ((NEAR, 0), (FAR, 1)):
        found = halves(run.refocus(CAMERA, focus=depth, aperture=12.0).image.numpy())
        assert found[sharper] > 2 * found[1 - sharper]


def test_mistakes_are_named(made, tmp_path):
    run = dofnerf.load(made / "run")
    with pytest.raises(TypeError, match=r"no 'focs'.*focus_at"):
        run.refocus(focs=3)
    with pytest.raises(ValueError, match="unknown file type"):
        run.save(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="there is no such view"):
        run.refocus(17)
    with pytest.raises(ValueError, match="only splats make a page"):
        dofnerf.load(made / "volume").save(tmp_path / "a.html")


def test_a_run_shows_itself_and_escapes_names(made):
    run = dofnerf.load(made / "run")
    run.learner.setting = replace(run.setting, photos=(HOSTILE, *run.setting.photos[1:]), scene=HOSTILE)
    shown = Tags(run._repr_html_())
    assert all(image["src"].startswith("data:image/") and "onerror" not in image for image in shown.of("img"))
    (frame,) = shown.of("iframe")
    assert frame["sandbox"] == "allow-scripts" and frame["srcdoc"].startswith("<!")
    assert len(shown.of("img")) == 1 and len(shown.of("tr")) == 1 + len(run.setting.photos)
    inside = Tags(frame["srcdoc"])
    assert not any("onerror" in attributes for _, attributes in inside.found)


def test_a_large_page_stays_outside(made, monkeypatch):
    monkeypatch.setattr(notebook, "LARGEST_PAGE", 1000)
    shown = dofnerf.load(made / "run")._repr_html_()
    assert "<iframe" not in shown and "scene.html" in shown


def test_what_has_no_page_shows_the_rest(made):
    shown = Tags(dofnerf.load(made / "volume")._repr_html_())
    assert len(shown.of("img")) == 1 and not shown.of("iframe")


def test_scenes_lenses_and_pictures_show_themselves(made):
    scene = dofnerf.load("demo", width=48)
    scene.name = HOSTILE
    shown = Tags(scene._repr_html_())
    assert [image["src"][:16] for image in shown.of("img")] == ["data:image/webp;"]
    assert len(Tags(dofnerf.Lens(9.0, 2.0)._repr_html_()).of("tr")) == 4
    learned = dofnerf.LearnedLens(num_photos=3, near=1.0, far=5.0)
    assert len(Tags(learned._repr_html_()).of("tr")) == 4
    assert len(Tags(learned.lens(torch.tensor([0, 2]))._repr_html_()).of("td")) == 7
    assert dofnerf.load(made / "run").refocus(3)._repr_png_().startswith(b"\x89PNG")


def test_a_run_in_memory_has_its_views():
    from dofnerf.models.data import Setting
    from dofnerf.train import Run, preset
    from dofnerf.train.learner import Learner
    from dofnerf.train.run import views_of

    scene = dofnerf.load("demo", width=48)
    made = preset("fast").changed({"method": {"splats": 10, "degree": 0}})
    run = Run(Learner(made, Setting.of(scene), card_and_wall()), views=views_of(scene))
    assert run.refocus(scene.test[0], aperture=1.0, focus=2.0).image.shape == (32, 48, 3)
    assert [view.name for view in run.views if view.held_out] == [scene.frames[i].name for i in scene.test]


def test_the_page_draws_inside_a_notebook(made, watched, tmp_path):
    shown = dofnerf.load(made / "run")._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8>{shown}", encoding="utf-8")
    page = watched((tmp_path / "cell.html").as_uri(), 900, 700)
    page.locator("summary").click()
    (frame,) = page.frames[1:]
    frame.wait_for_selector("body[data-state=refining], body[data-state=done]")
    assert frame.evaluate("window.dofnerf !== undefined")
    assert frame.locator("canvas").first.is_visible()
