"""The page at `/` in a real browser: the service's own figures, hostile names, keyboard, phone."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import viewgap
from browser import opened
from nasty_service import COLUMNS, LABELS, NASTY, running

pytestmark = pytest.mark.slow
WIDER_THAN_SCREEN = """() => [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.tagName + '.' + e.className)"""
SHOWN = """() => [...document.querySelectorAll('#labels li.answer')].map(line =>
    [line.dataset.label, Number(line.querySelector('.said data').value)])"""
PARTS = """() => [...document.querySelectorAll('#labels li.answer')].map(line =>
    [line.dataset.label, [...line.querySelectorAll('.parts data')].map(part =>
        [part.parentNode.querySelector('bdi').textContent, Number(part.value)])])"""
SETS = """() => [...document.querySelectorAll('#labels li.answer')].map(line =>
    [line.dataset.label, line.querySelector('.set').textContent])"""
UNNAMED = """() => [...document.querySelectorAll('input, select, textarea')]
    .filter(field => !field.labels.length).length + [...document.querySelectorAll('button')]
    .filter(button => !button.textContent.trim()).length"""


def settled(page: Any) -> None:
    """Wait until label sets and contributions are there, too."""
    page.wait_for_function(
        "() => document.querySelector('#labels .parts') && document.querySelector('#labels .set')"
    )


def predict(page: Any, text: str) -> None:
    page.fill("#rows", text)
    page.click("#predict")
    settled(page)


def example(address: str) -> dict[str, Any]:
    return dict(httpx.get(f"{address}/example", timeout=60).json())


def ask(address: str, path: str, body: Any) -> Any:
    answer = httpx.post(f"{address}/{path}", json=body, timeout=60)
    assert answer.status_code == 200
    return answer.json()["rows"]


def table(rows: list[dict[str, Any]], separator: str = ",") -> str:
    """The rows as one table with columns `view:column`."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\r\n")
    names = [(view, name) for view, own in COLUMNS.items() for name in own]
    writer.writerow(["id", *(f"{view}:{name}" for view, name in names)])
    for row in rows:
        given = [(row["views"].get(view) or {}).get(name) for view, name in names]
        writer.writerow([row["id"], *given])
    return out.getvalue()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(browser: Any, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, width, color_scheme=scheme) as page:
        page.click("#example-table")
        page.wait_for_function("() => document.querySelector('#rows').value")
        page.click("#predict")
        settled(page)
        page.locator(".switch input").first.uncheck()
        page.wait_for_selector("#change:not(:empty)")
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(WIDER_THAN_SCREEN) == []
        assert page.evaluate(UNNAMED) == 0
        # names are text, whatever they hold
        assert (
            page.evaluate("document.querySelectorAll('main img, main script, bdi *').length") == 0
        )
        assert page.inner_text("#views li >> nth=0").startswith(NASTY.strip())
        assert page.locator("#labels li.answer").count() == len(LABELS)


def test_what_is_shown_is_what_the_service_answers(browser: Any, address: str) -> None:
    rows = example(address)["rows"]
    with opened(browser, address) as page:
        predict(page, json.dumps({"rows": rows}))
        page.select_option("#order", "model")
        for index, row in enumerate(rows):
            page.locator("#list input").nth(index).check()
            settled(page)
            given = [view for view, values in row["views"].items() if values is not None]
            for hidden in (None, *given):
                if hidden is not None:
                    page.locator(".switch input:not(:disabled)").nth(given.index(hidden)).uncheck()
                    page.wait_for_selector("#change:not(:empty)")
                    settled(page)
                kept = {v: None if v == hidden else values for v, values in row["views"].items()}
                check(page, address, {"rows": [{"id": row["id"], "views": kept}]})
                if hidden is not None:
                    page.locator(".switch input:not(:disabled)").nth(given.index(hidden)).check()
                    page.wait_for_selector("#change:empty", state="attached")
                    settled(page)


