"""`dofnerf run`: its stages one after the other, each only once, with photos or with a scene; and what comes after
training."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from tiny_world import config, scene

from dofnerf import Run, scenes
from dofnerf.cli import main
from dofnerf.evaluate.trained import open_trained
from dofnerf.scenes import exif
from dofnerf.scenes.exif import Exif
from dofnerf.studio import run as everything
from dofnerf.studio.source import open_source
from dofnerf.studio.view import ViewConfig, prepare
from dofnerf.train import checkpoint


@pytest.fixture
def captures(monkeypatch):
    """A capture that writes the tiny world, and the sources that it was called with; training of a few steps."""
    called = []

    def capture(source, out, options, display):
        if not (out / "transforms.json").exists():
            called.append(source)
            scenes.write_transforms(scene(), out)
        return scenes.load(out)

    monkeypatch.setattr(everything, "capture", capture)
    monkeypatch.setattr(everything, "preset", lambda name: config((2, 2, 0), search=False))
    return called


@pytest.fixture
def later(monkeypatch):
    """What the stages after training were called with."""
    called = []

    def export(config, source):
        called.append(("page", source.path, config.html))

    monkeypatch.setattr(everything, "write_run_page", lambda path, *_: called.append(("report", path.parent)))
    monkeypatch.setattr(everything, "export", export)
    monkeypatch.setattr(
        everything, "show", lambda config, source, scene: called.append(("view", source.path, scene.name))
    )
    return called


def test_stages_run_once_and_in_order(captures, later, tmp_path, capsys):
    photos, out = tmp_path / "photos", tmp_path / "all"
    photos.mkdir()
    assert main(["run", str(photos), "--out", str(out), "--width", "20"]) == 0
    captured = capsys.readouterr()
    plans = [line for line in captured.out.splitlines() if line.startswith("plan")]
    assert len(plans) == 3 and "to go: train" in plans[0] and "train took" in plans[2] and "report" in plans[2]
    stages = [line for line in captured.out.splitlines() if line.startswith("stage")]
    assert [line.split(": ")[1].split(" (")[0] for line in stages] == ["capture", "train", "report", "page"]
    assert captures == [photos] and Run.load(out / "run").learner.progress.step == 4
    assert later == [("report", out / "run"), ("page", out / "run", True)]
    assert f"next     open {out / 'index.html'}, or: dofnerf view {out}" in captured.out
    words = (out / "index.html").read_text(encoding="utf-8")
    assert "unsafe" not in words and f"dofnerf view {out}" in words and "<table>" in words
    assert Run.load(out).folder == out / "run" == open_trained(out)[0].folder == open_source(out).path
    assert json.loads((out / "run.json").read_text()) == {"preset": "fast", "width": 20, "steps": 1.0}

    before = (out / "run" / "checkpoint.safetensors").read_bytes()
    assert main(["run", str(photos), "--out", str(out), "--width", "20"]) == 0
    assert captures == [photos] and (out / "run" / "checkpoint.safetensors").read_bytes() == before
    capsys.readouterr()
    assert main(["run", str(photos), "--out", str(out), "--width", "18"]) == 2
    assert f"--out {out}: was begun with another --width; give another --out" in capsys.readouterr().err


def test_a_stage_that_fails_is_said_at_the_end(captures, later, tmp_path, capsys, monkeypatch):
    """The others are done all the same; the exit code is 1."""
    photos, out = tmp_path / "photos", tmp_path / "all"
    photos.mkdir()

    def fails(*_):
        raise ValueError("not today")

    monkeypatch.setattr(everything, "write_run_page", fails)
    assert main(["run", str(photos), "--out", str(out), "--width", "20"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "dofnerf: report: not today; the trained run is there all the same" in said
    assert said[-1] == f"dofnerf: report failed, see above; the trained run is in {out / 'run'}"
    assert later == [("page", out / "run", True)] and (out / "index.html").is_file()

    monkeypatch.setattr(everything, "export", fails)
    monkeypatch.setattr(everything, "write_start", fails)
    assert main(["run", str(photos), "--out", str(out), "--width", "20", "--view"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith("dofnerf: report, page, start page failed, see above")
    assert f"next     dofnerf view {out}\n" in captured.out and later[-1][0] == "view"


def test_a_trained_runs_scene_is_not_changed_under_it(captures, later, tmp_path, capsys, monkeypatch):
    photos, all_of_it = tmp_path / "photos", ["--out", str(tmp_path / "all"), "--width", "20"]
    photos.mkdir()
    assert main(["run", str(photos), *all_of_it]) == 0
    capsys.readouterr()
    monkeypatch.setattr(everything, "capture", lambda *_: pytest.fail("the scene was touched"))
    assert main(["run", str(photos), *all_of_it, "--scale-by", "0,1,0.5", "--hold-every", "5"]) == 2
    assert "was begun with another --scale-by, --hold-every; give another --out" in capsys.readouterr().err


def test_a_scene_takes_no_flags_of_capture(captures, tmp_path, capsys):
    scenes.write_transforms(scene(), tmp_path / "place")
    assert main(["run", str(tmp_path / "place"), "--out", str(tmp_path / "all"), "--scale-by", "0,1,2"]) == 2
    assert "a scene that has poses already; --scale-by: only for photos that have none" in capsys.readouterr().err
    assert not (tmp_path / "all").exists()


def test_demo_is_the_scene_in_the_package(captures, later, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "demo", "--out", "all", "--width", "24"]) == 0
    assert captures == [] and Run.load("all/run").setting.size[0] == 24


def test_a_scene_needs_no_capture_and_leaves_a_report_and_a_page(captures, tmp_path, capsys):
    scenes.write_transforms(scene(), tmp_path / "place v1.2")  # what looks like a suffix is none
    assert main(["run", str(tmp_path / "place v1.2"), "--out", str(tmp_path / "all")]) == 0
    assert captures == [] and not (tmp_path / "all/scene").exists()
    run = Run.load(tmp_path / "all/run")
    assert (tmp_path / "all/run/report.html").is_file() and len(list((tmp_path / "all/run/export").glob("*.html"))) == 1
    assert run.setting.size == scene().size  # never enlarged to the default width
    assert run.config.lens.share_aperture == "none"
    whole, out = str(tmp_path / "all"), str(tmp_path / "out")  # every verb takes the folder of `dofnerf run`
    for verb in (
        ["eval", whole, "--out", out],
        ["report", whole, "--out", f"{out}-report.html"],
        ["render", whole, "--view", "0", "--out", f"{out}.png"],
        ["export", whole, "--html", "--out", f"{out}.html"],
    ):
        assert main(verb) == 0, verb
    assert "<title>all" in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert prepare(ViewConfig(tmp_path / "all")).facts["title"] == "all"


def test_photos_of_one_f_number_share_their_aperture(captures, later, tmp_path):
    world = scene()
    frames = tuple(replace(frame, exif=Exif(f_number=(2.0, 2.8)[i % 2])) for i, frame in enumerate(world.frames))
    scenes.write_transforms(replace(world, frames=frames), tmp_path / "place")
    assert main(["run", str(tmp_path / "place"), "--out", str(tmp_path / "all")]) == 0
    run = Run.load(tmp_path / "all/run")
    assert run.config.lens.share_aperture == "exif" and run.setting.groups == (0, 1, 0, 0)  # photo 3 is held out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--steps", "0"], "--steps must be a number from 0.0001"),
        (["--width", "3"], "--width 3: expected 16 pixels or more"),
        (["--size", "3"], "--size 3: expected 200 to 20000"),
    ],
)
def test_bad_flags(captures, flags, words, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    assert main(["run", str(tmp_path / "photos"), "--out", str(tmp_path / "all"), *flags]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "all").exists()


def test_no_photos(tmp_path, capsys):
    assert main(["run", str(tmp_path / "nowhere"), "--out", str(tmp_path / "all")]) == 2
    assert "nowhere: there is no such folder or video" in capsys.readouterr().err and not (tmp_path / "all").exists()


def test_the_viewer_is_opened_on_request(captures, later, tmp_path):
    scenes.write_transforms(scene(), tmp_path / "place")
    assert main(["run", str(tmp_path / "place"), "--out", str(tmp_path / "all"), "--view"]) == 0
    assert later[-1] == ("view", tmp_path / "all/run", "place")


def test_everything_is_read_once(captures, tmp_path, monkeypatch):
    """One run reads the scene once, each photo's EXIF once, and unpacks no checkpoint; the next one unpacks it once."""
    counts = Counter()

    def counted(module, name):
        real = getattr(module, name)

        def call(*arguments, **options):
            counts[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    scenes.write_transforms(scene(), tmp_path / "place")
    counted(scenes, "assemble")
    counted(checkpoint, "unpack")
    counted(exif, "exif_of")
    line = ["run", str(tmp_path / "place"), "--out", str(tmp_path / "all")]
    assert main(line) == 0
    photos = len(scene().train)
    assert counts["assemble"] == 1 and counts["unpack"] == 0 and counts["exif_of"] <= photos
    counts.clear()
    assert main(line) == 0
    assert counts["assemble"] == 1 and counts["unpack"] == 1 and counts["exif_of"] == 0


def test_the_width_follows_the_minutes_and_the_machine(monkeypatch, capsys):
    from dofnerf.studio.plan import Plan
    from dofnerf.train import preset

    own, size = preset("fast", "splat").method, (6000, 4000)
    monkeypatch.setattr(Plan, "view", 3.5e-7)
    widths = [Plan(own, 0, 60.0 * minutes, None).width(size) for minutes in (5, 15, 60)]
    assert widths == sorted(set(widths)) and widths[0] > 250 and widths[-1] <= 6000
    for minutes, width in zip((5, 15), widths, strict=False):  # no wider fits
        plan = Plan(own, 0, 60.0 * minutes, None)
        least, more = (sum(plan.stages(wide * wide * 2 / 3).values()) for wide in (width, width + 4))
        assert least <= 60 * minutes < more + 1
    monkeypatch.setattr(Plan, "view", 7e-7)  # a machine half as fast
    assert Plan(own, 0, 900.0, None).width(size) < widths[1]
    assert Plan(own, 0, 900.0, None).width((120, 80)) == 120  # never enlarged
    assert "too little" not in capsys.readouterr().out
    assert Plan(own, 0, 20.0, None).width(size) == 160
    said = capsys.readouterr().out
    assert "--minutes is too little" in said and "at 160 pixels across it still takes about" in said
    late, many = (Plan(own, 0, 900.0, None) for _ in range(2))
    late.begun -= 300  # capture took so long
    many.photos = 200
    assert late.width(size) < Plan(own, 0, 900.0, None).width(size) > many.width(size)
