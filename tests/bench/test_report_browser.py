"""The report of an experiment in a real browser: whole, quiet, never wider than the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from browser import WIDER_THAN_SCREEN, opened
from viewgap.bench.results.record import Record
from viewgap.bench.show.report import render_report

pytest.importorskip("matplotlib")

Make = Callable[..., Record]

pytestmark = pytest.mark.slow
SHOWN = "[...document.querySelectorAll('#task-table tbody tr')].filter(row => !row.hidden).length"
COLUMN = """index => [...document.querySelectorAll('#task-table tbody tr')]
    .map(row => row.cells[index].textContent)"""
AP = 4


@pytest.fixture(scope="module")
def file(
    make_result: Make,
    make_records: Callable[[], list[Record]],
    failures: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Methods on two data sets, a curve on a third and a heat map on a fourth."""
    records = make_records()
    base = records[0].settings
    records += [
        make_result(0.4 + rate / 10, dataset="curve", settings={**base, "view_rate": rate})
        for rate in (0.1, 0.3, 0.5)
    ]
    records += [
        make_result(0.4, dataset="map", settings={**base, "params": {"alpha": a, "tau": t}})
        for a in (0.1, 1.0)
        for t in (1.0, 5.0)
    ]
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(records, failures), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(browser: Any, file: Path, width: int, scheme: str) -> None:
    with opened(browser, file, width, color_scheme=scheme) as page:
        assert page.title().startswith("viewgap: Results on corel5k, <script>")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(WIDER_THAN_SCREEN) == []
        boxes = [element.bounding_box() for element in page.query_selector_all("#figures svg")]
        assert len(boxes) == 6  # one per data set, ranks on the two with several methods
        assert all(box and box["width"] > 300 and box["height"] > 100 for box in boxes)
        assert page.locator("#figures svg text").count() > 50
        # one per data set and condition (the curve has three), two overviews, one of settings
        assert page.locator("table.result").count() == 9
        assert page.locator("table.cost").count() == 6
        assert page.locator("#cost svg").count() == 2  # where methods are rivals


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_an_inspection_is_whole(browser: Any, width: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    views = {f"view with a long name {j}": rng.normal(size=(40, 3)) for j in range(6)}
    observed = rng.random((40, 6)) < 0.7
    result = viewgap.inspect(viewgap.ViewSet(views, observed), rng.random((40, 4)) < 0.4)
    result.save(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", width, java_script_enabled=False) as page:
        assert page.title() == "viewgap: Inspection of the data"
        assert page.locator("#findings li").first.is_visible()
        inside, box = page.locator(".upset").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert inside > box or width == 1280
    with opened(browser, tmp_path / "page.html", width, color_scheme="dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(WIDER_THAN_SCREEN) == []


def test_a_wide_table_scrolls_in_its_own_box(browser: Any, file: Path) -> None:
    with opened(browser, file, 390) as page:
        inside, box = page.evaluate(
            "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#results .scroll'))"
        )
        assert inside > box


def test_search_filters_rows(browser: Any, file: Path) -> None:
    with opened(browser, file) as page:
        assert page.evaluate(SHOWN) == 26
        page.fill("#search", "RANK corel5k")
        assert page.evaluate(SHOWN) == 3
        assert page.inner_text("#count") == "3 of 26 tasks"
        page.fill("#search", "nowhere")
        assert page.evaluate(SHOWN) == 0
        page.fill("#search", "")
        assert page.evaluate(SHOWN) == 26


def test_headings_sort_both_ways_with_holes_below(browser: Any, file: Path) -> None:
    with opened(browser, file) as page:
        heading = page.locator("#task-table th").nth(AP)
        for direction in ("ascending", "descending"):
            heading.locator("button").click()
            assert heading.get_attribute("aria-sort") == direction
            *numbers, last = page.evaluate(COLUMN, AP)
            assert last == "–"
            values = [float(text) for text in numbers]
            assert values == sorted(values, reverse=direction == "descending")


def test_without_javascript_the_table_is_there(browser: Any, file: Path) -> None:
    with opened(browser, file, java_script_enabled=False) as page:
        assert page.locator("#task-table tbody tr").count() == 26
        assert page.locator("#task-table tbody tr").first.is_visible()
        assert not page.locator("#search").is_visible()


def test_a_printed_page_cuts_nothing_off(browser: Any, file: Path) -> None:
    a4_between_margins = 703
    with opened(browser, file, a4_between_margins) as page:
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") == a4_between_margins
        assert not page.locator("#search").is_visible()
