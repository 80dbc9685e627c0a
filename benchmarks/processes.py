"""How much faster do several processes train one run of splats? One process and several, of one thread each, in turn.

    python benchmarks/processes.py demo -- --photos-per-step 2    the scene in the package, a photo for each process
    python benchmarks/processes.py demo -- --steps 0.3            `fast` as it is: columns of one photo for each
    python benchmarks/processes.py scene --processes 2 --rounds 2 -- --width 504 --photos-per-step 2

Prints the wall time of the whole command and of its steps (by the run's log: from the first step to the last, lens
search and registration included; loading the program, photos and starting points are not), the processor time of the
busiest process, and PSNR of the held-out views. On a machine that is not idle wall times say little: the speed-up in
processor time, one process over the busiest of several, is that of an idle one, but for what they wait for each other.
What follows `--` goes to `dofnerf train`, of one process as of several. OMP_NUM_THREADS=1 holds for the kernels, too,
which take as many threads as torch does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dofnerf import scenes
from dofnerf.evaluate.scores import held_out_psnr
from dofnerf.train import Run

# Each process runs the command and leaves its processor time, in all and of its steps.
CHILD = """
import json, os, sys, time
from pathlib import Path
from dofnerf import cli
from dofnerf.train import trainer

learn, spent = trainer.learn, {}

def timed(*given):
    before = time.process_time()
    found = learn(*given)
    spent["steps"] = time.process_time() - before
    return found

trainer.learn = timed
code = cli.main(sys.argv[2:])
spent["all"] = time.process_time()
Path(sys.argv[1], os.environ.get("RANK", "0")).write_text(json.dumps(spent))
sys.exit(code)
"""


class Timing(NamedTuple):
    wall: float
    steps: float
    processor: float
    busiest: float
    psnr: float


def run(processes: int, scene: scenes.Scene, arguments: list[str]) -> Timing:
    """Train by so many processes."""
    with tempfile.TemporaryDirectory(prefix="dofnerf-together-") as name:
        folder = Path(name)
        (folder / "child.py").write_text(CHILD)
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launch if processes > 1 else []), str(folder / "child.py"), str(folder), "train"]
        begun = time.perf_counter()
        done = subprocess.run(
            [*command, *arguments, "--out", str(folder / "run")],
            env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall = time.perf_counter() - begun
        if done.returncode:
            sys.exit(f"dofnerf train ended with {done.returncode}: {done.stderr.strip()[:4000]}")
        spent = [json.loads((folder / str(rank)).read_text()) for rank in range(processes)]
        trained = Run.load(folder / "run")
        seconds = trained.learner.progress.seconds
        busiest, steps = (max(one[key] for one in spent) for key in ("all", "steps"))
        return Timing(wall, seconds, busiest, steps, held_out_psnr(trained, scene))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", nargs="?", default="demo", help="a scene, or demo")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1, help="trainings of each")
    given, own = parser.parse_known_args()
    own = own[1:] if own[:1] == ["--"] else own
    scene = scenes.demo() if given.scene == "demo" else scenes.load(given.scene)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    print("| processes | wall, whole command | wall, steps | processor, busiest | its steps | PSNR |")
    print("|---|---|---|---|---|---|")
    found: dict[int, list[Timing]] = {1: [], given.processes: []}
    for _ in range(given.rounds):
        for count, timings in found.items():
            timings.append(run(count, scene, [given.scene, *own]))
            wall, steps, processor, busiest, psnr = timings[-1]
            print(
                f"| {count} | {wall:.1f} s | {steps:.1f} s | {processor:.1f} s | {busiest:.1f} s | {psnr:.2f} |",
                flush=True,
            )
    one, several = ([sum(column) for column in zip(*timings, strict=True)][:4] for timings in found.values())
    print("| speed-up | " + " | ".join(f"{a / b:.2f}×" for a, b in zip(one, several, strict=True)) + " | |")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
