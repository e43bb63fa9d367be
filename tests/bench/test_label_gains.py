"""Gains label by label: against naive loops, on the same test rows only."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from viewgap.bench.analyse.label_gains import gain_text, label_gains, required_gains
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import gains_table
from viewgap.bench.show.tables import to_csv, to_markdown, to_text
from viewgap.errors import InputError

Make = Callable[..., Record]


def with_labels(positives: Sequence[int], ap: Sequence[float | None]) -> dict[str, Any]:
    figures = dict.fromkeys(("macro AUC", "macro F1", "micro F1", "calibration error"), 0.5)
    return {**figures, "labels": {"positives": list(positives), "AP": list(ap)}}


def test_gains_are_the_naive_ones(make_record: Make) -> None:
    rng = np.random.default_rng(0)
    folds = {}
    records = []
    for fold in range(3):
        positives = rng.integers(0, 20, 8).tolist()
        for method in ("scsd", "mtd"):
            ap = [round(float(rng.random()), 4) if count else None for count in positives]
            folds[method, fold] = ap
            records.append(
                make_record(method=method, fold=fold, details=with_labels(positives, ap))
            )
    records.append(make_record(method="mtd", fold=3, details=with_labels([1], [0.5])))
    (own,) = label_gains(records)
    assert (own.row.title, own.reference, own.common_folds) == ("mtd", "scsd", 3)
    for label in range(8):
        pairs = [(folds["mtd", f][label], folds["scsd", f][label]) for f in range(3)]
        gaps = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
        assert own.folds[label] == len(gaps)
        if gaps:
            assert own.gains[label] == pytest.approx(sum(gaps) / len(gaps))
        else:
            assert math.isnan(own.gains[label])
    better, worse, total = own.counts()
    known = own.gains[own.folds > 0]
    assert (better, worse, total) == ((known > 0).sum(), (known < 0).sum(), len(known))


def three_labels(make: Make) -> list[Record]:
    counts = (2, 30, 0)
    return [
        make(method="scsd", details=with_labels(counts, [0.2, 0.5, None])),
        make(method="drls", details=with_labels(counts, [0.3, 0.4, None])),
        make(method="sip", details=with_labels(counts, [0.2, 0.6, None])),
        make(method="rank"),
    ]


def test_rare_and_frequent_labels_are_told_apart(make_record: Make) -> None:
    drls, sip = label_gains(three_labels(make_record))
    assert drls.mean(rare=True) == (pytest.approx(0.1), 1)
    assert drls.mean(rare=False) == (pytest.approx(-0.1), 1)
    assert drls.mean() == (pytest.approx(0.0), 2)
    assert sip.counts() == (1, 0, 2)
    assert drls.words() == "better on 1 of 2; rare +0.100; frequent −0.100"
    text = to_markdown(gains_table([drls, sip]))
    assert "| drls† | 1 of 2 | 1 | +0.000 | +0.100 (1) | −0.100 (1) | 1 |" in text
    assert "minus that of scsd" in text


def test_csv_has_one_line_per_label(make_record: Make) -> None:
    gains = label_gains(three_labels(make_record), "sip")
    lines = list(csv.DictReader(to_csv(gains_table(gains)).splitlines()))
    assert [(line["method"], line["label"]) for line in lines[:3]] == [
        ("scsd", "0"),
        ("scsd", "1"),
        ("scsd", "2"),
    ]
    assert (lines[1]["gain"], lines[1]["AP"], lines[1]["reference_AP"]) == ("-0.1", "0.5", "0.6")
    assert (lines[2]["gain"], lines[2]["folds"], lines[2]["positives"]) == ("", "0", "0")
    assert {line["reference"] for line in lines} == {"sip"}
    assert {line["direction"] for line in lines} == {"higher"}


def test_only_the_same_test_rows_are_compared(make_record: Make) -> None:
    records = [
        make_record(method="scsd", fold=0, details=with_labels([2, 3], [0.2, 0.3])),
        make_record(method="scsd", fold=1, details=with_labels([2, 3], [0.2, 0.3])),
        make_record(method="mtd", fold=0, details=with_labels([2, 4], [0.9, 0.9])),
        make_record(method="mtd", fold=1, details=with_labels([2, 0], [0.4, None])),
        make_record(method="sip", fold=0, details=with_labels([2], [0.9])),
    ]
    (own,) = label_gains(records)
    assert (own.row.title, own.common_folds) == ("mtd", 1)
    assert own.gains[0] == pytest.approx(0.2)
    assert own.folds.tolist() == [1, 0]


def test_what_cannot_be_compared_is_an_error(make_record: Make) -> None:
    with pytest.raises(InputError, match="shares test rows"):
        required_gains([make_record(method="scsd"), make_record(method="mtd")])
    with pytest.raises(InputError, match="no record of the reference 'absent'"):
        label_gains([make_record()], "absent")
    with pytest.raises(InputError, match="variants"):
        label_gains([make_record(method="scsd"), make_record(variant="clean")])


def test_a_reference_is_text_and_not_markup(make_record: Make) -> None:
    records = three_labels(make_record)
    nasty = "[red]<script>\x1b"
    records[0] = make_record(method="scsd", profile=nasty, labels=records[0].labels)
    sheet = gains_table(label_gains(records, f"scsd ({nasty})"))
    assert "that of scsd ([red]<script> )" in to_text(sheet)
    assert "<script" not in to_markdown(sheet)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0104, "+0.010"), (-0.0001, "+0.000"), (-0.25, "−0.250")],
)
def test_gains_have_signs(value: float | None, text: str) -> None:
    assert gain_text(value) == text
