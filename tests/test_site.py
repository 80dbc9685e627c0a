"""The site builds without a warning; every link leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from small_shots import write_run

ROOT = Path(__file__).parents[1]
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Its links, what it fetches, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if (tag, name) in FETCHED and value and ("rel", "canonical") not in attributes:
                self.fetched.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed (the extra docs)")
    folder = tmp_path_factory.mktemp("site")
    write_run(folder / "run")
    variables = os.environ | {"DOFNERF_SITE_RUN": str(folder / "run"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder / "site")]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_links_lead_somewhere(site):
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 40
    for path, page in pages.items():
        if path.name == "404.html":  # its links start at the root of a server
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.name}: {link}"
            if parts.fragment and target in pages and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"


def test_nothing_is_fetched_from_elsewhere(site):
    for path in site.rglob("*.html"):
        assert not [link for link in Page(path).fetched if urlsplit(link).scheme in ("http", "https")], path
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", path.read_text(encoding="utf-8")), path


def test_it_has_the_scene_and_the_api(site):
    assert 'src="scene.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert "<canvas" in (site / "scene.html").read_text(encoding="utf-8")
    shown = (site / "api.html").read_text(encoding="utf-8")
    import dofnerf

    for name in set(dofnerf.__all__) - {"scenes"}:
        assert re.search(rf'id="dofnerf[\w.]*\.{name}"', shown), name


def test_it_opens(site, watched):
    page = watched((site / "index.html").as_uri(), 390, 844)
    page.wait_for_selector("iframe")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing is cut off on a phone
