"""Optional dependencies: whether they are there, and how to install what is missing."""

import importlib.util


def how_to_install(extra: str) -> str:
    """What to do to get an extra of pyproject.toml, in words that work for a release and in a checkout."""
    return f"install the extra {extra!r}: pip install 'dofnerf[{extra}]', or '.[{extra}]' in a checkout"


def check_installed(package: str, extra: str) -> None:
    """ValueError if a package is not there. It is not imported: pycolmap must not be, beside Pillow."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} is not installed: {how_to_install(extra)}")
