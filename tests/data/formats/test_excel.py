"""Excel workbooks: cells as they are, formulas by saved values, refusals that name the cell."""

from __future__ import annotations

import datetime
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.data.formats import excel, read_data, read_views
from viewgap.data.formats.base import LIMIT_VARIABLE
from viewgap.errors import DataFileError, LabelError, ViewError, ViewgapError, ViewgapWarning

GENES = [["id", "x", "y"], ["P1", 1, None], ["P2", 2.5, "NA"], [3, True, 4]]
LABELS = [["id", "IGHV", "age"], ["P2", "yes", 50], ["P1", None, 60], ["3", "no", 70]]

CLASSES = [["id", "c"], ["P1", "type A"], ["P2", "type B"], ["3", "type B"]]


def test_a_clear_message_without_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(DataFileError, match=r"pip install viewgap\[excel\].*CSV UTF-8"):
        read_data(tmp_path / "a.xlsx")


def write(path: Path, **sheets: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", genes=GENES, labels=LABELS, empty=[])
    with pytest.warns(ViewgapWarning, match="read 'yes' as 1"):
        raw = read_data(path, label_columns="IGHV")
    assert raw.views.sample_ids.tolist() == ["P2", "P1", "3"]  # as the labels
    np.testing.assert_array_equal(raw.views.rows("genes"), [[2.5, np.nan], [1, np.nan], [1, 4]])
    np.testing.assert_array_equal(raw.labels, [[1], [np.nan], [0]])
    assert read_views(tmp_path).names == ("genes",)


@pytest.mark.parametrize(
    ("sheets", "error", "message"),
    [
        ({"labels": LABELS}, DataFileError, "expected one sheet per view"),
        ({}, DataFileError, "expected one sheet per view|damaged"),
        ({"g": [["id", "x"], ["a", "low"]]}, ViewError, "column 'x', sample 'a'.*'low'; encode"),
        ({"g": [["id", "x"], ["a", "1,5"]]}, ViewError, "a number stored as text"),
        ({"g": [["id", "x"], ["a", datetime.date(2020, 1, 1)]]}, ViewError, "a date or a time"),
        ({"g": [["id", "x"], ["a", 1], ["a", 2]]}, DataFileError, "'id' must hold.*'a' 2 times"),
        ({"g": [["id", "x"], [None, 1]]}, DataFileError, "a row without an id"),
        ({"g": [["id", "x", "x"], ["a", 1, 2]]}, DataFileError, "columns are named 'x'"),
        ({"g": [["id", None, "x"], ["a", 1, 2]]}, DataFileError, "column 2 has no name"),
        ({"g": [["id", "x"], ["a", 1, "note"]]}, DataFileError, "row 2 has more cells"),
        ({"g": [["id", "x"]]}, DataFileError, "one row per sample"),
        ({"g": [["id", "x"], ["a", "=1+1"]]}, DataFileError, "row 2, column 2: a formula"),
        ({"g": GENES, "h": [["id", "z"], ["p1", 1]]}, ViewError, "same but for their form"),
        ({"g": GENES, "h": [["gene", "P1", "P2"], ["z", 1, 2]]}, ViewError, "looks transposed"),
        ({"g": GENES, "labels": CLASSES}, LabelError, "found 'type A'"),
    ],
)
def test_workbooks_that_are_refused(
    tmp_path: Path, sheets: dict[str, Any], error: type[Exception], message: str
) -> None:
    if not sheets:
        sheets = {"empty": []}
    path = write(tmp_path / "a.xlsx", **sheets)
    with pytest.raises(error, match=message) as caught:
        read_data(path)
    assert "a.xlsx" in str(caught.value)


def test_archives_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.xlsx", genes=GENES)
    content = path.read_bytes()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/more.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    with pytest.raises(DataFileError, match="DOCTYPE"):
        read_data(path)
    for share in range(6):
        path.write_bytes(content[: len(content) * share // 6])
        with pytest.raises(ViewgapError, match="damaged"):
            read_data(path)
    path.write_bytes(content)
    monkeypatch.setenv(LIMIT_VARIABLE, "1000")
    with pytest.raises(DataFileError, match=LIMIT_VARIABLE):
        read_data(path)


def test_a_row_far_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a row is what the file says: nobody waits for the rows before it."""
    monkeypatch.setattr(excel, "_MOST_ROWS", 1000)
    path = write(tmp_path / "a.xlsx", genes=GENES)
    changed = tmp_path / "b.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("sheet1.xml"):
                assert b'r="4"' in content
                content = content.replace(b'r="4"', b'r="99999999999"')
                content = content.replace(b'r="A4"', b"").replace(b'r="B4"', b"")
                content = content.replace(b'r="C4"', b"")
            new.writestr(name, content)
    with pytest.raises(DataFileError, match="more rows than Excel can hold"):
        read_data(changed)
