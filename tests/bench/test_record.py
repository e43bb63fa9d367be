from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.results.record import Record, load_records, save_records
from viewgap.bench.run.provenance import provenance
from viewgap.errors import DataFileError, RunError
from viewgap.metrics import SIX


def test_the_keys_everyone_relies_on(make_record: Callable[..., Record]) -> None:
    plain = make_record().to_dict()
    assert {"dataset", "method", "profile", "fold", "seed", "metrics", "seconds"} <= set(plain)
    assert tuple(plain["metrics"]) == SIX


def test_round_trip_through_a_file(tmp_path: Path, make_record: Callable[..., Record]) -> None:
    records = [make_record(0.25, epochs=7), make_record(1 / 3, provenance=provenance("cpu", 2))]
    save_records(records, tmp_path / "results.json")
    assert load_records(tmp_path / "results.json") == records
    assert isinstance(json.loads((tmp_path / "results.json").read_text()), list)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "unknown keys \\['extra'\\]"),
        ({"seed": None}, "seed has the wrong type"),
        ({"fold": "0"}, "fold has the wrong type"),
        ({"fold": True}, "fold has the wrong type"),
        ({"metrics": {"AP": 0.5}}, "needs the metrics"),
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


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"a": 1, "a": 2}]', "[NaN]"])
def test_a_damaged_file_is_a_data_file_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(DataFileError, match=r"results\.json"):
        load_records(path)


def test_an_absent_file_is_a_data_file_error(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="No such file"):
        load_records(tmp_path / "nothing.json")


def test_provenance_names_versions_and_machine() -> None:
    found = provenance("cpu", 2)
    assert {"python", "viewgap", "torch", "numpy"} <= set(found["versions"])
    assert found["device"] == "cpu"
    assert found["cpu"]