def check(page: Any, address: str, body: Any) -> None:
    [predicted], [explained], [decided] = (
        ask(address, path, body) for path in ("predict", "explain", "decide")
    )
    expected = predicted["probabilities"]
    assert page.evaluate(SHOWN) == [[label, expected[label]] for label in LABELS]
    assert page.evaluate(SETS) == [[label, decided["labels"][label]] for label in LABELS]
    for label, parts in page.evaluate(PARTS):
        found = explained["labels"][label]["contributions"]
        assert dict(parts) == {view: value for view, value in found.items() if value is not None}
    promise = httpx.post(f"{address}/decide", json=body, timeout=60).json()["promise"]
    assert promise in page.inner_text("#promise")


def test_tables_and_json_are_read_alike(browser: Any, address: str) -> None:
    body = example(address)
    rows = body["rows"]
    tables = [table(rows), table(rows, "\t"), table(rows, ";"), "\n\n" + table(rows)]
    bare = table(rows).replace("plain:p1", "p1")  # of one view only, so that it is clear
    with opened(browser, address) as page:
        found = []
        for text in (*tables, bare, json.dumps(body), json.dumps(rows), json.dumps(rows[0])):
            predict(page, text)
            found.append(dict(page.evaluate(SHOWN)))
    [first, _] = ask(address, "predict", body)
    assert all(shown == first["probabilities"] for shown in found)


def test_a_file_is_read(browser: Any, address: str, tmp_path: Path) -> None:
    rows = example(address)["rows"]
    (tmp_path / "rows.csv").write_text("\ufeff" + table(rows), encoding="utf-8")
    many = [dict(rows[0], id=f"row {i}") for i in range(4000)]
    (tmp_path / "many.csv").write_text(table(many), encoding="utf-8")
    (tmp_path / "other.csv").write_bytes("id,é\n".encode("latin-1"))
    with opened(browser, address) as page:
        page.set_input_files("#file", tmp_path / "rows.csv")
        page.wait_for_function("() => document.querySelector('#status').textContent")
        page.click("#predict")
        settled(page)
        assert page.inner_text("#row-name") == "example-1"
        page.set_input_files("#file", tmp_path / "many.csv")
        page.wait_for_function("() => document.querySelector('#rows').disabled")
        page.click("#predict")
        page.wait_for_function(
            "() => /^4,000 rows pred/.test(document.querySelector('#status').textContent)"
        )
        page.fill("#find", "row 3999")
        assert page.inner_text("#list").split("\n")[0] == "row 3999"
        page.set_input_files("#file", tmp_path / "other.csv")
        page.wait_for_selector("#refused:not([hidden])")
        assert "not UTF-8" in page.inner_text("#refused")


def test_what_is_not_clear_is_refused_with_its_place(browser: Any, address: str) -> None:
    rows = example(address)["rows"]
    good = table(rows)
    head, first, _ = good.split("\r\n", 2)
    twice = json.dumps({"rows": rows}).replace('"id"', '"id": "x", "id"', 1)
    refused = [
        ("", "no rows yet"),
        (head, "no row below"),
        (good.replace("plain:p1", "plain:q1"), "plain:q1"),
        (good.replace(",plain:p1", ",plain:p2"), "plain:p2 is there twice"),
        (f"{head}\n{first},1", "Line 2 (example-1) has 10 fields"),
        (good.replace("example-2", "example-1"), "line 2 and in line 3"),
        (good.replace("example-2", ""), "Line 3 has no id"),
        (f"{head}\n{first.rpartition(',')[0]},1e999", "column plain:p3: expected a number"),
        (f'{head}\n"a', "not closed"),
        ("id,plain:p1\nx,1", "2 of 3 columns of the view plain are absent: p2, p3"),
        ("id;plain:p1;plain:p2;plain:p3\nx;1,5;2;3", "write a decimal point: 1.5"),
        ("plain:p1,plain:p2,plain:p3\n1,2,3", "first column must hold the ids"),
        ("nothing", "separated by"),
        ("{", "not JSON"),
        (twice, "appears twice"),
        ('{"rows": [{"id": 1e400, "views": {}}]}', "whole number that a browser can hold"),
        ('{"rows": [{"views": {"plain": {"p1": 1}}}]}', "rows[0].views.plain.p2"),
        ('{"rows": 1}', "expected a list of rows"),
        ('[{"views": {"other": null}}]', "rows[0].views.other"),
        ("[1]", "expected an object"),
    ]
    with opened(browser, address) as page:
        for text, words in refused:
            page.fill("#rows", text)
            page.click("#predict")
            page.wait_for_selector("#refused:not([hidden])")
            page.wait_for_selector("#predict:not([disabled])")
            assert words in page.inner_text("#refused"), (text[:80], page.inner_text("#refused"))
            assert not page.locator("#answers").is_visible()


