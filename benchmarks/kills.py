"""SIGKILL at random moments, and full disks: does all work resume, and to the same bytes?

    python benchmarks/kills.py                          # 100 kills over all commands together, then full disks
    python benchmarks/kills.py --times 6 --only train,export

Each command is first run to its end, which tells how long it takes and what it writes. It is then started anew, killed
at a random moment with all its children, and run again until it ends by itself: it must succeed, leave no temporary
file, and what training and film write must be the same bytes as without a kill. Quick commands are killed more often.

A full disk is a tmpfs that holds a third, two thirds and nine tenths of what the command writes (root only; others get
a limit on the size of files). The command must fail with one line that names a file, and succeed when it is run again
with room; training and film to the same bytes.
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

SHARES = {"export": 30, "film": 30, "bench": 14, "train": 14, "capture": 8, "run": 4}  # of 100 kills
SAME = {"train": "checkpoint.safetensors", "film": "film.gif"}  # by command, the file that must be the same to the bit
FULL = (0.33, 0.67, 0.9)  # sizes of the disk, in what the command writes
TEMPORARY = ".*.dofnerf-*"  # dofnerf.files.outputs.atomic


def commands(base: Path) -> dict[str, Callable[[Path], str]]:
    """What to run, by name, given a folder to write to; `base` holds photos and a finished run."""
    run, taken = base / "source", base / "photos"
    return {
        "train": lambda out: f"train demo --width 96 --out {out} --checkpoint-minutes 0.01 --steps 0.02",
        "run": lambda out: f"run {taken} --out {out} --steps 0.01 --width 96",
        "capture": lambda out: f"capture {taken} --out {out}",
        "film": lambda out: f"render {run} --rack-focus --frames 12 --out {out / 'film.gif'}",
        "bench": lambda out: f"bench shallow --scenes demo --steps 0.005 --size 64 --out {out}",
        "export": lambda out: f"export {run} --html --out {out / 'page.html'}",
    }


def photos(folder: Path) -> None:
    """8 photos of the scene in the package, focused near and far in turns."""
    from dofnerf.scenes import DEMO

    folder.mkdir()
    for i in range(8):
        shutil.copy(DEMO / ("far" if i % 2 else "near") / f"{i:03d}.jpg", folder)


def start(words: str, limit: int | None = None) -> subprocess.Popen:
    def prepare() -> None:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    line = [sys.executable, "-m", "dofnerf", *words.split()]
    return subprocess.Popen(line, stdout=null, stderr=pipe, preexec_fn=prepare, text=True)  # noqa: PLW1509


def finish(words: str, limit: int | None = None) -> tuple[int, str]:
    """The exit code and the last line of errors."""
    child = start(words, limit)
    lines = [line for line in child.communicate()[1].splitlines() if line.strip()]
    return child.returncode, lines[-1] if lines else ""


def digest(folder: Path, name: str) -> str:
    file = folder / SAME[name]
    if not file.is_file():
        return "missing"
    data = file.read_bytes()
    if file.suffix == ".safetensors":  # the tensors: the words before them hold the seconds that it took
        data = data[8 + int.from_bytes(data[:8], "little") :]
    return hashlib.sha256(data).hexdigest()


def resume(name: str, words: str, out: Path, whole: Path) -> str:
    """Run it again: what is wrong then, or ""."""
    code, line = finish(f"{words} --resume" if name == "train" else words)
    if code:
        return f"exit {code}: {line[:200]}"
    if left := [path.name for path in out.rglob(TEMPORARY)]:
        return f"left {left[0]}"
    return "other bytes" if name in SAME and digest(out, name) != digest(whole, name) else ""


def killed(name: str, words: str, out: Path, whole: Path, seconds: float) -> str:
    """What is wrong after a kill when so many seconds have passed, or ""."""
    child = start(words)
    try:
        child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    return resume(name, words, out, whole)


def full(name: str, words: str, out: Path, whole: Path, share: float) -> str:
    """What is wrong after the disk was full, or ""."""
    sizes = [path.stat().st_size for path in whole.rglob("*") if path.is_file()]
    out.mkdir()
    size = max(int(share * sum(-(-one // 4096) for one in sizes)), 1) * 4096
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "dofnerf-kills", str(out)]
    disk = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        code, line = finish(words, limit=None if disk else int(share * max(sizes)))
        if not code:
            return "did not notice"
        if not line.startswith("dofnerf: ") or str(out) not in line:
            return f"said: {line[:200]}"
        if disk:
            subprocess.run(["mount", "-o", "remount,size=1g", str(out)], check=True)
        return resume(name, words, out, whole)
    finally:
        if disk:
            subprocess.run(["umount", str(out)], check=True)


def measure(name: str, make: Callable[[Path], str], base: Path, times: int, dice: random.Random) -> bool:
    """Print a row of the table; whether all is well."""
    whole, begun = base / f"{name}-whole", time.monotonic()
    code, line = finish(make(whole))
    seconds = time.monotonic() - begun
    if code:
        print(f"| {name} | does not run: {line[:200]} |", flush=True)
        return False
    wrong = []
    for k in range(times):
        out, moment = base / f"{name}-{k}", dice.uniform(0, seconds)
        if problem := killed(name, make(out), out, whole, moment):
            wrong.append(f"killed after {moment:.1f} s: {problem}")
        shutil.rmtree(out, ignore_errors=True)
    resumed, other = times - len(wrong), sum(problem.endswith("other bytes") for problem in wrong)
    disks = []
    for share in FULL:
        out = base / f"{name}-full-{share}"
        if problem := full(name, make(out), out, whole, share):
            disks.append(f"disk of {share:.0%}: {problem}")
        shutil.rmtree(out, ignore_errors=True)
    same = f"{times - other} of {times}" if name in SAME else "–"
    print(
        f"| {name} | {seconds:.0f} | {times} | {resumed + other} | {same} | {len(FULL) - len(disks)} of {len(FULL)} |",
        flush=True,
    )
    for problem in [*wrong, *disks]:
        print(f"<!-- {problem} -->", flush=True)
    return not wrong and not disks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="kills over all commands together")
    parser.add_argument("--only", default=",".join(SHARES), help="commands, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    base, chosen, dice = Path(tempfile.mkdtemp(prefix="dofnerf-kills-")), options.only.split(","), random.Random()
    made, total = commands(base), sum(SHARES[name] for name in chosen)
    well = True
    try:
        photos(base / "photos")
        if {"film", "export"} & set(chosen):
            finish(made["train"](base / "source"))
        print(
            "| command | seconds | kills | resumed | same bytes | full disks |\n|---|---|---|---|---|---|", flush=True
        )
        for name in chosen:
            dice.seed(f"{options.seed} {name}")
            well &= measure(name, made[name], base, round(options.times * SHARES[name] / total), dice)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    sys.exit(not well)


if __name__ == "__main__":
    main()
