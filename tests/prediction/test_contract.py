"""`viewgap.check`: what new data has to do with a fitted model, before it is predicted."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.prediction.contract import DataCheck
from viewgap.prediction.shifts import _chance

ROWS = [f"s{i:02d}" for i in range(30)]


def frames(rng_seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(rng_seed)
    index = pd.Index(ROWS, name="id")
    size = pd.DataFrame(rng.normal(size=(30, 3)), index=index, columns=list("abc"))
    colour = pd.DataFrame(rng.normal(size=(30, 2)), index=index, columns=list("rg"))
    return {"size": size, "colour": colour.iloc[5:]}


@pytest.fixture(scope="module")
def model() -> Any:
    X = frames()
    y = pd.DataFrame({"big": (X["size"]["a"] > 0).astype(float), "odd": np.arange(30) % 2})
    return viewgap.LateFusionRidge(random_state=0).fit(X, y)


def kinds(result: DataCheck) -> dict[str, str]:
    return {finding.kind: finding.severity for finding in result.findings}


def test_the_data_of_the_fit_is_fine(model: Any) -> None:
    result = viewgap.check(model, frames(), ["big", "odd"])
    assert result.verdict == "fine"
    assert kinds(result) == {"labels": "note"}
    assert result.to_dict()["samples"] == 30


def test_absent_columns_are_named_in_every_view(model: Any) -> None:
    X = frames()
    X = {"size": X["size"].drop(columns=["b"]), "colour": X["colour"].drop(columns=["g"])}
    result = viewgap.check(model, X)
    assert result.verdict == "refused"
    assert [finding.columns for finding in result.findings] == [("b",), ("g",)]
    with pytest.raises(viewgap.errors.ViewError, match="absent: b"):
        model.predict_proba(X)


def test_what_is_put_right_is_a_note(model: Any) -> None:
    X = frames()
    X["size"] = X["size"].assign(more=1.0)[["c", "more", "a", "b"]]
    X["sound"] = X["size"]
    result = viewgap.check(model, X)
    expected = ("extra_view", "extra_columns", "column_order")
    assert kinds(result) == dict.fromkeys(expected, "note")
    assert result.verdict == "fine"


def test_far_values_are_told_by_view_with_sample_and_column(model: Any) -> None:
    X = frames()
    X["size"].loc["s07", "b"] = 1e6
    X["colour"].loc["s09", "g"] = -1e6
    result = viewgap.check(model, X)
    assert result.verdict == "suspicious"
    found = {finding.view: (finding.columns, finding.ids) for finding in result.findings}
    assert found == {"size": (("b",), ("s07",)), "colour": (("g",), ("s09",))}


def test_columns_with_all_values_on_one_side_of_training(model: Any) -> None:
    X = frames()
    X["size"]["b"] = X["size"]["b"] * 1.8 + 32  # as Celsius in Fahrenheit
    result = viewgap.check(model, X)
    assert kinds(result) == {"shifted_columns": "warning"}
    assert result.findings[0].columns == ("b",)
    assert "where training had -" in result.findings[0].text
    few = {name: view.loc["s05":"s06"] for name, view in X.items()}
    assert viewgap.check(model, few).verdict == "fine"  # two of thirty-two may well be the largest
    X["size"].loc["s07", "b"] = 0.0
    assert viewgap.check(model, X).verdict == "fine"


def test_another_precision_is_no_shift() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack([np.full(30, 0.1), rng.normal(size=30)])
    y = (values[:, 1:] > 0).astype(float)
    fitted = viewgap.LateFusionRidge(random_state=0).fit({"a": values.astype(np.float32)}, y)
    assert kinds(viewgap.check(fitted, {"a": values})) == {"no_ids": "note"}


def test_the_chance_of_a_shift_is_that_of_a_random_order() -> None:
    orders = list(itertools.permutations(range(6)))
    above = [min(order[4:]) > max(order[:4]) or max(order[4:]) < min(order[:4]) for order in orders]
    assert _chance(4, np.array([2]))[0] == pytest.approx(np.mean(above))


def test_gaps_that_training_never_had(model: Any) -> None:
    X = frames()
    only_colour = {"size": X["size"].iloc[:20], "colour": X["colour"]}
    result = viewgap.check(model, only_colour)
    assert kinds(result) == {"unseen_patterns": "warning"}
    assert result.findings[0].ids == tuple(ROWS[20:])
    assert "only colour" in result.findings[0].text
    assert kinds(viewgap.check(model, {"size": X["size"]})) == {"view_absent": "warning"}
    X["size"].loc["s00"] = np.nan
    assert kinds(viewgap.check(model, X))["samples_without_view"] == "warning"


def test_new_patterns_are_no_surprise_where_most_samples_have_their_own() -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((160, 12)) < 0.5
    seen[:, 0] |= ~seen.any(axis=1)
    values = np.where(seen, rng.normal(size=(160, 12)), np.nan)
    X = {f"v{j}": values[:, [j]] for j in range(12)}
    Y = np.tile([[0.0], [1.0]], (80, 1))
    model = viewgap.LabelFrequency().fit({k: v[:100] for k, v in X.items()}, Y[:100])
    new = {k: v[100:] for k, v in X.items()}
    result = viewgap.check(model, new)
    assert kinds(result)["unseen_patterns"] == "note"
    told = {finding.kind: finding.remedy for finding in result.findings}
    assert "had a pattern of their own" in told["unseen_patterns"]
    # The same patterns are a surprise for a model whose training had complete samples only.
    whole = {name: np.nan_to_num(view[:100]) for name, view in X.items()}
    result = viewgap.check(viewgap.LabelFrequency().fit(whole, Y[:100]), new)
    assert kinds(result)["unseen_patterns"] == "warning"


def test_foreign_views_columns_by_position_and_other_labels(model: Any) -> None:
    X = frames()
    assert kinds(viewgap.check(model, {"x": X["size"]})) == {"no_known_view": "error"}
    arrays = {name: frame.to_numpy() for name, frame in X.items()}
    arrays["colour"] = np.vstack([np.full((5, 2), np.nan), arrays["colour"]])
    found = kinds(viewgap.check(model, arrays))
    assert found == {"columns_by_position": "warning", "no_ids": "note"}
    assert kinds(viewgap.check(model, {"size": np.ones((2, 4))}))["column_count"] == "error"
    assert kinds(viewgap.check(model, X, ["big", "even"])) == {"other_labels": "warning"}


def test_a_model_without_the_patterns_of_its_training_data() -> None:
    old = viewgap.load_model(Path(__file__).parents[1] / "models" / "scsd_0.1" / "pooled")
    shapes = zip(old.view_names_, old.view_dims_, strict=True)
    X = {name: np.zeros((3, dim)) for name, dim in shapes}
    assert old.training_summary_ is None
    assert kinds(viewgap.check(old, X))["no_patterns"] == "note"
