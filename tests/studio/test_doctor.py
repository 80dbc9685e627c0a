"""`dofnerf doctor`: what it prints, and that it notices a backend that is wrong or broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import metadata

import pytest
import torch

from dofnerf.cli import main
from dofnerf.optics.scattering import cpu
from dofnerf.studio import doctor

QUICK = ["doctor", "--seconds", "0", "--no-browser"]


def test_one_text_to_paste(capsys) -> None:
    assert main(QUICK) == 0
    text = capsys.readouterr().out
    assert text.startswith("dofnerf doctor\n")
    for line in (
        "splats   cpu (numba)   agrees (",
        "scatter  cpu (numba)   agrees (",
        "Used on cpu: splats cpu (numba)",
    ):
        assert line in text
    if not torch.cuda.is_available():
        assert "splats   gpu (triton)  not run: " in text


def test_it_tells_what_a_maintainer_would_ask(monkeypatch, tmp_path) -> None:
    """Driver, reason, settings; no folder of the user's."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '535.104, Some GPU'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("DOFNERF_NODE", str(tmp_path))
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "init", lambda: (_ for _ in ()).throw(RuntimeError("driver\ntoo old")))
    found = doctor.describe_machine(browser=False)
    assert found["driver"] == "535.104, Some GPU"
    assert "OMP_NUM_THREADS=2" in found["settings"] and "DOFNERF_NODE=(a path)" in found["settings"]
    assert str(tmp_path) not in " ".join(found.values())
    if not torch.cuda.is_available():
        assert found["CUDA"].endswith("built for CUDA 13.0: driver too old")


def test_it_knows_every_extra() -> None:
    extras = set(metadata("dofnerf").get_all("Provides-Extra"))
    assert set(doctor._OPTIONAL.values()) == extras - {"view", "cuda", "dev", "docs", "package"}


def test_json_has_the_same(capsys) -> None:
    assert main([*QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    verdicts = {(one["operation"], one["backend"]): one["verdict"] for one in found["checks"]}
    assert verdicts["splats", "cpu"] == verdicts["hash", "cpu"] == "agrees"
    assert found["used"]["cpu"]["scatter"] == "cpu"
    assert found["machine"]["PyTorch"].startswith(torch.__version__)


def test_a_backend_that_disagrees_or_breaks_is_exit_code_1(monkeypatch, capsys) -> None:
    right = cpu.accumulate
    monkeypatch.setattr(cpu, "accumulate", lambda *arguments: 1.01 * right(*arguments)[..., [1, 0, *range(2, 4)]])
    assert main(QUICK) == 1
    out, err = capsys.readouterr()
    assert "scatter  cpu (numba)   disagrees (" in out and "not as the reference: scatter cpu" in err

    def broken(*_):
        raise RuntimeError("no such\ninstruction")

    monkeypatch.setattr(cpu, "accumulate", broken)
    assert main(QUICK) == 1
    assert "scatter  cpu (numba)   failed: RuntimeError: no such instruction" in capsys.readouterr().out


def test_interpreted_kernels_are_checked_too() -> None:
    pytest.importorskip("triton", reason="the gpu backend needs triton: pip install dofnerf[gpu]")
    if torch.cuda.is_available():
        pytest.skip("the kernels run on the CUDA device instead")
    command = [sys.executable, "-m", "dofnerf", *QUICK, "--json"]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True, capture_output=True, text=True, timeout=600
    )
    verdicts = [(one["operation"], one["verdict"], one["why"]) for one in json.loads(done.stdout)["checks"]]
    assert ("splats", "agrees", "interpreted") in verdicts and ("scatter", "agrees", "interpreted") in verdicts


def test_bad_seconds(capsys) -> None:
    assert main(["doctor", "--seconds", "-1"]) == 2
    assert "--seconds" in capsys.readouterr().err
