"""What a model keeps of its training data, and what `viewgap.info` tells of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.methods.estimator import training_summary
from viewgap.methods.estimator.training_summary import TrainingSummary, pattern_counts
from viewgap.metrics import average_precision, macro_auc

OLD = Path(__file__).parents[1] / "models" / "scsd_0.1" / "pooled"


def data() -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(60, 3)), "b": rng.normal(size=(60, 2))}
    y = (X["a"][:, :2] > 0).astype(float)
    X["b"][:20] = np.nan
    X["a"][30, 0] = np.nan
    y[::5, 1] = np.nan
    return X, y


@pytest.fixture(scope="module")
def trees() -> Any:
    return viewgap.ExtraTrees(n_estimators=3, n_jobs=1, random_state=0).fit(*data())


def test_patterns_are_counted_as_a_loop_counts_them() -> None:
    observed = np.random.default_rng(1).random((200, 5)) < 0.6
    counts = Counter("".join("1" if flag else "0" for flag in row) for row in observed)
    found = pattern_counts(observed)
    assert found == counts
    assert list(found.values()) == sorted(counts.values(), reverse=True)
    assert pattern_counts(observed[:0]) == {}


def test_counts_and_scores_of_a_fit(trees: Any) -> None:
    summary, (_, y) = trees.training_summary_, data()
    assert summary.n_samples == 60
    assert summary.n_observed_views == (60, 40)
    assert summary.n_missing_values == (1, 0)
    assert summary.n_observed_labels == (60, 48)
    assert summary.n_positives == tuple(np.nansum(y, axis=0))
    assert summary.patterns == {"11": 40, "10": 20}
    assert summary.scores.average_precision == average_precision(y, trees.out_of_fold_proba_)
    assert summary.scores.macro_auc == macro_auc(y, trees.out_of_fold_proba_)
    assert (summary.scores.n_labels, summary.scores.n_entries) == (2, 108)


def test_it_is_kept_in_the_file_and_read_without_the_method(trees: Any, tmp_path: Path) -> None:
    viewgap.save_model(trees, tmp_path / "m")
    assert viewgap.load_model(tmp_path / "m").training_summary_ == trees.training_summary_
    found = viewgap.info(tmp_path / "m")
    assert found.changed == {"n_estimators": 3, "n_jobs": 1, "random_state": 0}
    assert [view["samples"] for view in found.views] == [60, 40]
    assert [label["threshold"] for label in found.labels] == trees.thresholds_.tolist()
    assert found.scores["out_of_fold"]["n_entries"] == 108
    json.dumps(found.to_dict(), allow_nan=False)


def test_only_the_most_frequent_patterns_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_summary, "MOST_PATTERNS", 1)
    summary = viewgap.LabelFrequency().fit(*data()).training_summary_
    assert summary is not None
    assert summary.patterns == {"11": 40}
    assert summary.n_patterns == 2
    assert not summary.all_patterns_kept


def test_one_label_has_no_average_precision_over_labels() -> None:
    X, y = data()
    model = viewgap.ExtraTrees(n_estimators=3, n_jobs=1, random_state=0).fit(X, y[:, 0])
    assert model.training_summary_.scores.average_precision is None
    assert model.training_summary_.scores.macro_auc is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_samples", -1),
        ("n_samples", True),
        ("n_observed_views", [1]),
        ("patterns", {"1": 3}),
        ("patterns", {"1x": 3}),
        ("patterns", []),
        ("scores", {"macro_auc": 2}),
        ("more", 1),
    ],
)
def test_a_damaged_summary_is_refused(trees: Any, key: str, value: Any) -> None:
    stored = trees.training_summary_.to_dict() | {key: value}
    with pytest.raises(ValueError, match="must"):
        TrainingSummary.from_dict(stored, 2, 2)


def test_an_older_model_tells_what_it_holds() -> None:
    found = viewgap.info(OLD)
    assert found.method == "scsd"
    assert found.n_samples is None
    assert found.patterns is None
    assert found.labels[0]["threshold"] is None
    with pytest.raises(viewgap.errors.ModelFileError):
        viewgap.info(OLD.parent)
