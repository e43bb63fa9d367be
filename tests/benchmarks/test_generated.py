"""The comparison on generated tables runs, and what it measures is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import contestants, generated
from viewgap.ensemble import estimator

SMALL = {
    "late_fusion_ridge": {},
    "gradient_boosting": {"n_estimators": 2, "n_jobs": 1},
    "joint_boosting": {"n_estimators": 2, "n_jobs": 1},
}


def small_set(rng: Any) -> Any:
    x = rng.normal(size=(80, 3))
    truth = (np.column_stack([x[:, 0], x[:, 1]]) > 0).astype(float)
    return {"x": x, "w": rng.normal(size=(80, 2))}, truth, 0.3, 0.2


def test_gaps_are_only_in_the_rows_to_fit_on_and_in_views(monkeypatch: Any) -> None:
    monkeypatch.setitem(generated.SETS, "small", small_set)
    (views, X, Y), (new, X_new), truth = generated.split_of("small", 0)
    assert (len(views), len(new)) == (56, 24)
    assert np.isnan(Y).any()
    assert not np.isnan(truth).any()
    for own, columns in ((views, X), (new, X_new)):
        assert not own.observed.all()
        np.testing.assert_array_equal(np.isnan(columns[:, 0]), ~own.observed[:, 0])


@pytest.mark.filterwarnings("ignore")
def test_a_line_has_every_figure(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setitem(generated.SETS, "small", small_set)
    monkeypatch.setattr(estimator, "DEFAULT", SMALL)
    monkeypatch.setattr(contestants, "ProcessPoolExecutor", InThisProcess)
    out = tmp_path / "lines.jsonl"
    generated.main(["small", "--seeds", "0:1", "--out", str(out)])
    line = json.loads(out.read_text())
    assert all(set(line[kind]) == {"AP", "AUC", "log_loss"} for kind in contestants.SHOWN)
    assert line["frequency"]["AUC"] == 0.5
    assert set(line["members"]) == set(SMALL)
    assert all(0 <= own["AUC"] <= 1 for own in line["members"].values())
    assert sum(own["weight"] for own in line["members"].values()) == pytest.approx(1, abs=0.01)
    assert capsys.readouterr().out.count("small") == 3


class InThisProcess:
    """Processes that were started would not know the small set."""

    def __init__(self, jobs: int) -> None:
        assert jobs == 1

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *error: object) -> None: ...

    def submit(self, function: Any, *values: Any) -> Any:
        found = function(*values)
        return type("Done", (), {"result": staticmethod(lambda: found)})
