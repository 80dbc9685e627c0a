"""docs/results.md is what benchmarks/results/ gives, and figures are read from what commands print."""

from __future__ import annotations

import copy
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("results", ROOT / "benchmarks" / "results.py")
assert _spec and _spec.loader
results = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(results)

CLAIMS = results.claims(results.FOLDER)
TABLES = [(name, part) for name, claim in CLAIMS.items() for part in claim["parts"] if isinstance(part, dict)]


def test_the_page_is_what_the_files_give():
    shown = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert shown == results.page(CLAIMS), "run python benchmarks/results.py (--adopt if you wrote into the page)"


@pytest.mark.parametrize(("name", "part"), TABLES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(TABLES)])
def test_tables_are_whole(name, part):
    assert all(len(row) == len(part["columns"]) for row in part["rows"])
    assert part["runs"], f"{name}: a table says by which command it was made, and when"
    assert len({run["measured"].get("commit") for run in part["runs"]}) == 1, f"{name}: a table is of one commit"
    firsts = [row[0] for row in part["rows"]]
    for run in part["runs"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["measured"]["date"])
        for script in re.findall(r"benchmarks/\w+\.py", run["command"]):
            assert (ROOT / script).is_file()
        for one in run.get("reads", []) if run.get("reads") != "table" else ():
            assert one["column"] in part["columns"] and one["column"] not in results.KEPT
            assert one["row"] in firsts if isinstance(one["row"], str) else one["row"] < len(firsts)
            assert re.compile(one["find"]).groups >= 1


TABLE = {"columns": ["what", "got", "wanted"], "rows": [["a", "1×", "≤ 2×"], ["b", "3 s", ""]], "runs": []}


def test_figures_come_from_a_printed_table_and_targets_stay():
    part = copy.deepcopy(TABLE)
    printed = "words\n| what | got | wanted |\n|---|---|---|\n| b | 4 s | – |\n| a | 1.5× | ≤ 9× |\n"
    results.read("table", printed, part)
    assert part["rows"] == [["a", "1.5×", "≤ 2×"], ["b", "4 s", ""]]
    with pytest.raises(ValueError, match="no row 'b'"):
        results.read("table", "| a | 2× | |", part)


def test_figures_are_found_in_words():
    part = copy.deepcopy(TABLE)
    finds = {"row": "b", "column": "got", "find": r"took ([\d.]+) of ([\d.]+) s", "show": "{0} s of {1}"}
    results.read([finds], "it took 2.5 of 7 s", part)
    assert part["rows"][1][1] == "2.5 s of 7"
    with pytest.raises(ValueError, match="nothing like"):
        results.read([finds], "it failed", part)


def test_a_run_is_recorded_and_one_without_its_inputs_is_not_run():
    part = copy.deepcopy(TABLE)
    run = {
        "command": "python -c 'print(\"took 9 s\")'",
        "reads": [{"row": "b", "column": "got", "find": r"took (\d+ s)"}],
    }
    assert results.measure(run, part, {}) == "" and part["rows"][1][1] == "9 s"
    assert {"date", "commit", "load", "machine"} <= run["measured"].keys()
    assert "--set scene=…" in results.measure(run | {"command": "python x.py {scene}"}, part, {})
    assert "exit code 3" in results.measure(run | {"command": "python -c 'exit(3)'"}, part, {})


def test_sections_of_the_page_become_files(tmp_path):
    text = "# Results\n\nAbove.\n\n## It is fast\n\nBy how much:\n\n    a command\n\n"
    text += "| a | b |\n|---|---|\n| 1 | |\n\nBelow.\n"
    assert results.adopt(tmp_path, text) == ["000-results", "010-it-is-fast"]
    assert results.page(results.claims(tmp_path)) == text
    assert results.adopt(tmp_path, text) == []
