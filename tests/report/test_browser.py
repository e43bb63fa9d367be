"""The page in a real browser, at desktop and phone width, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewgap.report import Story, render_report

pytestmark = pytest.mark.slow
WIDER_THAN_SCREEN = """() => [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .filter(e => !e.closest('.sr, thead'))
    .map(e => e.tagName + '.' + (e.className.baseVal ?? e.className))"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(
    browser: Any, width: int, scheme: str, make_story: Callable[..., Story], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_report(make_story()), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())

    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert page.title() == "viewgap: MultiDigits"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(WIDER_THAN_SCREEN) == []
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    for selector, count in (("svg.chart[role=img]", 4), (".says", 4), (".sample img", 4)):
        boxes = [element.bounding_box() for element in page.query_selector_all(selector)]
        assert len(boxes) == count
        assert all(box and box["width"] > 80 and box["height"] > 20 for box in boxes)
    assert len(page.query_selector_all(".map .row")) == 6
    assert len(page.get_by_role("row").all()) == 4
    page.close()
