"""Pages in headless Chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDER_THAN_SCREEN = """() => [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .filter(e => !e.parentElement.closest('.scroll, .plot, .upset, pre'))
    .map(e => e.tagName + '.' + (e.className.baseVal ?? e.className))"""
"""Elements that make the page wider than the screen, but for those that scroll by themselves."""

REFUSED = "Failed to load resource: the server responded with a status of 4"


def chromium() -> Iterator[Any]:
    """The browser; for fixtures of a module: its event loop would be in the way of other tests."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs chromium")
    with playwright_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@contextmanager
def opened(browser: Any, page_at: Path | str, width: int = 1280, **more: Any) -> Iterator[Any]:
    """A page in a fresh tab; complaints, dialogs and requests to others fail the test."""
    if isinstance(page_at, Path):
        address, quiet = page_at.as_uri(), ("file:", "data:")
    else:
        address, quiet = page_at, (page_at, "data:", REFUSED)
    page = browser.new_page(viewport={"width": width, "height": 900}, **more)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: complaints.append(request.url))
    page.goto(address)
    yield page
    assert [text for text in complaints if not text.startswith(quiet)] == []
    page.close()
