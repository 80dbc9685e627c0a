"""docs/results.md, made from benchmarks/results/*.json; and the runs that measure what stands there.

    python benchmarks/results.py                            # write the page
    python benchmarks/results.py --check                    # is the page what the files give? (the tests ask)
    python benchmarks/results.py --list                     # claims, their commands, when each was measured
    python benchmarks/results.py --measure --only scatter   # run its commands, keep the figures, write the page
    python benchmarks/results.py --measure --set run=runs/mine scene=fern-blurred
    python benchmarks/results.py --adopt                    # what was written into the page goes into the files

A file is one claim: a `title` and `parts`, in order. A part is Markdown, or a table: `columns`, `rows`, and `runs`,
each a `command` with what it `reads` from the output and when it was `measured` (date, commit, machine, load). A
command may have {names}, which --set fills in; without them it is skipped. `reads` is a list of

    {"row": "near in focus", "column": "layers given", "find": "near in focus .*?([\\d.]+) dB", "show": "{0} dB"}

(`row` is the first cell, or the row's number where that is empty), or "table": then the command prints a Markdown table
whose rows have the same first cells; its columns, in order, replace ours. A column `wanted` is the target and stays. A
run without `reads` is a record: its figures were copied from what the command wrote.

A claim that was measured at this commit is not measured again, unless --again: an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "results.md"
KEPT = ("wanted", "paper")  # columns that no run changes


def claims(folder: Path) -> dict[str, dict[str, Any]]:
    """name → claim, in the order of the page: that of the files' names."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def keep(folder: Path, name: str, claim: dict[str, Any]) -> None:
    """Write a claim; rows of tables stand on one line each."""
    text = json.dumps(claim, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\n\s+((?:\"(?:[^\"\\]|\\.)*\",?\n?\s*)+)\]", _on_one_line, text)
    temporary = folder / f"{name}.json.new"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(folder / f"{name}.json")


def _on_one_line(found: re.Match[str]) -> str:
    line = "[" + re.sub(r",\n\s*", ", ", found[1].strip()) + "]"
    return line if len(line) < 400 else found[0]


def page(found: dict[str, dict[str, Any]]) -> str:
    """The page of all claims; the file `000-…` is what stands above them."""
    blocks = []
    for name, claim in found.items():
        blocks.append(f"{'#' if name.startswith('000') else '##'} {claim['title']}")
        for part in claim["parts"]:
            blocks += [part] if isinstance(part, str) else table(part)
    return "\n\n".join(blocks) + "\n"


def table(part: dict[str, Any]) -> list[str]:
    """A table, and below it what measured it when."""
    columns, rows = part["columns"], part["rows"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *(f"| {' | '.join(row)} |" for row in rows)]
    text = "\n".join(re.sub(r"\|  (?=\|)", "| ", line) for line in lines)
    notes = [measured(run) for run in part.get("runs", [])]
    return [text, *([f"*{'; '.join(filter(None, notes))}.*"] if any(notes) else [])]


def measured(run: dict[str, Any]) -> str:
    """`command`, date, commit, and the machine and its load where they are known."""
    when = run.get("measured", {})
    load = f"load {when['load']}" if "load" in when else None
    command = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), run["command"])
    words = [f"`{command}`" if command else None, when.get("date"), when.get("commit"), load]
    return ", ".join(filter(None, [*words, when.get("note"), when.get("machine")]))


