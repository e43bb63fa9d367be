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
from viewgap.errors import (
    DataFileError,
    LabelError,
    SettingError,
    ViewError,
    ViewgapError,
    ViewgapWarning,
)

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
        ({"g": [["id", "x"], ["a", "low"]]}, ViewError, "'x', sample 'a'.*'low'; if this sheet is"),
        ({"g": [["id", "x"], ["a", "low"], ["b", 1]]}, ViewError, "sample 'a'.*'low'; encode"),
        ({"g": [["id", "x", "y"], ["u", "mg", "%"], ["b", 1, 2]]}, ViewError, "units or a second"),
        ({"g": [["id", "x"], [None, "mg"], ["b", 1]]}, DataFileError, "none; if this line holds"),
        ({"g": [["id", "x"], ["a", "1,5"]]}, ViewError, "a number stored as text"),
        ({"g": [["id", "x"], ["a", datetime.date(2020, 1, 1)]]}, ViewError, "a date or a time"),
        ({"g": [["id", "x"], ["a", 1], ["a", 2]]}, DataFileError, "'id' must hold.*'a' 2 times"),
        ({"g": [["id", "x"], [None, 1]]}, DataFileError, "row 1 after the header has none"),
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


@pytest.mark.filterwarnings("ignore:labels.*read 'yes' as 1")
def test_hidden_sheets_are_named_and_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", genes=GENES, draft=[["text"]], old=GENES, labels=LABELS)
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    book["draft"].sheet_state = "hidden"
    book["old"].sheet_state = "veryHidden"
    book["old"]["B2"] = "=1+1"  # without a saved value: refused where the sheet is read
    book.save(path)
    with pytest.warns(ViewgapWarning, match="hidden sheets are not read: draft, old"):
        assert read_data(path, label_columns="IGHV").views.names == ("genes",)


ALL = [["id", "g:x", "g:y", "d:x", "IGHV"], ["P1", 1, 2, 3, "yes"], ["P2", None, None, 4, None]]
PREFIXED = [[*ALL[0][:4], "labels:IGHV"], *ALL[1:]]


@pytest.mark.parametrize(
    ("sheets", "options"),
    [
        ({"Sheet1": PREFIXED}, {}),
        ({"Sheet1": ALL}, {"label_columns": "IGHV"}),
        ({"Sheet1": ALL}, {"views": {"g": "g:*", "d": "d:*"}, "label_columns": "IGHV"}),
        (
            {"s": [row[:4] for row in ALL], "labels": [["id", "IGHV", "b"], ["P1", 1, 5]]},
            {"views": {"g": "g:*", "d": "d:*"}, "label_columns": "IGHV"},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:(labels.*read|1 samples have no row)")
def test_one_sheet_with_all_columns(
    tmp_path: Path, sheets: dict[str, Any], options: dict[str, Any]
) -> None:
    raw = read_data(write(tmp_path / "a.xlsx", **sheets), **options)
    assert raw.views.names == ("g", "d")
    assert raw.views.dims == (2, 1)
    assert raw.views.observed.tolist() == [[True, True], [False, True]]
    assert raw.label_names == ("IGHV",)
    np.testing.assert_array_equal(raw.labels, [[1], [np.nan]])


@pytest.mark.parametrize(
    ("sheets", "options", "error", "message"),
    [
        ({"g": GENES, "h": GENES}, {"views": {"a": "x"}}, SettingError, "every sheet is a view"),
        ({"g": GENES}, {"label_columns": "y"}, DataFileError, r"one table.*which view\?"),
        ({"g": GENES, "h": GENES}, {"label_columns": "y"}, DataFileError, "named labels; name the"),
        (
            {"s": [["id", "a:x", "a:y", "b:x", "b:y"], ["P1", 1, 2, 3, 4]]},
            {},
            DataFileError,
            r"sheet 's': is this one view.*'a': 'a:\*'.*or views=\{'s': '\*'\}",
        ),
    ],
)
def test_sheets_that_may_mean_several_things(
    tmp_path: Path,
    sheets: dict[str, Any],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    path = write(tmp_path / "a.xlsx", **sheets)
    with pytest.raises(error, match=message):
        read_data(path, **options)


def test_sheets_and_columns_that_a_model_does_not_know_are_not_read(tmp_path: Path) -> None:
    genes = [[*row, "good"] for row in GENES]
    genes[0][-1] = "remark"
    path = write(tmp_path / "a.xlsx", genes=genes, notes=[["read me"], ["text"]])
    known = {"genes": ("y", "x"), "drugs": ("z",)}
    with pytest.warns(ViewgapWarning) as caught:
        views = read_views(path, known=known)
    told = " ".join(str(one.message) for one in caught)
    assert "sheet 'notes' is not read: the model has no view of this name" in told
    assert "view 'genes': 1 columns that the model was not fitted on are left out: remark" in told
    assert views.feature_names == {"genes": ("y", "x")}


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


IDS = [["id", "x", "y"], ["P1", 1, 4], ["P2", 2, 5], ["P3", 3, 6]]


def hide_row(sheet: Any) -> None:
    sheet.auto_filter.ref = "A1:C4"
    sheet.auto_filter.add_filter_column(0, ["P1", "P3"])
    sheet.row_dimensions[3].hidden = True


def hide_column(sheet: Any) -> None:
    sheet.column_dimensions["C"].hidden = True


def merge(sheet: Any) -> None:
    sheet.merge_cells("B2:B3")


def changed(path: Path, change: Any) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    change(book["genes"])
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (hide_row, "sheet 'genes': hidden, by hand or by a filter: row 3; .*show them"),
        (hide_column, "sheet 'genes': hidden.*: column 3; "),
        (merge, "sheet 'genes': the cells B2:B3 are merged.*unmerge them"),
    ],
)
def test_what_is_hidden_or_merged_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = write(tmp_path / "a.xlsx", genes=IDS, other=IDS)
    assert read_data(path).views.shape == (3, 4)
    with pytest.raises(DataFileError, match=message):
        read_data(changed(path, change))
    with pytest.warns(ViewgapWarning, match="sheet 'genes' is not read"):
        assert read_views(path, known={"other": ("x", "y")}).names == ("other",)


def test_hidden_rows_and_columns_without_values_do_not_matter(tmp_path: Path) -> None:
    def hide(sheet: Any) -> None:
        sheet.row_dimensions[9].hidden = True
        sheet.column_dimensions["E"].hidden = True

    path = changed(write(tmp_path / "a.xlsx", genes=IDS, other=IDS), hide)
    assert read_data(path).views.shape == (3, 4)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((1234567890123456789, 2, 3), "of which Excel keeps 15 digits"),
        ((1.5, 2.5, 3.5), "found decimal numbers"),
        (("P1", datetime.date(2020, 9, 2), "P3"), "the date 2020-09-02.*made of a text"),
        (("P1", "NA", "P3"), "row 2 after the header has 'NA', which stands for something absent"),
        (("1.23E+17", "P2", "P3"), "a long number of which .* the first digits only"),
    ],
)
def test_ids_that_name_no_sample(tmp_path: Path, ids: Any, message: str) -> None:
    rows = [["id", "x"], *([sample, 1.0] for sample in ids)]
    with pytest.raises(DataFileError, match=message):
        read_data(write(tmp_path / "a.xlsx", genes=rows))


def test_sheets_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="several sheets are named 'genes'"):
        read_data(write(tmp_path / "a.xlsx", **{"genes": IDS, "genes ": IDS}))
