"""Ctrl-C at every stage: how many seconds until a command has ended, and what it says.

    python benchmarks/interrupts.py                     # 8 moments of each command, then SIGTERM and a second Ctrl-C
    python benchmarks/interrupts.py --times 3 --only capture,train

Each command is run to its end once, for its duration, then interrupted at moments spread evenly over that, start-up
included. It must end with exit code 130 (143 after SIGTERM, unless it was done), without a traceback, tell how to go
on, and leave no process behind. In the first tenth of a second, Python itself has the signal, and prints a traceback.
The figures are those of an idle machine only if it is idle: its load is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kills import commands, finish, photos, start

SIGNALS = {"Ctrl-C": (signal.SIGINT,), "SIGTERM": (signal.SIGTERM,), "Ctrl-C twice": (signal.SIGINT, signal.SIGINT)}


def all_commands(base: Path) -> dict[str, Callable[[Path], str]]:
    """Those of kills.py, and more."""
    run = base / "source"
    return commands(base) | {
        "train hash": lambda out: f"train demo --field hash --width 64 --steps 0.01 --out {out}",
        "eval": lambda out: f"eval {run}",
        "report": lambda out: f"report {run} --out {out / 'report.html'}",
        "synth lens": lambda out: f"synth lens --views 3 --size 96 64 --samples 16 --out {out}",
        "view": lambda out: f"view {run} --port 0",
    }


def interrupt(words: str, numbers: tuple[int, ...], moment: float) -> tuple[float, str]:
    """Seconds until it ended, and what is wrong, or ""; 0 seconds if it had ended before."""
    child = start(words)
    try:
        child.communicate(timeout=moment)
        return 0.0, ""
    except subprocess.TimeoutExpired:
        begun = time.monotonic()
    for number in numbers:
        child.send_signal(number)
        time.sleep(0.1 * (len(numbers) > 1))
    try:
        _, said = child.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return 60.0, "does not end"
    took = time.monotonic() - begun
    time.sleep(0.5)  # for whoever collects the dead
    try:
        os.killpg(child.pid, signal.SIGKILL)
        return took, "left a process behind"
    except ProcessLookupError:
        pass
    last = (said.strip().splitlines() or [""])[-1]
    if "Traceback" in said:
        return took, f"traceback: {last[:150]}"
    if child.returncode in (0, -numbers[0]):  # it had just ended, or not yet begun
        return took, ""
    if child.returncode != 128 + numbers[0]:
        return took, f"exit {child.returncode}: {last[:150]}"
    return took, "" if child.returncode == 0 or (
        "interrupted" in last and "dofnerf " in last
    ) else f"said: {last[:150]}"


def measure(name: str, make: Callable[[Path], str], base: Path, times: int) -> bool:
    """Print a row of the table; whether all is well."""
    seconds = 6.0
    if name != "view":  # which does not end by itself
        begun = time.monotonic()
        code, line = finish(make(base / "whole"))
        seconds = time.monotonic() - begun
        shutil.rmtree(base / "whole", ignore_errors=True)
        if code:
            print(f"| {name} | does not run: {line[:150]} |", flush=True)
            return False
    cells, wrong = [], []
    for kind, numbers in SIGNALS.items():
        moments = [seconds * (k + 0.5) / times for k in range(times)] + [1.0] * (kind == "Ctrl-C")
        took = []
        for moment in moments:
            out = base / "out"
            one, problem = interrupt(make(out), numbers, moment)
            took += [one] if one else []
            wrong += [f"{kind} after {moment:.1f} s: {problem}"] if problem else []
            shutil.rmtree(out, ignore_errors=True)
        cells.append(f"{statistics.median(took):.1f}, {max(took):.1f}" if took else "–")
    print(f"| {name} | {seconds:.0f} | {' | '.join(cells)} | {os.getloadavg()[0]:.1f} |", flush=True)
    for problem in wrong:
        print(f"<!-- {problem} -->", flush=True)
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=8, help="moments of each command")
    parser.add_argument("--only", default="", help="commands, separated by commas")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="dofnerf-interrupts-"))
    made, well = all_commands(base), True
    try:
        photos(base / "photos")
        finish(made["train"](base / "source"))
        heads = " | ".join(f"{kind}: median, longest" for kind in SIGNALS)
        print(f"| command | seconds | {heads} | load |\n|{'---|' * (len(SIGNALS) + 3)}", flush=True)
        for name in options.only.split(",") if options.only else made:
            well &= measure(name, made[name], base, options.times)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    sys.exit(not well)


if __name__ == "__main__":
    main()
