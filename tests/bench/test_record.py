from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.bench.results.record import (
    Record,
    label_column,
    read_records,
)
from viewgap.errors import DataFileError, RunError
from viewgap.metrics import SIX

RESULTS = Path(__file__).parents[2] / "results"


def test_the_keys_everyone_relies_on(make_record: Callable[..., Record]) -> None:
    plain = make_record().to_dict()
    assert {"dataset", "method", "profile", "fold", "seed", "metrics", "seconds"} <= set(plain)
    assert tuple(plain["metrics"]) == SIX


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "unknown keys \\['extra'\\]"),
        ({"seed": None}, "seed has the wrong type"),
        ({"fold": "0"}, "fold has the wrong type"),
        ({"fold": True}, "fold has the wrong type"),
        ({"metrics": {}}, "at least one metric"),
        ({"labels": {"AP": "0.5"}}, "AP of the labels"),
        ({"labels": {"AP": ["0.5"]}}, "AP of the labels"),
        ({"labels": {"AP": [0.5], "positives": [1, 2]}}, "differ in length"),
        ({"details": []}, "must be objects"),
        ({"details": {"macro F1": "0.5"}}, "must be a number"),
        ({"metrics": {**dict.fromkeys(SIX, 0.5), "AP": None}}, "must be a number"),
        ({"variant": "other"}, "variant"),
    ],
)
def test_reading_is_strict(
    change: dict[str, Any], message: str, make_record: Callable[..., Record]
) -> None:
    with pytest.raises(DataFileError, match=message) as caught:
        Record.from_dict({**make_record().to_dict(), **change}, "here")
    assert str(caught.value).startswith("here")


def test_a_missing_key_is_named(make_record: Callable[..., Record]) -> None:
    plain = make_record().to_dict()
    del plain["profile"]
    with pytest.raises(DataFileError, match="missing keys \\['profile'\\]"):
        Record.from_dict(plain)


def test_an_undefined_metric_is_no_result(make_record: Callable[..., Record]) -> None:
    with pytest.raises(RunError, match="AP of label_frequency on tiny fold 0"):
        make_record(metrics={**dict.fromkeys(SIX, 0.5), "AP": math.nan})


def test_older_records_are_read(make_record: Callable[..., Record]) -> None:
    """They called the task "cell" and kept all but six metrics under "details"."""
    plain = make_record().to_dict()
    plain["cell"] = plain.pop("task")
    del plain["labels"]
    assert Record.from_dict(plain) == make_record()
    labels = {"positives": [3, 0], "AP": [0.5, None]}
    plain["details"] = {"macro F1": 0.25, "macro AUC": None, "labels": labels}
    record = Record.from_dict(plain)
    assert record.metrics == {**make_record().metrics, "macro F1": 0.25}
    assert record.labels == labels
    column = label_column(record, "AP")
    assert column is not None
    np.testing.assert_array_equal(column, [0.5, np.nan])
    assert label_column(record, "calibration error") is None
    assert Record.from_dict(record.to_dict()) == record


@pytest.mark.parametrize("journal", sorted(RESULTS.rglob("records.jsonl")), ids=str)
def test_every_record_of_the_repository_is_read(journal: Path) -> None:
    lines = journal.read_text(encoding="utf-8").splitlines()
    records = read_records(journal.parent)
    assert len(records) == len(lines)
    by_task = {record.task: record for record in records}
    # Older lines call the task "cell".
    for entry in map(json.loads, lines):
        record = by_task[entry.get("task", entry.get("cell"))]
        for name, value in {**entry["metrics"], **entry.get("details", {})}.items():
            if name != "labels" and value is not None:
                assert record.metrics[name] == value
