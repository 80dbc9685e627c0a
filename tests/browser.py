"""A headless browser for tests of pages: Playwright driving the system's Chromium, or a skip that says what is missing.

The fixtures are there for every test (tests/conftest.py names this file):

    def test_it(watched):
        page = watched(path.as_uri())

Playwright's own download of a browser is not needed: Debian's `chromium` will do (`make test` installs it where it
may).
"""

from __future__ import annotations

import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]


@pytest.fixture(scope="module")
def browser():
    """Chromium, with WebGL drawn by the processor."""
    program = os.environ.get("DOFNERF_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium: install it (apt-get install chromium) or set DOFNERF_CHROMIUM to one")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed (pip install playwright)"
    )
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def watched(browser):
    """Opens pages, each as a visitor of its own; at the end, none may have complained in its console or asked for
    anything beyond its own site."""
    contexts, complaints = [], []

    def open_page(address: str, width: int = 480, height: int = 420):
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(120_000)  # a busy machine draws WebGL slowly
        contexts.append(context)
        page = context.new_page()
        watch(page, complaints)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, complaints


def watch(page, complaints: list[str]) -> None:
    """Note what goes wrong in a page."""
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))


def screenshot(page, selector: str | None = None) -> np.ndarray:
    """What is seen, (H, W, 3) in 0 … 1."""
    data = page.locator(selector).screenshot() if selector else page.screenshot()
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(float) / 255
