"""Text, JSON, page and notebook: whole, escaped, without script, for any data that can be read."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import viewgap
from viewgap.errors import SettingError
from viewgap.inspection.drawing import upset
from viewgap.inspection.inspection import TABLES

NASTY = "<script>alert('x')</script>\"&\x1b[31m"
VOID = {"meta", "link", "br", "img", "rect", "circle", "line"}


class Tags(HTMLParser):
    """Tags and attributes of a page; open and closed must agree."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def check(page: str) -> Tags:
    found = Tags(page)
    assert "script" not in found.tags
    assert not [name for name in found.attributes if name.startswith("on")]
    assert "\x1b" not in page
    return found


def nasty_inspection() -> viewgap.inspection.Inspection:  # type: ignore[name-defined]
    rng = np.random.default_rng(0)
    ids = [f"{NASTY}{i}" for i in range(30)]
    frame = pd.DataFrame(rng.normal(size=(30, 2)), index=ids, columns=[NASTY, "constant"])
    frame["constant"] = 1.0
    frame.iloc[4, 0] = 1e9
    labels = pd.DataFrame({NASTY + "label": [0.0, 1.0] * 15}, index=ids)
    labels.iloc[0] = np.nan
    return viewgap.inspect({NASTY: frame, "other": frame.iloc[5:] * 2}, labels)


def test_names_of_users_stay_text() -> None:
    result = nasty_inspection()
    for page in (result.to_html(NASTY), result._repr_html_()):
        check(page)
        assert "&lt;script&gt;" in page
    assert "\x1b" not in str(result)
    assert "http" not in result.to_html().replace("http-equiv", "")


def test_page_shows_every_table_and_finding(
    clean: tuple[dict[str, pd.DataFrame], pd.DataFrame],
) -> None:
    views, labels = clean
    views["genes"]["g1"] = 1.0
    views["drugs"] = views["drugs"].iloc[:40]
    result = viewgap.inspect(views, labels)
    page = result.to_html()
    for name in ("views", "samples", "patterns", "pairs", "labels", "missingness"):
        assert f'<section id="{name}"' in page
    assert 'class="card is-note"' in page
    assert page.count("<svg") == 2  # the sign and the patterns
    assert "prefers-color-scheme: dark" in page


def test_numbers_stand_apart_from_names_that_are_read_from_the_right() -> None:
    arabic = "\u0639\u0631\u0636 5"
    drawn = upset(pd.DataFrame({"views": [[arabic], []], "samples": [111, 3]}), [arabic])
    assert f">{arabic}<title>" in drawn
    assert ">111</text>" in drawn


def test_json_has_what_the_tables_have(tmp_path: Path) -> None:
    result = nasty_inspection()
    result.save(tmp_path / "found.json")
    read = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert read == result.to_dict()
    assert list(read) == ["findings", *TABLES]
    assert read["views"][0]["view"] == NASTY
    assert read["patterns"][0]["views"] == [NASTY, "other"]
    assert len(read["labels"]) == 1
    result.save(tmp_path / "found.html")
    check((tmp_path / "found.html").read_text(encoding="utf-8"))
    with pytest.raises(SettingError, match=r"\.html or \.json"):
        result.save(tmp_path / "found.txt")
    assert len(list(tmp_path.iterdir())) == 2


def test_text_begins_with_the_findings(clean: tuple[dict[str, pd.DataFrame], pd.DataFrame]) -> None:
    views, labels = clean
    views["genes"]["g1"] = 1.0
    result = viewgap.inspect(views, labels)
    lines = str(result).splitlines()
    assert lines[0] == "60 samples, 2 views, 3 labels: 0 errors, 0 warnings, 1 note"
    assert lines[1].startswith("- note: view 'genes': 1 column with one value only: g1")
    assert repr(result) == f"Inspection({lines[0]})"


values = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 5)),
    elements=st.one_of(
        st.just(np.nan), st.sampled_from([0.0, 1.0, -1e38, 1e-300]), st.floats(-100, 100, width=32)
    ),
)


@settings(max_examples=25)
@given(
    values, st.integers(0, 3), st.text(min_size=1, max_size=12), st.randoms(use_true_random=False)
)
def test_anything_that_can_be_read_is_shown(
    first: np.ndarray, n_labels: int, name: str, random: object
) -> None:
    n = len(first)
    second = np.full((n, 2), np.nan)
    second[::2] = 1.0
    truth = [[random.choice([0.0, 1.0, np.nan]) for _ in range(n_labels)] for _ in range(n)]  # type: ignore[attr-defined]
    result = viewgap.inspect({name: first, name + "<b>": second}, truth if n_labels else None)
    check(result.to_html(name))
    check(result._repr_html_())
    json.dumps(result.to_dict(), allow_nan=False)
    assert str(result)
