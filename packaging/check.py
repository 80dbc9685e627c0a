"""Build the wheel and the sdist, and see whether they can be published: metadata, size, and that an empty environment
installs the wheel and runs the demo at 1 % of its steps, with the oldest Python that we support and the newest here.

    python packaging/check.py                            # also: make package
    python packaging/check.py --python python3.12        # with this one instead; several may be given
    python packaging/check.py --build-only

Needs the extra `package` (build, twine). Environments are made anew in build/package and stay there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 5e6  # bytes of a file that is published
OLDEST, NEWEST = 10, 19  # of Python 3 to look for
NEEDED = ("dofnerf/web/walk/walk.html", "dofnerf/scenes/demo_scene/transforms.json", "dofnerf/py.typed")


def build(out: Path) -> tuple[Path, Path]:
    """(wheel, sdist), checked."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # setuptools would pack files that are gone
    run(sys.executable, "-m", "build", "-o", out, ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    for file in (wheel, sdist):
        print(f"{file.name}  {file.stat().st_size / 1e6:.2f} MB")
        if file.stat().st_size > LARGEST:
            raise SystemExit(f"{file}: larger than {LARGEST / 1e6:g} MB")
    with zipfile.ZipFile(wheel) as packed, tarfile.open(sdist) as source:
        names, sources = packed.namelist(), [name.partition("/src/")[2] for name in source.getnames()]
    for needed in NEEDED:
        if needed not in names or needed not in sources:
            raise SystemExit(f"{needed}: missing in {wheel.name} or {sdist.name}")
    return wheel, sdist


def pythons() -> list[str]:
    """The oldest supported Python and the newest, of those on the path and of pyenv's that run."""
    own = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob("3.*/bin"))
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, own)])  # pyenv's shims need not work
    found = []
    for minor in range(OLDEST, NEWEST + 1):
        for folder in path.split(os.pathsep):
            program = shutil.which(f"python3.{minor}", path=folder)
            if program and not subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode:
                found.append(program)
                break
        if minor == OLDEST and not found:
            print(f"NOT tried with Python 3.{OLDEST}, the oldest that we support: it is not on this machine")
    return list(dict.fromkeys([found[0], found[-1]])) if found else [sys.executable]


def try_out(python: str, wheel: Path) -> None:
    """Install the wheel into an empty environment of this Python, and run what users run first."""
    version = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])", quiet=True).strip()
    folder = ROOT / "build" / "package" / version
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    there = folder / "bin"
    run(there / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    print(run(there / "dofnerf", "--version", quiet=True).strip(), f"on Python {version}")
    run(there / "dofnerf", "demo", "--steps", "0.01", "--out", folder / "demo")
    if not list((folder / "demo").rglob("checkpoint.safetensors")):
        raise SystemExit(f"{folder / 'demo'}: the demo left no run")
    print(f"Python {version}: installed from the wheel, the demo ran")


def run(*command: Path | str, quiet: bool = False) -> str:
    """Run a command outside of the checkout, so that only what is installed counts; stop if it fails."""
    words = list(map(str, command))
    if not quiet:
        print("$", " ".join(words), flush=True)
    (ROOT / "build").mkdir(exist_ok=True)
    done = subprocess.run(words, cwd=ROOT / "build", text=True, check=False, stdout=subprocess.PIPE if quiet else None)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}")
    return done.stdout or ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], help="a Python to try it with, instead of those two")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    wheel, _ = build(given.out.resolve())
    for python in () if given.build_only else given.python or pythons():
        if shutil.which(python) is None:
            raise SystemExit(f"{python}: not on this machine")
        try_out(python, wheel)


if __name__ == "__main__":
    main()
