"""Hooks of the site's build (mkdocs.yml): pages link to each other as on a code host, and the live scene is exported.

The scene is that of the run in DOFNERF_SITE_RUN, which `make docs` trains for it on the photos in the package.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

SCENE = "scene.html"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ become words: the site has only what is in it."""
    depth = page.file.src_uri.count("/")
    outside = re.compile(r"\[([^\]]*)\]\(" + r"\.\./" * (depth + 1) + r"[^)]*\)")
    return outside.sub(r"\1", markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Export the live scene."""
    folder = os.environ.get("DOFNERF_SITE_RUN")
    if not folder:
        raise ValueError("DOFNERF_SITE_RUN must name the run whose scene the site shows: use `make docs`")
    from dofnerf.studio.notebook import Run, save, source_of

    save(source_of(Run.load(folder), Path("The scene in the package")), Path(config["site_dir"]) / SCENE)
