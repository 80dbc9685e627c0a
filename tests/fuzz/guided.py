"""Coverage-guided fuzzing of one binary reader by atheris: `python guided.py READER SECONDS`.

Prints the executions and the findings. Only Python code is followed; what lies in compiled libraries is exercised, too,
but does not guide.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "scenes"), str(HERE.parents[1] / "src")]

with atheris.instrument_imports(include=["dofnerf.files", "dofnerf.scenes", "dofnerf.train.checkpoint"]):
    import mutations
    import readers


def chosen(name: str, place: Path) -> mutations.Reader:
    every = [
        *readers.arrays(),
        *readers.pictures(place),
        *readers.plys(place),
        *readers.splat_files(place),
        *readers.scene_readers(place),
    ]
    if "checkpoint" in name:
        every += readers.runs()
    return next(reader for reader in every if reader.name == name)


def main() -> None:
    name, seconds = sys.argv[1], sys.argv[2]
    place = Path(tempfile.mkdtemp(prefix="dofnerf-fuzz-"))
    reader = chosen(name, place)
    corpus = place / "corpus"
    corpus.mkdir()
    for i, whole in enumerate(reader.seeds):
        (corpus / f"{i}").write_bytes(whole)
    path = place / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)

    def one(data: bytes) -> None:
        path.write_bytes(data)
        mutations.try_reader(reader, path)

    flags = [
        f"-max_total_time={seconds}",
        "-timeout=10",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        "-max_len=20000",
    ]
    flags += ["-verbosity=0", f"-artifact_prefix={place}/", "-seed=1"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
