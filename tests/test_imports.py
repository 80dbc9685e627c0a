"""Who may import whom: the order of docs/design.md, held by reading the source."""

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dofnerf"
BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))
ORDER = [
    "process",
    "plugins",
    "camera",
    "files",
    "optics",
    "scenes",
    "models",
    "train",
    "web",
    "capture",
    "evaluate",
    "studio",
    "lab",
]
MAY_IMPORT = {part: set(ORDER[:i]) for i, part in enumerate(ORDER)} | {
    "optics": set(),
    "camera": set(),
    "plugins": set(),
    "process": set(),
}


def _parts_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: imports are absolute")
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "dofnerf":
            names += [f"dofnerf.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("dofnerf."))


def test_import_order():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part not in MAY_IMPORT:
            assert part in {"__init__", "__main__", "cli", "completion", "short_help"}, (
                f"{path}: give {part} its place in the import order"
            )
            continue
        wrong += [f"{path.name} of {part} imports {other}" for other in _parts_imported(path)
                  if other != part and other not in MAY_IMPORT[part]]  # fmt: skip
    assert not wrong, wrong


@pytest.mark.parametrize("path", BENCHMARKS, ids=[path.stem for path in BENCHMARKS])
def test_what_benchmarks_ask_of_the_package_is_there(path):
    """They take long, so no test runs them; but they must not rot unseen."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dofnerf":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
