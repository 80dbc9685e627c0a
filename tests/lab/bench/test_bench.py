"""`dofnerf bench`: tables against figures by hand, cells that are done once, engines that lose a worker, a real Ray."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest
from tiny_world import config

from dofnerf import scenes
from dofnerf.cli import main
from dofnerf.evaluate.charts import lens_charts, lens_plot
from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.evaluate.scores import held_out_psnr
from dofnerf.files import write_image, write_json
from dofnerf.lab.bench import engines, experiment, paper
from dofnerf.lab.bench.cell import Outcomes, SceneChoice, scene_files
from dofnerf.lab.bench.experiment import Choice
from dofnerf.lab.bench.experiments import EXPERIMENTS, design
from dofnerf.lab.bench.experiments.lens import lenses_of
from dofnerf.lab.bench.experiments.shallow import gap_share
from dofnerf.lab.bench.results import read_results
from dofnerf.lab.bench.run import BenchConfig, choose
from dofnerf.lab.bench.tables import same_focus
from dofnerf.train import Run, preset, without_lens


def tiny(_preset, field):
    return config((2, 2, 0), field, search=False, refits=())


@pytest.fixture(scope="module", autouse=True)
def tiny_preset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "preset", tiny)
        patch.delenv("DOFNERF_LPIPS", raising=False)
        yield


@pytest.fixture(scope="module")
def room(small_folder, tmp_path_factory):
    """The small scene under a name of the paper's."""
    folder = tmp_path_factory.mktemp("paper") / "room-blurred"
    shutil.copytree(small_folder, folder)
    return folder


@pytest.fixture(scope="module")
def bench(room, tmp_path_factory):
    """The experiment shallow, done."""
    out = tmp_path_factory.mktemp("bench") / "shallow"
    assert main(["bench", "shallow", "--scenes", str(room), "--field", "hash", "--out", str(out)]) == 0
    return out


def the_table(folder, number=0) -> list[dict[str, str]]:
    table = read_results(folder).tables[number]
    return [dict(zip(table.head, row, strict=True)) for row in table.rows]


def test_the_table_has_our_figures_and_the_papers(bench, room):
    scene = scenes.load(room)
    rows = the_table(bench)
    assert [row["model"] for row in rows] == ["without a lens model", "ours", "trained on sharp photos"]
    for row, name in zip(rows, ("without-a-lens-model", "ours", "trained-on-sharp-photos"), strict=True):
        run = Run.load(bench / "cells" / "room-blurred" / "hash" / name / "seed-0" / "run")
        assert run.has_lens == (name == "ours")
        assert run.config.photos == ("sharp" if name == "trained-on-sharp-photos" else "given")
        assert row["PSNR"] == f"{held_out_psnr(run, scene):.2f}"
        assert row["LPIPS"] == "no weights"
    words = (bench / "results.md").read_text(encoding="utf-8")
    assert "26.67" in words and "29.44" in words and "0.9135" in words and "33.85" in words
    assert the_table(bench, 1)[0]["paper"] == "0.39"  # (29.443 − 26.668) / (33.852 − 26.668)
    assert "--lpips-weights" in words
    for figure in read_results(bench).figures:
        assert (bench / figure.file).is_file() and f"]({figure.file})" in words


def test_what_is_done_is_never_done_again(bench, room, monkeypatch, capsys):
    def never(*_):
        raise AssertionError("a cell was done twice")

    monkeypatch.setattr(engines, "attempt", never)
    before = {path: path.read_bytes() for path in bench.rglob("*.json")}
    arguments = ["bench", "shallow", "--scenes", str(room), "--field", "hash", "--out", str(bench)]
    assert main(arguments) == 0
    assert "all done before" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in bench.rglob("*.json")}
    monkeypatch.setattr(experiment, "preset", lambda name, field: config((3, 2, 0), field))
    assert main(arguments) == 2
    assert "another pinhole_steps (4, now 5)" in capsys.readouterr().err


