"""The rivals of `impute`: a ridge and neighbours as scikit-learn has them, judged by truth."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from benchmarks.imputation import Rows, Task, as_markdown, judge, neighbours, ridge
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from benchmarks import imputation
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet


@pytest.fixture(params=["narrow", "wide"])
def task(request: pytest.FixtureRequest) -> Task:
    """View b of ten new rows, from a; all training rows have both."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(90, 2))
    dims = {"a": 3 if request.param == "narrow" else 100, "b": 4}
    values = {name: causes @ rng.normal(size=(2, d)) for name, d in dims.items()}
    values["a"] += 0.1 * rng.normal(size=values["a"].shape)
    train = ViewSet({name: block[:80] for name, block in values.items()})
    new = ViewSet({name: block[80:] for name, block in values.items()})
    new = new.with_observed(np.tile([True, False], (10, 1)))
    scaler = Standardiser.fit(train)
    rows = Rows(train, scaler)
    return Task(rows, rows.values[1], Rows(new, scaler), 1)


def test_ridge(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imputation, "PENALTIES", [0.5])
    old, new = task.sources[:80], task.sources[80:]
    expected = Ridge(0.5, fit_intercept=False).fit(old, task.target).predict(new)
    np.testing.assert_allclose(ridge(task), expected, atol=1e-6)


def test_neighbours(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imputation, "NEIGHBOURS", [7])
    old, new = task.sources[:80], task.sources[80:]
    expected = KNeighborsRegressor(7).fit(old, task.target).predict(new)
    np.testing.assert_allclose(neighbours(task), expected, atol=1e-6)


def test_a_fold_is_judged_by_view_and_method() -> None:
    options = argparse.Namespace(dataset="synthetic", rows="test", view_rate=0.3, without=[])
    line = judge(options, {"max_epochs": 1, "device": "cpu"}, 0)
    for errors in line["errors"].values():
        assert errors["mean"] == 1.0
        assert {*imputation.METHODS, "estimate"} == set(errors)
        assert errors["impute"] < 1.0
    table = as_markdown([line]).splitlines()
    assert table[0].startswith("| view | mean | neighbours | ridge |")
    assert table[-1].startswith("| mean of the views | 1.000 |")


def test_the_page_shows_the_kept_lines() -> None:
    root = Path(__file__).parents[2]
    shown = (root / "docs" / "imputation.md").read_text(encoding="utf-8")
    assert imputation.tables(root / "results" / "quality" / "imputation.jsonl") in shown
