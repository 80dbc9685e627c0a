"""Several processes train one run: two real ones, which talk by gloo, against one alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from together import trainings, watched

from dofnerf.scenes import DEMO
from dofnerf.train import Run, checkpoint
from dofnerf.train.workers import ALONE, Workers, may_speak

HERE = Path(__file__).parent


def torchrun(*program, cwd=None):
    """Two processes of a program."""
    path = os.pathsep.join([*sys.path, str(HERE), str(HERE.parent)])
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *map(str, program)],
        check=False, capture_output=True, text=True, timeout=900, cwd=cwd, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone():
    """The curves of one process."""
    return {name: watched(*training)[1] for name, training in trainings().items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, alone):
    """What two processes left. (They come after the one, which has compiled all kernels.)"""
    out = tmp_path_factory.mktemp("together")
    done = torchrun(HERE / "together.py", out)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def said(folder, number):
    return json.loads((folder / f"said-{number}.json").read_text())


def tensors(folder, name, number):
    return checkpoint.unpack((folder / f"{name}-{number}.safetensors").read_bytes()).tensors()


@pytest.mark.parametrize("name", trainings())
def test_two_processes_learn_what_one_does(folder, alone, name):
    together = said(folder, 0)[name]
    assert said(folder, 1)[name] == [], "only the first reports"
    assert [rays for *_, rays in together] == [rays for *_, rays in alone[name]]
    for step, ((loss, error, _), (wanted_loss, wanted_error, _)) in enumerate(zip(together, alone[name], strict=True)):
        # Sums in another order: Adam, which divides by the size of a gradient, makes more of rounding with every step.
        near = 1e-5 if step < 3 else 1e-3
        assert loss == pytest.approx(wanted_loss, rel=near, abs=1e-7), step
        assert error == pytest.approx(wanted_error, rel=near, abs=1e-7), step


@pytest.mark.parametrize("name", trainings())
def test_both_end_with_the_same_bits_and_one_checkpoint(folder, name):
    first, second = (tensors(folder, name, number) for number in range(2))
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    assert {path.name for path in (folder / name).iterdir()} == {
        "README.txt", "checkpoint.safetensors", "config.json", "lens.csv", "log.txt", "previews",
    }  # fmt: skip
    kept = Run.load(folder / name).learner.tensors()
    assert all(torch.equal(kept[key], first[key]) for key in first)


def test_ctrl_c_for_one_stops_both_and_they_resume_exactly(folder):
    for number in range(2):
        assert said(folder, number)["interrupted"] and said(folder, number)["left at"] == 6
        whole, resumed = tensors(folder, "odd", number), tensors(folder, "resumed", number)
        assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_nan_in_one_takes_both_back(folder):
    for number in range(2):
        assert said(folder, number)["recovered"] == [[10, 1], [6, 1]]


def test_the_command(tmp_path):
    few = [
        "--field",
        "hash",
        "--width",
        "24",
        "--pinhole-steps",
        "2",
        "--lens-steps",
        "1",
        "--lens-ray-steps",
        "1",
        "--rays",
        "33",
    ]
    done = torchrun(
        "-m", "dofnerf", "train", DEMO, "--out", "run", *few, "--patch-size", "8", "--no-search", "--refits", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("wrote    run") == done.stdout.count("train    hash") == 1
    assert Run.load(tmp_path / "run").learner.standing.step == 4
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("total", [0, 1, 2, 7, 96])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_are_even_and_leave_nothing_out(total, count):
    rows = [list(range(total)[Workers(number, count).part(total)]) for number in range(count)]
    assert [row for part in rows for row in part] == list(range(total))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_one_alone_changes_nothing():
    value = torch.ones(3, requires_grad=True)
    assert ALONE.join(value, 3) is ALONE.counted_once(value) is ALONE.learned_once(value) is ALONE.add(value) is value
    assert ALONE.agree(True, False) == [True, False] and ALONE.tell(b"word") == b"word" and may_speak()


def test_what_all_do_alike_counts_once():
    """Two processes' shares of one loss, written out."""
    value = torch.tensor(3.0, requires_grad=True)
    total, slope = 0.0, 0.0
    for number in range(2):
        workers = Workers(number, 2)
        share = workers.counted_once(workers.learned_once(value) ** 2)
        total += float(share.detach())
        slope += float(torch.autograd.grad(share, value)[0])
    assert (total, slope) == (9.0, 6.0)
