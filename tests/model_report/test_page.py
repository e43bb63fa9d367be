"""The page of a model: escaped, whole without labels, quiet and narrow in a browser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from browser import WIDER_THAN_SCREEN, opened
from viewgap.cli.program import run

SHOWN = "[...document.querySelectorAll('#task-table tbody tr')].filter(row => !row.hidden).length"
FIRST = "[...document.querySelectorAll('#task-table tbody th')].map(e => e.textContent)"


class Tags(HTMLParser):
    """Collects tags and addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]


def test_names_are_escaped_and_nothing_is_loaded(case: Any) -> None:
    text = case.report.to_html()
    page = Tags()
    page.feed(text)
    assert page.tags.count("script") == 1
    assert "<script>alert" not in text
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert len(text) < 300_000


def test_without_labels_the_page_says_what_is_not_shown(case: Any) -> None:
    found = viewgap.report(case.model, case.views)
    assert found.measures is None
    assert found.findings[0].kind == "no_labels"
    text = found.to_html()
    assert "cannot be shown" in text
    assert 'id="labels"' not in text
    assert 'id="samples"' in text


def test_a_page_of_300_labels_stays_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(60, 20))}
    y = (X["a"] @ rng.normal(size=(20, 300)) > 1).astype(float)
    model = viewgap.LateFusionRidge().fit(X, y)
    viewgap.report(model, {"a": X["a"] + 0.1}, y, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 400_000


def test_the_command_writes_the_page_and_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    views = rng.normal(size=(60, 4))
    labels = (views[:, :2] > 0).astype(float)
    arrays = {"view0": views, "labels": labels, "view_names": ["a"], "label_names": ["x", "y"]}
    np.savez(tmp_path / "data.npz", **arrays)
    del arrays["labels"], arrays["label_names"]
    np.savez(tmp_path / "bare.npz", **arrays)
    data, model, page = (str(tmp_path / name) for name in ("data.npz", "model", "page.html"))
    assert run(["fit", data, "--out", model, "--method", "late_fusion_ridge"]) == 0
    capsys.readouterr()
    assert run(["report", model, data, "--out", page, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["training_rows"]["found"] is True
    assert found["hidden_views"][0]["left_without_view"] == [str(i) for i in range(60)]
    assert "model on data.npz" in Path(page).read_text(encoding="utf-8")
    assert run(["report", model, str(tmp_path / "bare.npz"), "--out", page]) == 0
    assert "no labels" in capsys.readouterr().out
    assert run(["report", model, data, "--out", str(tmp_path / "none" / "page.html")]) != 0


@pytest.fixture(scope="module")
def file(case: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the model."""
    path = tmp_path_factory.mktemp("model") / "page.html"
    case.report.save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_is_whole(browser: Any, file: Path, width: int, scheme: str) -> None:
    with opened(browser, file, width, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(WIDER_THAN_SCREEN) == []
        assert page.locator("svg.chart").count() == 3


@pytest.mark.slow
def test_labels_are_searched_and_sorted(browser: Any, file: Path) -> None:
    with opened(browser, file) as page:
        page.fill("#search", "two")
        assert page.evaluate(SHOWN) == 1
        assert page.inner_text("#count") == "1 of 4 labels"
        page.fill("#search", "")
        page.locator("#task-table thead th").first.locator("button").click()
        names = page.evaluate(FIRST)
        assert names[1:] == ["one", "rare", "two"]
        page.locator("#task-table thead th").first.locator("button").click()
        assert page.evaluate(FIRST) == names[::-1]


@pytest.mark.slow
def test_without_javascript_the_table_is_there(browser: Any, file: Path) -> None:
    with opened(browser, file, java_script_enabled=False) as page:
        assert page.locator("#task-table tbody tr").first.is_visible()
        assert not page.locator("#search").is_visible()
