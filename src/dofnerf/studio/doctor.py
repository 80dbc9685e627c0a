"""What this machine has, whether each backend agrees with its reference here, and how fast it is: `dofnerf doctor`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from dofnerf.process import Failed
from dofnerf.studio.backends import OPERATIONS, Check, check, chosen

_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "amx-tile", "neon")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_OPTIONAL = {  # package: extra
    "triton": "gpu", "pycolmap": "capture", "pillow-heif": "capture", "rawpy": "raw", "mitsuba": "synth",
    "transformers": "depth", "zstandard": "spz", "tensorboard": "tensorboard", "ray": "ray",
}  # fmt: skip
_SETTINGS = ("CUDA_", "DOFNERF_", "MKL_", "NUMBA_", "OMP_", "PYTORCH_", "TORCH_", "TRITON_")  # variables that matter
_NAMES = {"cpu": "cpu (numba)", "gpu": "gpu (triton)", "reference": "plain PyTorch"}
_PAGE = """<!doctype html><body><script>
const gl = document.createElement("canvas").getContext("webgl2");
const more = gl && gl.getExtension("WEBGL_debug_renderer_info");
const name = gl ? gl.getParameter(more ? more.UNMASKED_RENDERER_WEBGL : gl.RENDERER) : "none";
document.body.textContent = "[[" + name + "]]";
</script></body>"""


@dataclass(frozen=True)
class DoctorConfig:
    """Say what this machine has, run every backend against its reference, and say which will be used and how fast it
    is: one text to paste into an issue. Exit code 1 if a backend disagrees or fails.

    For example:
      dofnerf doctor
      dofnerf doctor --json > doctor.json
      TRITON_INTERPRET=1 dofnerf doctor --seconds 0
    """

    seconds: float = 2.0
    """How long to time each backend; 0 only compares them."""
    browser: bool = True
    """Ask a browser on this machine who draws its WebGL: a second or two."""
    json: bool = False
    """Print JSON instead of text."""


def run(config: DoctorConfig) -> None:
    """Print the findings; Failed if a backend disagrees with its reference, or breaks."""
    if not 0 <= config.seconds <= 600:
        raise ValueError(f"--seconds must be from 0 to 600, found {config.seconds:g}")
    machine = describe_machine(config.browser)
    checks = [check(operation, name, config.seconds) for operation in OPERATIONS for name in operation.backends]
    used = {
        device: {operation.name: chosen(operation, device) for operation in OPERATIONS}
        for device in ("cpu", "cuda")
        if device == "cpu" or torch.cuda.is_available()
    }
    if config.json:
        print(json.dumps({"machine": machine, "checks": [asdict(one) for one in checks], "used": used}, indent=1))
    else:
        print(_text(machine, checks, used), flush=True)
    wrong = [f"{one.operation} {one.backend}" for one in checks if one.verdict in ("disagrees", "failed")]
    if wrong:
        raise Failed(f"not as the reference: {', '.join(wrong)}; please open an issue with the text above")


def describe_machine(browser: bool) -> dict[str, str]:
    """What there is, in words; names of folders and users are left out."""
    found = {
        "dofnerf": f"{_version('dofnerf')}{_commit()}, Python {platform.python_version()}",
        "system": platform.platform(),
        "processor": _processor(),
        "PyTorch": f"{torch.__version__}, {torch.get_num_threads()} threads; numba {_version('numba')}",
        "CUDA": _cuda(),
        "driver": _driver(),
    }
    for package, extra in _OPTIONAL.items():
        found[package] = _version(package) or f"not installed (the extra {extra!r})"
    found["gsplat"] = f"{_version('gsplat') or 'not installed'} (not needed)"
    found["ffmpeg"] = _ffmpeg()
    found["browser"] = _browser() if browser else "not asked"
    found["settings"] = _settings() or "none"
    return found


def _text(machine: dict[str, str], checks: list[Check], used: dict[str, dict[str, str]]) -> str:
    wide = max(map(len, machine)) + 2
    lines = ["dofnerf doctor", "", *(f"  {name:{wide}}{value}" for name, value in machine.items())]
    lines += ["", "Each backend against plain PyTorch in float64, values and gradients:", ""]
    lines += [f"  {one.operation:9}{_NAMES[one.backend]:14}{_verdict(one)}" for one in checks]
    lines += ["", *(_used(device, names) for device, names in used.items())]
    if "cuda" in used:
        lines += ["", "We have no GPU, and ran these triton kernels in an interpreter only. Please send us this text."]
    return "\n".join(lines)


def _verdict(one: Check) -> str:
    if one.error is None:
        return f"{one.verdict}: {one.why}"
    words = f"{one.verdict} ({one.error:.0e}{', ' + one.why if one.why else ''})"
    return words if one.milliseconds is None else f"{words}; {one.milliseconds:.3g} ms for {one.what}"


def _used(device: str, names: dict[str, str]) -> str:
    return f"Used on {device}: " + ", ".join(f"{name} {_NAMES[backend]}" for name, backend in names.items())


def _processor() -> str:
    import llvmlite.binding as llvm

    name, about = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if about.is_file():
        lines = [line for line in about.read_text(errors="replace").splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    has = llvm.get_host_cpu_features()
    features = (
        " ".join(feature for feature in _FEATURES if has.get(feature)) or "no vector instructions that we ask for"
    )
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    return f"{name}, {os.cpu_count()} cores{memory}; {features}"


def _commit() -> str:
    """Of the checkout that this runs from, if it does."""
    root = Path(__file__).parents[3]
    if not (root / "pyproject.toml").is_file() or not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    try:
        found = _said("git", "-C", root, "describe", "--always", "--dirty=, changed", "--exclude=*").strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    return f" (commit {found})" if found else ""


def _cuda() -> str:
    if not torch.cuda.is_available():
        if not torch.version.cuda:
            return "no device that PyTorch can use: it is built without CUDA"
        try:
            torch.cuda.init()
            why = "no reason given"
        except (RuntimeError, AssertionError) as problem:
            why = " ".join(str(problem).split())[:200]
        return f"no device that PyTorch can use, though it is built for CUDA {torch.version.cuda}: {why}"
    one = torch.cuda.get_device_properties(0)
    count = f"{torch.cuda.device_count()} × " if torch.cuda.device_count() > 1 else ""
    return f"{torch.version.cuda}: {count}{one.name}, sm_{one.major}{one.minor}, {one.total_memory / 2**30:.0f} GiB"


def _driver() -> str:
    """NVIDIA's, which decides what CUDA and triton can do."""
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi"
    try:
        said = _said("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
    except (OSError, subprocess.SubprocessError) as problem:
        return f"nvidia-smi does not run: {type(problem).__name__}"
    return "; ".join(line.strip() for line in said.splitlines()[:8]) or "nvidia-smi says nothing"


def _settings() -> str:
    """Environment variables that change how fast or where it runs; of folders, only that they are set."""
    given = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)}
    return ", ".join(f"{name}={'(a path)' if os.sep in value else value[:40]}" for name, value in given.items())


def _version(package: str) -> str:
    """Of an installed package, which is not imported: pycolmap must not be, beside Pillow."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _ffmpeg() -> str:
    import imageio_ffmpeg

    try:
        return f"{imageio_ffmpeg.get_ffmpeg_version()}"
    except (RuntimeError, OSError) as problem:
        return f"none that runs: {' '.join(str(problem).split())[:120]}"


def _browser() -> str:
    """Name and version of a browser, and who draws its WebGL 2."""
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        return "no Chromium or Chrome on the path (any browser with WebGL 2 will do)"
    try:
        name = _said(program, "--version").split(" built on")[0].strip()
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "gl.html")
            page.write_text(_PAGE, encoding="utf-8")
            flags = ["--headless", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile", "--dump-dom"]
            flags += ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
            drawn = _said(program, *flags, page.as_uri()).partition("[[")[2].partition("]]")[0]
    except (OSError, subprocess.SubprocessError) as problem:
        return f"does not start: {type(problem).__name__}"
    return f"{name}; WebGL 2: {drawn or 'no answer'}"


def _said(*command: Any) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=60)
    return done.stdout
