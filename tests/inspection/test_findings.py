"""Every finding by data that was spoilt for it, and none where nothing is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.errors import ViewError, ViewgapWarning
from viewgap.inspection import Finding
from viewgap.inspection.reading import collected_notes

Data = tuple[dict[str, pd.DataFrame], pd.DataFrame]
Spoil = Callable[[dict[str, pd.DataFrame], pd.DataFrame], Any]


def found(views: Any, labels: Any = None) -> dict[str, Finding]:
    return {finding.kind: finding for finding in viewgap.inspect(views, labels).findings}


def test_clean_data_has_no_finding(clean: Data) -> None:
    assert viewgap.inspect(*clean).findings == []


def constant(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"]["g1"] = 3.0


def empty_column(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"]["g1"] = np.nan


def duplicated_column(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"]["g4"] = views["genes"]["g1"]


def mostly_missing(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"].loc["s00":"s39", "g1"] = np.nan


def huge(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"]["g1"] *= 1e20


def remote(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"].loc["s07", "g1"] = 5000.0


def code(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"].loc[["s07", "s11", "s30"], "g1"] = -999.0


def filled(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"].loc["s07":"s12"] = 0.0


def duplicated_sample(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    for view in views.values():
        view.loc["s07"] = view.loc["s40"].to_numpy()
    labels.loc["s07"] = [1, 0, 1]
    labels.loc["s40"] = [0, 0, 1]


def without_view(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    for view in views.values():
        view.loc["s07"] = np.nan


def alike_ids(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"] = views["genes"].rename(index={"s07": "S-7"})
    labels.loc["S-7"] = 1.0


def dates(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    days = pd.date_range("2024-01-20", periods=len(views["genes"]))
    views["genes"]["g1"] = days.strftime("%Y%m%d").astype(float)


def numbered(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"]["g1"] = np.random.default_rng(0).permutation(len(views["genes"])) + 1.0


def summary_id(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    for table in (*views.values(), labels):
        table.index = table.index.where(table.index != "s07", "Grand total")


def never_together(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["genes"].iloc[::2] = np.nan
    views["drugs"].iloc[1::2] = np.nan


def rare_view(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["drugs"].loc["s03":] = np.nan


def copied_column(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["drugs"]["d2"] = 100 - 3 * views["genes"]["g1"]


def copied_view(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["drugs"] = views["genes"].iloc[:50] * 1000


def copied_label(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    views["drugs"]["d2"] = 7 + labels["label1"]
    labels.loc["s00":"s09", "label1"] = np.nan


def label_unknown(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label1"] = np.nan


def label_absent(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label1"] = 0.0


def label_present(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label1"] = labels["label1"].replace(0.0, np.nan)


def rare_label(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label1"] = 0.0
    labels.loc["s03":"s05", "label1"] = 1.0


def same_label(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label2"] = labels["label1"]


def no_positive(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels.loc["s03"] = 0.0


def no_label(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels.loc["s03"] = np.nan


def few_labelled(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels.iloc[10:] = np.nan


def sorted_rows(views: dict[str, pd.DataFrame], labels: pd.DataFrame) -> None:
    labels["label1"] = (np.arange(len(labels)) < 30).astype(float)


@pytest.mark.parametrize(
    ("spoil", "kind", "severity", "where"),
    [
        (constant, "constant_columns", "note", {"view": "genes", "columns": ("g1",)}),
        (empty_column, "empty_columns", "warning", {"view": "genes", "columns": ("g1",)}),
        (duplicated_column, "duplicated_columns", "note", {"columns": ("g4",)}),
        (mostly_missing, "mostly_missing_columns", "note", {"columns": ("g1",)}),
        (mostly_missing, "missing_values", "note", {"view": "genes"}),
        (huge, "huge_values", "warning", {"columns": ("g1",)}),
        (remote, "outliers", "warning", {"columns": ("g1",), "ids": ("s07",)}),
        (code, "code_for_unknown", "warning", {"view": "genes", "columns": ("g1",)}),
        (filled, "filled_rows", "warning", {"ids": tuple(f"s{i:02d}" for i in range(7, 13))}),
        (duplicated_sample, "duplicated_samples", "warning", {"ids": ("s07", "s40")}),
        (without_view, "samples_without_view", "error", {"ids": ("s07",)}),
        (alike_ids, "ids_alike", "warning", {"ids": ("S-7", "s07")}),
        (dates, "dates_as_numbers", "warning", {"view": "genes", "columns": ("g1",)}),
        (numbered, "numbered_samples", "note", {"view": "genes", "columns": ("g1",)}),
        (summary_id, "summary_rows", "warning", {"ids": ("Grand total",)}),
        (never_together, "views_never_together", "note", {}),
        (rare_view, "view_rarely_observed", "warning", {"view": "drugs"}),
        (copied_column, "copied_columns", "warning", {"view": "drugs", "columns": ("d2",)}),
        (copied_view, "copied_view", "warning", {"view": "drugs"}),
        (copied_label, "column_copies_label", "warning", {"labels": ("label1",)}),
        (label_unknown, "label_never_known", "warning", {"labels": ("label1",)}),
        (label_absent, "label_without_positives", "warning", {"labels": ("label1",)}),
        (label_present, "label_without_negatives", "warning", {"labels": ("label1",)}),
        (rare_label, "label_rare", "note", {"labels": ("label1",)}),
        (same_label, "same_labels", "warning", {"labels": ("label2",)}),
        (no_positive, "samples_without_positive", "note", {}),
        (no_label, "samples_without_label", "note", {}),
        (few_labelled, "few_labelled_samples", "warning", {}),
        (sorted_rows, "sorted_by_label", "note", {"labels": ("label1",)}),
    ],
)
def test_a_fault_is_found_and_named(
    clean: Data, spoil: Spoil, kind: str, severity: str, where: dict[str, Any]
) -> None:
    views, labels = clean
    spoil(views, labels)
    finding = found(views, labels)[kind]
    assert finding.severity == severity
    assert {name: getattr(finding, name) for name in where} == where
    assert finding.text
    assert finding.remedy


def test_ranks_and_large_numbers_are_no_disguise(clean: Data) -> None:
    views, labels = clean
    views["genes"] = views["genes"].rank()
    assert "numbered_samples" not in found(views, labels)
    views["genes"]["g1"] = np.random.default_rng(0).integers(20000000, 20991231, len(labels))
    assert "dates_as_numbers" not in found(views, labels)


def test_contradicting_labels_of_duplicates_are_told(clean: Data) -> None:
    duplicated_sample(*clean)
    assert "contradict" in found(*clean)["duplicated_samples"].text


def test_a_view_that_is_never_there_is_an_error(clean: Data) -> None:
    views, labels = clean
    result = viewgap.inspect({**views, "scan": None}, labels)
    assert [(own.kind, own.severity, own.view) for own in result.findings] == [
        ("view_never_observed", "error", "scan")
    ]
    assert result.count("error") == 1


def test_values_that_fit_refuses_are_an_error_and_the_rest_is_shown(clean: Data) -> None:
    views, labels = clean
    views["genes"].loc["s07", "g1"] = np.inf
    result = viewgap.inspect(views, labels)
    assert result.findings[0].kind == "refused_values"
    assert result.findings[0].severity == "error"
    assert "s07" in result.findings[0].text
    assert int(result.views["samples"].min()) == 59
    with pytest.raises(ViewError, match="expected several views"):
        viewgap.inspect(np.zeros((3, 3)))


def test_warnings_of_reading_become_notes(clean: Data) -> None:
    views, labels = clean
    words = labels.replace({1.0: "yes", 0.0: "no"})
    note = found(views, words)["reading"]
    assert note.severity == "note"
    assert "'yes' as 1" in note.text


def test_without_labels_and_ids(clean: Data) -> None:
    views, _ = clean
    arrays = {name: frame.to_numpy() for name, frame in views.items()}
    assert set(found(arrays)) == {"no_labels", "no_ids"}


def test_one_label_as_vector(clean: Data) -> None:
    views, labels = clean
    result = viewgap.inspect(views, labels["label1"].replace({1.0: "ill", 0.0: "well"}))
    assert result.labels["positives"].tolist() == [int((labels["label1"] == 0).sum())]


def test_fit_refuses_what_is_called_an_error(clean: Data) -> None:
    without_view(*clean)
    assert viewgap.inspect(*clean).count("error") == 1
    with pytest.raises(viewgap.errors.EmptyRowsError):
        viewgap.LabelFrequency().fit(*clean)


def test_what_is_told_twice_while_reading_is_one_note() -> None:
    with collected_notes() as notes:
        for _ in range(2):
            warnings.warn("two sheets are hidden", ViewgapWarning, stacklevel=1)
    assert [note.text for note in notes] == ["two sheets are hidden"]