def measure(run: dict[str, Any], part: dict[str, Any], values: dict[str, str]) -> str:
    """Run a command and take its figures into the table; returns what is missing, if it could not be run."""
    missing = [name for name in re.findall(r"\{(\w+)\}", run["command"]) if name not in values]
    if missing:
        return f"needs --set {' '.join(f'{name}=…' for name in missing)}"
    command = run["command"].format(**{name: shlex.quote(value) for name, value in values.items()})
    print(f"$ {command}", flush=True)
    load = round(os.getloadavg()[0], 1)
    words = [sys.executable, *shlex.split(command)[1:]] if command.startswith("python ") else shlex.split(command)
    paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))  # for tests/oracles
    variables = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(words, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return f"ended with exit code {done.returncode}"
    read(run["reads"], done.stdout, part)
    run["measured"] = {
        "date": str(datetime.date.today()), "commit": commit(), "load": load, "machine": machine(),
    }  # fmt: skip
    return ""


def read(reads: Any, output: str, part: dict[str, Any]) -> None:
    """Take figures from what a command printed. ValueError if something is not there."""
    columns, rows = part["columns"], part["rows"]
    if reads == "table":
        printed = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in output.splitlines() if
                   line.startswith("|")]  # fmt: skip
        by_name = {cells[0]: cells for cells in printed}
        for row in rows:
            if row[0] not in by_name:
                raise ValueError(f"the output has no row {row[0]!r}")
            for i, (column, cell) in enumerate(zip(columns, by_name[row[0]], strict=False)):
                row[i] = row[i] if i == 0 or column in KEPT else cell
        return
    for one in reads:
        row = rows[one["row"]] if isinstance(one["row"], int) else next(row for row in rows if row[0] == one["row"])
        found = re.search(one["find"], output, re.M | re.S)
        if not found:
            raise ValueError(f"the output has nothing like {one['find']!r}")
        row[columns.index(one["column"])] = one.get("show", "{0}").format(*found.groups())


def commit() -> str:
    """The commit of the tree; with a + where files have changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=7", "HEAD") + "+" * bool(git("status", "--porcelain", "--", "src"))


def machine() -> str:
    """The processor, how many of it, and what runs on it."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", info.read_text(), re.M) if info.exists() else []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def adopt(folder: Path, text: str) -> list[str]:
    """Take over what somebody wrote into the page: new sections become files after the one before them, changed ones
    change theirs; runs of tables stay. Returns the names of both."""
    known, made, last = claims(folder), [], -10
    names = {claim["title"]: name for name, claim in known.items()}
    for section in re.split(r"^(?=#{1,2} )", text, flags=re.M)[1:]:
        head, _, body = section.partition("\n")
        title = head.lstrip("# ").strip()
        between = last + (10 if not known else 3)
        slug = "-".join(re.sub(r"[^a-z ]", "", title.lower()).split()[:5])
        name = names.get(title, f"{between:03d}-{slug}")
        before = [part for part in known.get(name, {"parts": []})["parts"] if isinstance(part, dict)]
        notes = {note for part in before for note in table(part)[1:]}
        parts: list[Any] = []
        for block in re.split(r"\n{2,}(?!    )", body.strip("\n")):
            if block.startswith("|"):
                cells = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()]
                alike = [part.get("runs", []) for part in before if part["columns"] == cells[0]]
                parts.append({"columns": cells[0], "rows": cells[2:], "runs": alike[0] if alike else []})
            elif block and block not in notes:
                parts.append(block)
        if name not in known or parts != known[name]["parts"]:
            keep(folder, name, {"title": title, "parts": parts})
            made.append(name)
        last = int(name[:3])
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, words in (
        ("check", "exit code 1 if the page is not what the files give"), ("list", "what there is"),
        ("measure", "run the commands"), ("again", "also what was measured at this commit"),
        ("adopt", "take over what was written into the page"),
    ):  # fmt: skip
        parser.add_argument(f"--{flag}", action="store_true", help=words)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="claims with this in their name")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="what commands ask for")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    if given.adopt:
        given.folder.mkdir(exist_ok=True)
        print("\n".join(adopt(given.folder, given.page.read_text(encoding="utf-8"))))
    found = claims(given.folder)
    if given.check:
        same = given.page.read_text(encoding="utf-8") == page(found)
        print("as it should be" if same else f"{given.page}: not what {given.folder} gives; run benchmarks/results.py")
        return not same
    failed = False
    for name, claim in found.items():
        runs = [(part, run) for part in claim["parts"] if isinstance(part, dict) for run in part.get("runs", [])]
        for part, run in runs if any(text in name for text in given.only) else ():
            if given.list:
                print(f"{name}: {measured(run)}{'' if run.get('reads') else '  (not read by this script)'}")
            elif given.measure and run.get("reads") and (given.again or run["measured"].get("commit") != commit()):
                try:
                    problem = measure(run, part, dict(pair.split("=", 1) for pair in given.set))
                except ValueError as error:
                    problem = str(error)
                if problem:
                    print(f"{name}: {problem}", flush=True)
                    failed = True
                keep(given.folder, name, claim)
    if not given.list:
        given.page.write_text(page(claims(given.folder)), encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
