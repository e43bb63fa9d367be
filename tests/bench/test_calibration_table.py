"""The table of calibration and decisions: each figure in its own direction."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import calibration_table
from viewgap.bench.show.tables import BEST, SECOND, marks, to_csv, to_latex, to_markdown

Make = Callable[..., Record]
NAMES = ("calibration error", "beyond chance", "macro AUC", "macro F1", "micro F1")


def details(value: float | None, error: float) -> dict[str, Any]:
    figures = dict.fromkeys(("macro AUC", "macro F1", "micro F1"), value)
    calibration = {"calibration error": error, "beyond chance": error - 0.01}
    return {**figures, **calibration, "labels": {"positives": [], "AP": []}}


def test_the_best_is_the_lowest_error_and_the_highest_score(make_record: Make) -> None:
    records = [
        make_record(method="scsd", details=details(0.9, 0.30)),
        make_record(method="mtd", details=details(0.7, 0.10)),
        make_record(method="drls", details=details(0.8, 0.20)),
        make_record(method="sip", dataset="other", details=details(0.1, 0.9)),
    ]
    table = calibration_table(summarise(records))
    assert table.columns == (*NAMES, "folds")
    assert [line.entries[0].mark for line in table.lines] == ["", BEST, SECOND, BEST]
    assert [line.entries[1].mark for line in table.lines] == ["", BEST, SECOND, BEST]
    assert [line.entries[2].mark for line in table.lines] == [BEST, "", SECOND, BEST]
    assert "lower is better" in table.notes[0]
    text = to_markdown(table)
    assert "| tiny | mtd | **0.1000** | **0.0900** | 0.700 |" in text
    assert "| drls† |" in text
    assert r"\textbf{0.0900} & 0.700" in to_latex(table)


def test_means_over_the_folds_that_have_them(make_record: Make) -> None:
    records = [
        make_record(fold=0, details=details(0.4, 0.1)),
        make_record(fold=1, details=details(0.6, 0.2)),
        make_record(fold=2, details=details(None, 0.6)),
        make_record(fold=3),
    ]
    rows = summarise(records)
    line = to_markdown(calibration_table(rows)).splitlines()[2]
    spread = f"{np.std([0.1, 0.2, 0.6]):.4f}"
    error = f"**{np.mean([0.1, 0.2, 0.6]):.4f} ± {spread}** | **0.2900 ± {spread}**"
    assert f"| {error} | **0.500 ± 0.100** |" in line
    assert line.endswith("| 3 of 4 |")
    (found,) = csv.DictReader(to_csv(calibration_table(rows)).splitlines())
    assert float(found["macro F1_mean"]) == pytest.approx(0.5)
    assert found["calibration error_direction"] == "lower"
    assert found["macro F1_direction"] == "higher"
    assert (found["folds_with_figures"], found["folds"]) == ("3", "4")


def test_older_records_are_holes_without_a_mark(make_record: Make) -> None:
    records = [make_record(method="scsd"), make_record(method="mtd", details=details(0.5, 0.1))]
    lines = to_markdown(calibration_table(summarise(records))).splitlines()
    assert lines[2] == "| tiny | scsd | – | – | – | – | – | 0 of 1 |"
    assert "folds: those whose records have these figures" in lines[-1]
    hole, _ = csv.DictReader(to_csv(calibration_table(summarise(records))).splitlines())
    assert hole["calibration error_mean"] == ""


def test_marks_go_by_what_is_printed() -> None:
    assert marks([0.1001, 0.1004, None, 0.2]) == [SECOND, SECOND, "", BEST]
    assert marks([0.1001, 0.1004, None, 0.2], greater_is_better=False) == [BEST, BEST, "", SECOND]
    assert marks([None]) == [""]


def test_small_errors_are_told_apart(make_record: Make) -> None:
    records = [
        make_record(method="scsd", details=details(0.5, 0.0102)),
        make_record(method="mtd", details=details(0.5, 0.0104)),
    ]
    table = calibration_table(summarise(records))
    assert [line.entries[0].mark for line in table.lines] == [BEST, SECOND]
    assert [line.entries[2].mark for line in table.lines] == [BEST, BEST]
