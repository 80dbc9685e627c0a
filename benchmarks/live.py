"""What does `train --live` cost? Trainings without it, with it and nobody there, and with one visitor, in turn.

    python benchmarks/live.py                      the scene in the package, `fast`
    python benchmarks/live.py --steps 0.5 --rounds 2

The visitor does what the page does: it asks for the status every 1.5 seconds and fetches each new state of the scene;
what its browser draws is not counted. Prints the processor time of the training process, and how long training waited
for snapshots.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILD = """
import json, sys, time
from dofnerf import cli
from dofnerf.studio import live

waited, watch = [0.0], live.LiveViewer.watch

def noted(self, *given):
    watch(self, *given)
    waited[0] = self.seconds

live.LiveViewer.watch = noted
code = cli.main(sys.argv[1:])
print("spent", json.dumps([time.process_time(), waited[0]]))
sys.exit(code)
"""


def ask(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    found = connection.getresponse().read()
    connection.close()
    return found


def visit(port: int, training: subprocess.Popen[str]) -> int:
    """Look until the training ends; returns how many states of the scene came."""
    version, states = None, 0
    while training.poll() is None:
        try:
            status = json.loads(ask(port, "/status")) if version is not None else ask(port, "/") and {"version": 0}
            if status["version"] != version:
                version = status["version"]
                states += bool(ask(port, "/scene.bin"))
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(1.5)
    return states


def run(kind: str, steps: float) -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory(prefix="dofnerf-live-") as folder:
        command = [sys.executable, "-c", CHILD, "train", "demo", "--out", str(Path(folder) / "run")]
        command += ["--steps", str(steps), *(["--live"] if kind != "without" else [])]
        training = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert training.stdout is not None
        states = 0
        if kind == "one visitor":
            words = next(line for line in training.stdout if line.startswith("live"))
            states = visit(int(words.rpartition(":")[2]), training)
        said = training.stdout.read().splitlines()
        if training.wait():
            sys.exit(f"training ended with {training.returncode}: {said[-3:]}")
        processor, waited = json.loads(said[-1].removeprefix("spent"))
        return processor, waited, states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    print("| | processor time | against without | waited | states shown |")
    print("|---|---|---|---|---|")
    for _ in range(given.rounds):
        base = 0.0
        for kind in ("without", "nobody there", "one visitor"):
            processor, waited, states = run(kind, given.steps)
            base = base or processor
            print(
                f"| {kind} | {processor:.1f} s | {processor / base - 1:+.1%} | {waited:.2f} s | {states} |", flush=True
            )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
