"""How much faster has training become? This tree and another commit train the same scene in turn.

    python benchmarks/speed.py --against 41eceb0                         the scene in the package, `fast`
    python benchmarks/speed.py scene --against 41eceb0 --rounds 2 -- --width 504

The other commit is checked out into a temporary folder and runs with the packages of this environment. Each training is
a process of its own, begun after the kernels have been compiled by a short one. Prints processor time (user and system,
all threads), wall time, PSNR of the held-out views and the lens's mean errors, and the ratio of the times: machines
differ and are shared, so only the ratio means something. What follows `--` goes to both `dofnerf train`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dofnerf import scenes
from dofnerf.evaluate.scores import held_out_psnr, lens_error
from dofnerf.train import Run

HERE = Path(__file__).resolve().parent.parent


class Timing(NamedTuple):
    processor: float
    wall: float


def run(tree: Path, arguments: list[str], threads: int) -> Timing:
    """Train by the code of a tree, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": str(threads)}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "dofnerf", "train", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{tree}: dofnerf train ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return Timing(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", default="demo", help="a scene, or demo")
    parser.add_argument("--against", required=True, help="the other commit")
    parser.add_argument("--rounds", type=int, default=1, help="trainings of each")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    given, own = parser.parse_known_args()
    own = own[1:] if own[:1] == ["--"] else own
    scene = scenes.demo() if given.scene == "demo" else scenes.load(given.scene)
    with tempfile.TemporaryDirectory(prefix="dofnerf-speed-") as temporary:
        other = Path(temporary) / "other"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", str(other), given.against], check=True, capture_output=True)
        try:
            compare({given.against: other, "this tree": HERE}, scene, [given.scene, *own], given, Path(temporary))
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=False, capture_output=True)


def compare(
    trees: dict[str, Path], scene: scenes.Scene, arguments: list[str], given: argparse.Namespace, work: Path
) -> None:
    times: dict[str, list[Timing]] = {name: [] for name in trees}
    for name, tree in trees.items():
        run(tree, [*arguments, "--steps", "0.02", "--out", str(work / f"{name}-warm")], given.threads)
    print("| code | processor s | wall s | PSNR | aperture | focus |\n|---|---|---|---|---|---|", flush=True)
    for turn in range(given.rounds):
        for name, tree in trees.items():
            out = work / f"{name}-{turn}"
            spent = run(tree, [*arguments, "--out", str(out)], given.threads)
            times[name].append(spent)
            trained = Run.load(out)
            wide, focus = lens_error(trained, scene)
            scores = f"{held_out_psnr(trained, scene):.2f} | {100 * wide:.1f} % | {100 * focus:.1f} %"
            print(f"| {name} | {spent.processor:.0f} | {spent.wall:.0f} | {scores} |", flush=True)
    first, last = (times[name] for name in trees)
    ratios = [statistics.median(b[k] / a[k] for a, b in zip(first, last, strict=True)) for k in range(2)]
    print(f"\nthis tree takes {ratios[0]:.2f} of the processor time and {ratios[1]:.2f} of the wall time")


if __name__ == "__main__":
    main()