def test_a_row_without_views_and_one_that_loses_its_last(browser: Any, address: str) -> None:
    frequencies = httpx.get(f"{address}/models", timeout=60).json()["models"][0]["labels"]
    expected = {label["name"]: label["frequency"] for label in frequencies}
    values = dict.fromkeys(COLUMNS["plain"], 0.5)
    rows = [{"id": "none", "views": {}}, {"id": "one", "views": {"plain": values}}]
    with opened(browser, address) as page:
        page.fill("#rows", json.dumps(rows))
        page.click("#predict")
        page.wait_for_selector("#labels .set")
        assert page.inner_text("#change").startswith("This row has no view")
        assert dict(page.evaluate(SHOWN)) == expected
        page.locator("#list input").nth(1).check()
        settled(page)
        page.locator(".switch input:not(:disabled)").uncheck()
        page.wait_for_function(
            "() => document.querySelector('#change').textContent.startsWith('Without any')"
        )
        assert dict(page.evaluate(SHOWN)) == expected


def test_the_keyboard_is_enough(browser: Any, address: str) -> None:
    with opened(browser, address) as page:
        page.click("#example-json")
        page.wait_for_function("() => document.querySelector('#rows').value")
        page.focus("#rows")
        page.keyboard.press("Control+Enter")
        settled(page)
        assert page.evaluate("document.activeElement.id") == "row-name"
        page.focus("#list input")
        page.keyboard.press("ArrowDown")
        assert page.inner_text("#row-name") == "example-2"
        for _ in range(3):  # out of the list, to the first switch
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('role')") == "switch":
                break
        page.keyboard.press("Space")
        page.wait_for_selector("#change:not(:empty)")


def test_a_token_is_asked_for(browser: Any, nasty: Path) -> None:
    with running(nasty, token="right") as address, opened(browser, address) as page:
        page.wait_for_selector("#token-form:not([hidden])")
        assert not page.locator("#input").is_visible()
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#problem:not([hidden])")
        assert "token is missing or wrong" in page.inner_text("#problem")
        page.fill("#token", "right")
        page.keyboard.press("Enter")
        page.wait_for_selector("#input:not([hidden])")
        assert not page.locator("#token-form").is_visible()
        assert page.inner_text("#name") == "nasty"


def test_a_model_that_is_replaced_meanwhile_is_said(
    browser: Any, nasty: Path, tmp_path: Path
) -> None:
    shutil.copytree(nasty, tmp_path, dirs_exist_ok=True)
    with (
        running(tmp_path, reload_interval=0.02) as address,
        opened(browser, address) as page,
    ):
        predict(page, json.dumps(example(address)))
        model = viewgap.load_model(tmp_path / "nasty")
        viewgap.save_model(model, tmp_path / "nasty", overwrite=True)
        end = time.monotonic() + 60
        while httpx.get(f"{address}/ready").json()["models"]["nasty"]["version"] < 2:
            assert time.monotonic() < end
        page.locator(".switch input").first.uncheck()
        page.wait_for_selector("#refused:not([hidden])")
        assert "model was replaced" in page.inner_text("#refused")
        assert "version 2" in page.inner_text("#lead")
        assert not page.locator("#answers").is_visible()
        page.click("#predict")
        settled(page)
        assert page.locator("#labels li.answer").count() == len(LABELS)