def test_bench_of_light_fields_skips_other_scenes(room, tmp_path, capsys):
    grid, out = tmp_path / "grid", tmp_path / "out"
    grid.mkdir()
    rng = np.random.default_rng(0)
    for r in range(7):
        for c in range(7):
            write_image(grid / f"view_{r:02d}_{c:02d}.png", rng.uniform(size=(48, 48, 3)).astype(np.float32))
    write_json(grid / "manifest.json", {"focus": {"min": -1.0, "max": 0.5}})
    absent = str(tmp_path / "absent")
    assert main(["bench", "lightfield", "--scenes", absent, str(room), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"skipped  {absent}: no such folder" in said and "its format is transforms, not lightfield" in said
    assert "nothing to do" in said and not out.exists()
    asked = BenchConfig("lightfield", (absent, str(room), str(grid)), ("hash",), size=24)
    chosen = choose(asked, EXPERIMENTS["lightfield"])
    assert [one.name for one in chosen.scenes] == ["grid"] and chosen.loaded[chosen.scenes[0]].size == (24, 24)
    cells = EXPERIMENTS["lightfield"].plan(chosen)
    assert [cell.tags["variant"] for cell in cells] == ["without a lens model", "ours", "trained on sharp photos"]
    assert {cell.scene.path for cell in cells} == {str(grid)}


def test_a_cell_begun_with_other_settings_is_refused_before_others_are_done(bench, room, tmp_path, monkeypatch, capsys):
    out = tmp_path / "again"
    shutil.copytree(bench, out)
    for path in out.rglob("result.json"):
        path.unlink()
    shutil.rmtree(out / "cells" / "room-blurred" / "hash" / "ours")
    monkeypatch.setattr(experiment, "preset", lambda name, field: config((3, 2, 0), field, search=False, refits=()))
    assert main(["bench", "shallow", "--scenes", str(room), "--field", "hash", "--out", str(out)]) == 2
    assert "was begun with another pinhole_steps (4, now 5); give another --out" in capsys.readouterr().err
    assert not list(out.rglob("result.json"))


def test_weights_of_lpips_that_come_later_are_used(bench, room, tmp_path, monkeypatch):
    out = tmp_path / "again"
    shutil.copytree(bench, out)
    before = {path: path.read_bytes() for path in out.rglob("checkpoint.safetensors")}
    monkeypatch.setattr(LpipsConfig, "find", lambda self: lambda one, other: 0.125)
    assert main(["bench", "shallow", "--scenes", str(room), "--field", "hash", "--out", str(out)]) == 0
    assert {row["LPIPS"] for row in the_table(out)} <= {"0.1250", "too small"}
    assert before == {path: path.read_bytes() for path in out.rglob("checkpoint.safetensors")}


def test_depth_supervision_needs_points(room, tmp_path, capsys):
    bare = tmp_path / "bare"
    shutil.copytree(room, bare)
    entries = json.loads((bare / "transforms.json").read_text())
    entries.pop("ply_file_path", None)
    for frame in entries["frames"]:
        frame.pop("visible_file_path", None)
    (bare / "transforms.json").write_text(json.dumps(entries))
    assert main(["bench", "dsnerf", "--scenes", str(bare), "--out", str(tmp_path / "out")]) == 2
    assert "its photos see no sparse points" in capsys.readouterr().err


def test_a_stopped_experiment_goes_on_with_what_is_missing(bench, room, tmp_path, capsys):
    out = tmp_path / "again"
    shutil.copytree(bench, out)
    (out / "cells" / "room-blurred" / "hash" / "ours" / "seed-0" / "result.json").unlink()
    assert main(["bench", "shallow", "--scenes", str(room), "--field", "hash", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"3, 2 done before; 1 to do, roughly \d", printed)
    assert re.findall(r"^done +(\S+)", printed, re.M) == ["room-blurred/hash/ours/seed-0"]
    assert the_table(out) == the_table(bench)


@pytest.mark.parametrize(
    ("name", "flags", "lines"),
    [
        ("dsnerf", [], 3), ("sharp", [], 2), ("ablation", [], 4), ("lens", [], 4), ("volume", [], 1), ("cost", [], 2),
        ("design", [], 11),
    ],
)  # fmt: skip
def test_every_experiment_comes_to_its_end(name, flags, lines, room, tmp_path, capsys):
    arguments = ["bench", name, "--scenes", str(room), "--field", "hash", "--out", str(tmp_path / name), *flags]
    assert main(arguments) == 0, capsys.readouterr().err
    found = read_results(tmp_path / name)
    assert len(found.tables[0].rows) == lines
    assert not any("not done" in cell for table in found.tables for row in table.rows for cell in row)
    assert name == "cost" or found.figures
    assert f"dofnerf bench {name}" in (tmp_path / name / "results.md").read_text(encoding="utf-8")
    findings = [json.loads(path.read_text())["found"] for path in (tmp_path / name).rglob("result.json")]
    if name == "volume":
        volume = findings[0]["volume"]
        assert sum(volume["samples"]) == pytest.approx(1) and sum(volume["light"]) == pytest.approx(1)
        assert 0 < volume["near_depth"] <= 1
        assert all(sum(ray["weight"]) == pytest.approx(1, abs=1e-4) for ray in volume["rays"])
    if name == "sharp":
        ours = next(found for found in findings if found["lenses"])
        assert ours["lens"] == "trained on all-in-focus photos"
        assert {lens["aperture"] for lens in ours["lenses"]["true"]} == {0.0}
    if name == "cost":
        cost = findings[0]["training"]
        assert the_table(tmp_path / name)[0]["ratio"] == f"{cost['patches'] / cost['pinhole']:.3f}×"
        assert [row["paper"] for row in the_table(tmp_path / name)] == ["1.038×", "1.006×"]


def test_the_ablation_freezes_what_it_says(room):
    chosen = SceneChoice(str(room))
    plan = EXPERIMENTS["ablation"].plan(Choice((chosen,), {chosen: scenes.load(room)}, ("hash",)))
    switches = [(c.config.lens.learn_aperture, c.config.lens.learn_focus) for c in plan[1:]]
    assert switches == [(True, False), (False, True), (True, True)]
    assert plan[0].config == without_lens(plan[3].config)


def test_design_changes_one_thing_at_a_time_and_leaves_held_out_views_alone(room, monkeypatch):
    monkeypatch.setattr(experiment, "preset", lambda name, field: config((2, 2, 0), field))
    chosen = SceneChoice(str(room))
    plan = EXPERIMENTS["design"].plan(Choice((chosen,), {chosen: scenes.load(room)}, ("hash",)))
    assert len({json.dumps(cell.plain()["config"], sort_keys=True) for cell in plan}) == len(plan) == 13
    scene, whole = plan[0].scene.load(), scenes.load(room)
    assert set(scene.test) <= set(whole.train) and not set(scene.train) & (set(whole.test) | set(scene.test))
    lines = design.choices_of("splat", preset("fast", "splat").method)
    assert len(lines) == 24 and lines[design.PRESET] == {}


def test_several_seeds_and_fields_are_cells_of_their_own(room):
    chosen = SceneChoice(str(room))
    plan = EXPERIMENTS["shallow"].plan(Choice((chosen,), {chosen: scenes.load(room)}, ("hash", "nerf"), seeds=(1, 2)))
    assert len({cell.key for cell in plan}) == len(plan) == 12
    assert {cell.config.seed for cell in plan} == {1, 2}
    alone = EXPERIMENTS["shallow"].plan(Choice((chosen,), {chosen: scenes.load(room)}, ("hash",), seeds=(2,)))
    assert {cell.key for cell in alone} <= {cell.key for cell in plan}  # another seed makes none of them another cell


def test_repeated_flags_and_paths(room, monkeypatch):
    monkeypatch.chdir(room)
    config = BenchConfig("shallow", (".", str(room)), ("hash", "hash"), seeds=(3, 3))
    chosen = choose(config, EXPERIMENTS["shallow"])
    assert chosen.fields == ("hash",) and chosen.seeds == (3,)
    assert [one.path for one in chosen.scenes] == [str(room.resolve())] and chosen.scenes[0].name == "room-blurred"


def test_a_scene_that_was_made_anew_is_another(small_folder, tmp_path):
    folder = tmp_path / "card"
    shutil.copytree(small_folder, folder)
    before = scene_files(scenes.load(folder), packaged=False)
    assert scene_files(scenes.load(folder), packaged=False) == before
    picture = next((folder / "images").iterdir())
    os.utime(picture, ns=(1, 1))
    touched = scene_files(scenes.load(folder), packaged=False)
    assert touched != before and scene_files(scenes.load(folder), packaged=True)
    path = folder / "transforms.json"
    data = json.loads(path.read_text())
    data["frames"][0]["transform_matrix"][0][3] += 0.1
    path.write_text(json.dumps(data))
    assert scene_files(scenes.load(folder), packaged=False) not in (before, touched)


def test_focus_is_compared_only_where_all_models_have_the_same(room):
    chosen = SceneChoice(str(room))
    plan = EXPERIMENTS["shallow"].plan(Choice((chosen,), {chosen: scenes.load(room)}, ("hash",)))

    def done(*lenses):
        return Outcomes(plan, {cell.key: {"views": [{"focus_by": by}]} for cell, by in zip(plan, lenses, strict=True)})

    assert same_focus(done("true", "true", "true"), "room-blurred")
    assert not same_focus(done("true", "true", "learned"), "room-blurred")


def test_the_papers_means_are_those_that_it_reports():
    """Means over its scenes, known from elsewhere."""
    real = ("amiya", "camera", "plant", "turtle", "kendo", "desk", "shelf")
    synthetic = tuple(name for name in paper.SHALLOW if name not in real)
    assert len(synthetic) == 8
    for names, twin, ours in ((real, 27.71, 29.02), (synthetic, 24.03, 24.97)):
        assert np.mean([paper.SHALLOW[name][0].psnr for name in names]) == pytest.approx(twin, abs=0.006)
        assert np.mean([paper.SHALLOW[name][1].psnr for name in names]) == pytest.approx(ours, abs=0.006)
    assert np.mean([paper.SHARP[name][0].psnr for name in synthetic]) == pytest.approx(28.18, abs=0.006)
    for table in (paper.SHALLOW, paper.DSNERF, paper.SHARP):
        assert all(10 < n.psnr < 40 and 0.5 < n.ssim < 1 and 0 < n.lpips < 0.5 for pair in table.values() for n in pair)
    assert paper.paper_scene("Fern-blurred") == "fern" and paper.paper_scene("my-room") == ""


def test_the_share_of_the_gap():
    assert gap_share(20.0, 23.0, 26.0) == 0.5
    assert gap_share(20.0, 23.0, 20.0) == "no gap"
    assert gap_share(20.0, "no reference", 21.0) == "no reference"


def test_a_cell_that_fails_leaves_the_others_done(small_folder, tmp_path, capsys):
    plain = tmp_path / "plain"
    shutil.copytree(small_folder, plain)
    data = json.loads((plain / "transforms.json").read_text())
    for frame in data["frames"]:
        frame.pop("sharp_file_path")
    (plain / "transforms.json").write_text(json.dumps(data))
    out = tmp_path / "out"
    assert main(["bench", "shallow", "--scenes", str(plain), "--field", "hash", "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "1 of 3 cells failed" in message and "all-in-focus" in message
    assert [row["PSNR"] for row in the_table(out)] == ["no reference", "no reference", "not done"]
    assert "trained-on-sharp-photos" in (out / "results.md").read_text(encoding="utf-8")
    assert main(["bench", "sharp", "--scenes", str(plain), "--field", "hash", "--out", str(tmp_path / "sharp")]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shallow", "--field", "foam"], "no such field"),
        (["volume", "--field", "splat"], "is for hash, nerf, dsnerf"),
        (["dsnerf", "--field", "splat"], "is for hash, dsnerf"),
        (["shallow", "--steps", "0"], "--steps"),
        (["shallow", "--jobs", "0"], "--jobs"),
        (["shallow", "--scenes", "nowhere"], "nowhere: there is no such scene"),
        (["shallow", "--scenes", "a/card", "b/card"], "two are called card"),
        (["shallow", "--size", "100000"], "not enlarged"),
        (["shallow", "--lpips-weights", "none.npz"], "none.npz"),
        (["shallow", "--out", "file/x"], "--out"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    assert main(["bench", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and words in message
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_page_of_an_experiment(bench, browser, tmp_path):
    out = tmp_path / "page.html"
    assert main(["report", str(bench), "--out", str(out)]) == 0
    page = browser.new_page(viewport={"width": 390, "height": 844})
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(out.as_uri())
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    place = page.locator(".compare").bounding_box()
    page.mouse.click(place["x"] + 0.25 * place["width"], place["y"] + place["height"] / 2)
    assert float(page.locator(".compare input").input_value()) == pytest.approx(25, abs=1)
    assert page.get_by_text("29.44").count() == 1
    page.close()
    assert trouble == []


def test_a_page_of_an_experiment_that_is_not_at_its_end(tmp_path, capsys):
    (tmp_path / "cells").mkdir()
    assert main(["report", str(tmp_path)]) == 2
    assert "not finished" in capsys.readouterr().err
    (tmp_path / "results.json").write_text('{"experiment": 3}')
    assert main(["report", str(tmp_path)]) == 2
    assert "results.json" in capsys.readouterr().err


def test_a_page_shows_no_picture_from_elsewhere(tmp_path, capsys):
    write_image(tmp_path / "secret.png", np.zeros((8, 8, 3)))
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/figure.png").symlink_to(tmp_path / "secret.png")
    for name in ("figure.png", "../secret.png"):
        figure = {"file": name, "caption": "a"}
        found = {"experiment": "a", "about": "b", "command": "c", "tables": [], "figures": [figure]}
        write_json(tmp_path / "bench/results.json", found)
        assert main(["report", str(tmp_path / "bench")]) == 2
        assert "leads outside" in capsys.readouterr().err


def test_lenses_that_start_apart_are_drawn_without_a_start():
    lens = {"aperture": 3.0, "focus_depth": 2.0}
    plain = {
        "start": None,
        "found": [lens, lens],
        "true": [None, None],
        "numbers": [0, 1],
        "names": ["a", "b"],
        "near": 1.0,
        "far": 9.0,
    }
    lenses = lenses_of(plain)
    assert lenses.start is None and lens_plot(lenses, "two photos").shape[2] == 3
    assert not any(">start<" in drawing for drawing in lens_charts(lenses))
