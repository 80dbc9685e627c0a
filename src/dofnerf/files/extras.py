"""Optional dependencies: how to install what is missing."""


def how_to_install(extra: str) -> str:
    """What to do to get an extra of pyproject.toml, in words that work for a release and in a checkout."""
    return f"install the extra {extra!r}: pip install 'dofnerf[{extra}]', or '.[{extra}]' in a checkout"
