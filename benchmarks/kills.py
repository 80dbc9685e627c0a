"""SIGKILL at random moments, and full disks: does all work resume, and to the same bytes?

    python benchmarks/kills.py --times 100            # over all commands together
    python benchmarks/kills.py --times 6 --only train,export --full-disk

Each command is first run to its end, which tells how long it takes and what it writes. It is then started anew, killed
at a random moment with all its children, and run again until it ends by itself: it must succeed. What training and film
write must be the same bytes as without a kill. A full disk is a limit on the size of files, set so low that the largest
file does not fit: the command must fail with one line that names a file, leave no temporary file, and succeed when it
is run again without the limit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STEPS = ["--steps", "0.02"]
SAME = {"train": "checkpoint.safetensors", "film": "film.gif"}  # by command, the file that must be the same to the bit


def commands(base: Path) -> dict[str, Callable[[Path], list[str]]]:
    """What to run, by name, given a folder to write to; `base` holds photos and a finished run."""
    run, photos = str(base / "run"), str(base / "photos")
    return {
        "train": lambda out: [
            "train",
            "demo",
            "--width",
            "96",
            "--out",
            str(out),
            "--checkpoint-minutes",
            "0.01",
            *STEPS,
        ],
        "run": lambda out: ["run", photos, "--out", str(out), "--steps", "0.01", "--width", "96"],
        "capture": lambda out: ["capture", photos, "--out", str(out)],
        "film": lambda out: ["render", run, "--rack-focus", "--frames", "12", "--out", str(out / "film.gif")],
        "bench": lambda out: [
            "bench",
            "shallow",
            "--scenes",
            "demo",
            "--steps",
            "0.005",
            "--size",
            "64",
            "--out",
            str(out),
        ],
        "export": lambda out: ["export", run, "--html", str(out / "page.html")],
    }


def start(arguments: list[str], limit: int | None = None) -> subprocess.Popen:
    def prepare() -> None:
        os.setsid()
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    words = [sys.executable, "-m", "dofnerf", *arguments]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(words, stdout=null, stderr=pipe, preexec_fn=prepare, text=True)  # noqa: PLW1509


def finish(arguments: list[str], limit: int | None = None) -> tuple[int, str]:
    """The exit code and the last line of errors."""
    child = start(arguments, limit)
    lines = [line for line in child.communicate()[1].splitlines() if line.strip()]
    return child.returncode, lines[-1] if lines else ""


def resumed(name: str, arguments: list[str]) -> list[str]:
    return [*arguments, "--resume"] if name == "train" else arguments


def digest(folder: Path, name: str) -> str:
    file = folder / SAME[name]
    if not file.is_file():
        return "missing"
    data = file.read_bytes()
    if file.suffix == ".safetensors":  # the tensors: the words before them hold the seconds that it took
        data = data[8 + int.from_bytes(data[:8], "little") :]
    return hashlib.sha256(data).hexdigest()


def killed(name: str, arguments: list[str], out: Path, seconds: float, dice: random.Random) -> str:
    """What came of one kill: "" if all is well."""
    child = start(arguments)
    try:
        child.communicate(timeout=dice.uniform(0, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    code, line = finish(resumed(name, arguments))
    if code:
        return f"exit {code}: {line[:100]}"
    left = [
        path.name for path in out.rglob(".*-*") if path.is_file() and path.suffix in (".safetensors", ".png", ".gif")
    ]
    return f"left {left[0]}" if left else ""


def full(name: str, arguments: list[str], out: Path, largest: int) -> str:
    """What came of a full disk: "" if all is well."""
    code, line = finish(arguments, limit=max(4096, largest // 2))
    if code == 0:
        return "it did not notice"
    if "Traceback" in line or "dofnerf" not in line or "/" not in line:
        return f"said: {line[:100]}"
    code, line = finish(resumed(name, arguments))
    return f"then exit {code}: {line[:100]}" if code else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="kills over all commands together")
    parser.add_argument("--only", default="", help="commands, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full-disk", action="store_true", help="also full disks")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="dofnerf-kills-"))
    made = commands(base)
    chosen = options.only.split(",") if options.only else list(made)
    from dofnerf.scenes import DEMO

    (base / "photos").mkdir()
    for path in sorted((DEMO / "images").iterdir())[:12]:
        shutil.copy(path, base / "photos")
    if {"film", "export"} & set(chosen):
        finish(made["train"](base / "run"))
    dice, bad = random.Random(options.seed), 0
    print("| command | seconds | kills | resumed | same bytes | full disk |\n|---|---|---|---|---|---|", flush=True)
    for i, name in enumerate(chosen):
        times = options.times // len(chosen) + (i < options.times % len(chosen))
        whole = base / f"{name}-whole"
        begun = time.monotonic()
        code, line = finish(made[name](whole))
        seconds = time.monotonic() - begun
        if code:
            print(f"| {name} | does not run: {line[:120]} |", flush=True)
            bad += 1
            continue
        wrong, same = [], 0
        for k in range(times):
            out = base / f"{name}-{k}"
            problem = killed(name, made[name](out), out, seconds, dice)
            wrong += [problem] if problem else []
            same += name in SAME and digest(out, name) == digest(whole, name)
            shutil.rmtree(out, ignore_errors=True)
        largest = max((path.stat().st_size for path in whole.rglob("*") if path.is_file()), default=0)
        disk = (
            full(name, made[name](base / f"{name}-full"), base / f"{name}-full", largest) if options.full_disk else "–"
        )
        equal = f"{same} of {times}" if name in SAME else "–"
        print(
            f"| {name} | {seconds:.0f} | {times} | {times - len(wrong)} | {equal} | {disk or 'one line, resumed'} |",
            flush=True,
        )
        for problem in wrong[:3]:
            print(f"|  | {problem} |")
        bad += len(wrong) + (name in SAME and same < times) + (options.full_disk and bool(disk))
    shutil.rmtree(base, ignore_errors=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
