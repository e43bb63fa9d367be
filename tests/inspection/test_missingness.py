"""Whether what is missing tells a label: found where it does, silent where it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import viewgap
from viewgap.data import read_data
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.inspection.missingness import (
    association,
    labels_from_gaps,
    out_of_fold_scores,
    pooled_auc,
)

N = 200


def views_with_gaps(seed: int = 0) -> ViewSet:
    rng = np.random.default_rng(seed)
    observed = np.column_stack([np.ones(N, dtype=bool), rng.random(N) < 0.5])
    return ViewSet({"always": rng.normal(size=(N, 3)), "half": rng.normal(size=(N, 2))}, observed)


def test_a_label_that_follows_the_gaps_is_warned_of() -> None:
    views = views_with_gaps()
    rng = np.random.default_rng(1)
    there = views.observed[:, 1]
    truth = np.column_stack(
        [rng.random(N) < np.where(there, 0.7, 0.1), rng.random(N) < 0.4, rng.random(N) < 0.02]
    )
    result = viewgap.inspect(views, truth.astype(float))
    (finding,) = [own for own in result.findings if own.kind == "missingness_predicts_labels"]
    assert finding.severity == "warning"
    assert finding.view == "half"
    assert finding.labels == ("label0",)
    line = result.missingness.set_index("label").loc["label0"]
    assert line["predicts"]
    assert line["frequency_with"] == pytest.approx(truth[there, 0].mean())
    assert line["frequency_without"] == pytest.approx(truth[~there, 0].mean())
    assert set(result.missingness["label"]) == {"label0", "label1"}  # the third is too rare


def test_single_missing_values_tell_too() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(N) < 0.4
    values = rng.normal(size=(N, 10))
    for row in np.flatnonzero(truth):
        values[row, : rng.integers(3, 6)] = np.nan
    views = ViewSet({"a": values, "b": rng.normal(size=(N, 2))})
    (own,) = labels_from_gaps(views, Labels(truth[:, None], np.ones((N, 1), dtype=bool), ("x",)))
    assert own.predicts
    assert own.auc > 0.95
    assert own.view == ""


def test_meaningless_gaps_are_not_warned_of() -> None:
    """At most 1 % of data sets by construction; 40 of them with 5 labels each."""
    warned = 0
    for seed in range(40):
        truth = np.random.default_rng(1000 + seed).random((N, 5)) < 0.3
        labels = Labels(truth, np.ones(truth.shape, dtype=bool), tuple("abcde"))
        warned += any(own.predicts for own in labels_from_gaps(views_with_gaps(seed), labels))
    assert warned <= 3


def test_nothing_missing_is_nothing_to_judge() -> None:
    views = ViewSet({"a": np.ones((N, 1)), "b": np.ones((N, 1))})
    truth = np.arange(N)[:, None] % 2 == 0
    assert labels_from_gaps(views, Labels(truth, np.ones((N, 1), dtype=bool), ("x",))) == []


def test_association_is_the_chi_squared_test_of_a_two_by_two_table() -> None:
    rng = np.random.default_rng(3)
    gap, truth = rng.random(N) < 0.4, rng.random(N) < 0.3
    counts = np.array([[(gap & truth).sum(), (gap & ~truth).sum()]])
    counts = np.vstack([counts, [(~gap & truth).sum(), (~gap & ~truth).sum()]])
    statistic = stats.chi2_contingency(counts, correction=False).statistic
    truth_p = stats.chi2.sf(statistic * (N - 1) / N, 1)
    gap_twice = np.column_stack([gap, gap]).astype(float)  # a feature that adds nothing
    assert association(gap_twice, truth.astype(float)) == pytest.approx(truth_p, rel=1e-6)


def test_auc_counts_pairs_within_folds_of_known_labels() -> None:
    rng = np.random.default_rng(4)
    scores, truth = rng.integers(0, 4, N) / 4, (rng.random(N) < 0.4).astype(float)
    known, folds = rng.random(N) < 0.8, np.arange(N) % 5
    wins, pairs = 0.0, 0.0
    for fold in range(5):
        part = known & (folds == fold)
        count = truth[part].sum() * (1 - truth[part]).sum()
        wins += roc_auc_score(truth[part], scores[part]) * count
        pairs += count
    auc, low, high = pooled_auc(scores, truth, known, folds)
    assert auc == pytest.approx(wins / pairs)
    assert low < auc < high


def test_scores_come_from_the_other_folds() -> None:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(N, 2))
    truth, known = (rng.random((N, 1)) < 0.4).astype(float), rng.random((N, 1)) < 0.9
    scores, folds = out_of_fold_scores(features, truth, known)
    changed = truth.copy()
    changed[folds == 2] = 1 - changed[folds == 2]
    others, _ = out_of_fold_scores(features, changed, known)
    assert (others[folds == 2] == scores[folds == 2]).all()
    assert (others[folds != 2] != scores[folds != 2]).any()


def test_the_view_segments_of_birds_is_not_missing_at_random(benchmark_data: Path) -> None:
    path = benchmark_data / "birds" / "birds_645.npz"
    if not path.exists():
        pytest.skip("needs birds")
    with pytest.warns(viewgap.errors.ViewgapWarning, match="arrays not read"):
        data = read_data(path)
    result = viewgap.inspect(data.views, data.labels)
    (finding,) = [own for own in result.findings if own.kind == "missingness_predicts_labels"]
    assert finding.view == "segments"
    assert result.missingness["predicts"].sum() >= 10
