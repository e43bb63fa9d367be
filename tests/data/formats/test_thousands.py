"""Points that may separate thousands are asked about; decimals of any usual form are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from viewgap.data.formats.one_table import load_view
from viewgap.data.formats.options import ReadOptions
from viewgap.data.formats.thousands import suspected_columns
from viewgap.errors import ViewError

THOUSANDS = ["1.234", "860", "-12.100", "2.050", "0", ""]


def write(folder: Path, column: list[str]) -> Path:
    lines = [f"s{i};0.5;{text}" for i, text in enumerate(column)]
    (folder / "a.csv").write_text("\n".join(["id;x;dose", *lines]) + "\n")
    return folder / "a.csv"


def test_separated_thousands_are_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path, THOUSANDS)
    message = r"view 'a': column 'dose' holds '1\.234' and '860'.*without it; .*\(860\.000\)"
    with pytest.raises(ViewError, match=message):
        load_view(path)
    decimals = [text and f"{float(text):.3f}" for text in THOUSANDS]
    assert load_view(write(tmp_path, decimals))["dose"].tolist()[:2] == [1.234, 860.0]
    plain = [text.replace(".", "") for text in THOUSANDS]
    assert load_view(write(tmp_path, plain))["dose"].tolist()[:2] == [1234.0, 860.0]


@pytest.mark.parametrize(
    "column",
    [
        ["1.234", "8.6", "12.1", "2.05", "7"],  # as R and spreadsheets write decimals
        ["1.234", "0.860", "12.100", "2.050", "7"],
        ["1.234", "8.600", "12.100", "2.050", "0"],
        ["1.234", "2.345", "8"],
        ["1.234", "1234", "12.100", "2.050", "7"],
        ["1.234", "8.600", "12.100", "2.050", "1e2"],
        ["12", "7", "860"],
    ],
)
def test_other_columns_are_read(tmp_path: Path, column: list[str]) -> None:
    found = load_view(write(tmp_path, column))["dose"]
    assert found.tolist() == [float(text) for text in column]


def test_a_decimal_comma_leaves_no_question(tmp_path: Path) -> None:
    path = write(tmp_path, ["1,234", "860", "12,100", "2,050"])
    path.write_text(path.read_text().replace("0.5", "0,5"))
    assert load_view(path, ReadOptions(decimal=","))["dose"].tolist()[1] == 860.0


def test_suspicion_without_text() -> None:
    values = np.array([[1.234, 1.234, 1.5, 1.2345], [860, np.nan, 0.5, 7], [0, 2, 1, 2]])
    assert suspected_columns(values).tolist() == [0, 1]
    assert suspected_columns(np.empty((0, 3))).tolist() == []
