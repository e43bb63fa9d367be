"""complete_labels: out of fold indeed, and observed entries ranked by what speaks against them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import viewgap
from viewgap.completion.answers import counts_in_training, log_odds
from viewgap.completion.suspicion import separation
from viewgap.errors import InputError, LabelError, SettingError, ViewgapWarning
from viewgap.model_selection import BalancedKFold, cross_val_predict

RIDGE = viewgap.LateFusionRidge(random_state=0, on_empty="prior")
pytestmark = pytest.mark.filterwarnings("ignore:.*labels are not judged")


@pytest.fixture(scope="module")
def data() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Two views with gaps, three labels that the views tell, entries nobody looked at."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    ids = [f"s{i}" for i in range(120)]
    a = pd.DataFrame(x + rng.normal(scale=0.1, size=x.shape), index=ids)
    b = pd.DataFrame(x[:, ::-1] + rng.normal(scale=0.5, size=x.shape), index=ids)
    labels = pd.DataFrame((x[:, :3] > 0.3).astype(float), index=ids, columns=["l0", "l1", "l2"])
    labels = labels.mask(rng.random(labels.shape) < 0.2)
    return {"a": a.iloc[15:], "b": b.iloc[:100]}, labels


@pytest.fixture(scope="module")
def found(data: Any) -> Any:
    return viewgap.complete_labels(*data, RIDGE)


def test_probabilities_are_those_of_cross_val_predict(data: Any, found: Any) -> None:
    views = viewgap.ViewSet(data[0]).with_fixed_row_order()
    truth = data[1].reindex(views.sample_ids).to_numpy()
    expected = cross_val_predict(RIDGE, views, truth, cv=BalancedKFold(5))
    np.testing.assert_array_equal(found.probabilities.to_numpy(), np.asarray(expected))
    assert found.probabilities.index.tolist() == views.sample_ids.tolist()


def test_no_answer_depends_on_the_sample_that_it_is_for(data: Any) -> None:
    """With folds that are fixed, other labels of a sample leave its own answers as they are."""
    folds, changed = KFold(4), data[1].copy()
    changed.loc["s20"] = 1 - changed.loc["s20"].fillna(0)
    before, after = (
        viewgap.complete_labels(data[0], y, RIDGE, cv=folds) for y in (data[1], changed)
    )
    np.testing.assert_array_equal(before.probabilities.loc["s20"], after.probabilities.loc["s20"])
    assert not before.probabilities.equals(after.probabilities)


def test_completed_keeps_what_was_observed_and_fills_the_rest(data: Any, found: Any) -> None:
    y = data[1].reindex(found.completed.index)
    seen = y.notna().to_numpy()
    np.testing.assert_array_equal(found.completed.to_numpy()[seen], y.to_numpy()[seen])
    np.testing.assert_array_equal(
        found.completed.to_numpy()[~seen], found.probabilities.to_numpy()[~seen]
    )
    assert len(found.unobserved) == (~seen).sum()
    assert found.unobserved["probability"].between(0, 1).all()


def test_the_ranking_is_that_of_a_loop_over_entries(data: Any, found: Any) -> None:
    y, p = data[1].reindex(found.completed.index), found.probabilities
    odds = {}
    for label in y.columns:
        frequency = y[label].mean()
        for sample in y.index:
            q, f = p.loc[sample, label], frequency
            if y.loc[sample, label] == 1:
                q, f = 1 - q, 1 - f
            if not np.isnan(y.loc[sample, label]):
                odds[sample, label] = q / (1 - q) / np.sqrt(f / (1 - f))
    lines = found.flagged(min_odds=0.5)
    order = sorted((key for key in odds if odds[key] >= 0.5), key=lambda key: -odds[key])
    assert list(zip(lines["sample"], lines["label"], strict=True)) == order
    np.testing.assert_allclose(lines["odds_against"], [odds[key] for key in order])
    assert lines["rank"].tolist() == list(range(1, len(order) + 1))


def test_flipped_labels_come_first_with_their_reason(data: Any) -> None:
    y = data[1].copy()
    clear = data[0]["a"].loc["s15":"s99"]  # of samples that have both views
    entries = [(own, "l0") for own in clear[0][y.loc[clear.index, "l0"] == 0].nsmallest(3).index]
    entries += [(own, "l1") for own in clear[1][y.loc[clear.index, "l1"] == 1].nlargest(3).index]
    for sample, label in entries:
        y.loc[sample, label] = 1 - y.loc[sample, label]
    found = viewgap.complete_labels(data[0], y, RIDGE)
    first = found.flagged(min_odds=0.5).head(10)
    assert set(entries) <= set(zip(first["sample"], first["label"], strict=True))
    line = first[first["sample"] == entries[0][0]].iloc[0]
    assert line["observed"] == 1
    assert line["probability"] < line["expected"]
    assert "a " in line["views_against"]
    assert line["reason"].startswith("observed positive, but the out-of-fold probability is ")


def test_views_that_speak_against_are_answers_of_that_view_alone(data: Any) -> None:
    folds = KFold(3)
    found = viewgap.complete_labels(data[0], data[1], RIDGE, cv=folds)
    views = viewgap.ViewSet(data[0]).with_fixed_row_order()
    truth = data[1].reindex(views.sample_ids).to_numpy()
    for train, test in folds.split(truth):
        model = viewgap.LateFusionRidge(random_state=0, on_empty="prior")
        model.fit(views[train], truth[train])
        for j in range(2):
            rows = test[views.observed[test, j]]
            shown = np.zeros((len(rows), 2), dtype=bool)
            shown[:, j] = True
            alone = np.asarray(model.predict_proba(views[rows].with_observed(shown)))
            np.testing.assert_array_equal(found.alone[rows, j], alone)
            assert np.isnan(found.alone[np.setdiff1d(test, rows), j]).all()


def test_duplicates_with_another_label_are_named_and_share_a_fold() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    y = (x[:, :1] > 0).astype(float)
    x = np.vstack([x, x[:4]])
    y = np.vstack([y, 1 - y[:4]])
    found = viewgap.complete_labels({"a": x}, y, RIDGE, cv=4)
    assert found.duplicate_of[60:].tolist() == [0, 1, 2, 3]
    lines = found.flagged(min_odds=1.0)
    lines = lines[lines["sample"] >= 60]
    assert lines["duplicates"].tolist() == [str(own - 60) for own in lines["sample"]]
    assert len(lines) == 4
    assert "the same values with this label" in lines["reason"].iloc[0]
    # a copy in training would have answered with its own, other label
    np.testing.assert_array_equal(found.probabilities.iloc[60:], found.probabilities.iloc[:4])


def test_groups_stay_together_in_any_order_of_a_series(data: Any) -> None:
    ids = sorted({*data[0]["a"].index, *data[0]["b"].index})
    groups = pd.Series([int(own[1:]) // 10 for own in ids], index=ids)
    views = viewgap.ViewSet(data[0]).with_fixed_row_order()
    by_array = viewgap.complete_labels(
        views, data[1].reindex(views.sample_ids), RIDGE, groups=groups[views.sample_ids].to_numpy()
    )
    by_series = viewgap.complete_labels(*data, RIDGE, groups=groups.sample(frac=1, random_state=0))
    assert by_array.probabilities.equals(by_series.probabilities)
    other = viewgap.complete_labels(*data, RIDGE)
    assert not by_array.probabilities.equals(other.probabilities)


def test_groups_that_cannot_be_matched_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="groups lack 119 samples of X"):
        viewgap.complete_labels(*data, RIDGE, groups=pd.Series([1], index=["s0"]))
    with pytest.raises(InputError, match="give groups as a Series by sample id"):
        viewgap.complete_labels(*data, RIDGE, groups=np.arange(120))
    views = viewgap.ViewSet(data[0]).with_fixed_row_order()
    y = data[1].reindex(views.sample_ids)
    with pytest.raises(InputError, match="one value per sample"):
        viewgap.complete_labels(views, y, RIDGE, groups=np.arange(7))


def test_labels_are_matched_by_id(data: Any, found: Any) -> None:
    shuffled = data[1].sample(frac=1, random_state=3)
    again = viewgap.complete_labels(data[0], shuffled, RIDGE)
    assert again.suspicious.equals(found.suspicious)


def test_all_labels_observed_and_none(data: Any) -> None:
    full = data[1].fillna(0.0)
    found = viewgap.complete_labels(data[0], full, RIDGE)
    assert found.unobserved.empty
    assert found.completed.equals(full.reindex(found.completed.index))
    assert found.to_lines()["kind"].eq("suspicious").all()
    with pytest.raises(LabelError, match="none of the 3 labels was observed for any of 120"):
        viewgap.complete_labels(data[0], full * np.nan, RIDGE)


def test_labels_of_one_class_or_none_are_never_flagged(data: Any) -> None:
    y = data[1].copy()
    y["always"], y["once"], y["never"] = 1.0, 0.0, np.nan
    y.loc["s50", "once"] = 1.0
    with pytest.warns(ViewgapWarning, match=r"2 of 6 labels are not judged.*always, once;"):
        found = viewgap.complete_labels(data[0], y, RIDGE)
    assert found.judged.tolist() == [True, True, True, False, False, False]
    assert not found.flagged(1e-9)["label"].isin(["always", "once", "never"]).any()
    assert found.probabilities["never"].isna().all()
    assert found.unobserved[found.unobserved["label"] == "never"]["expected"].isna().all()
    assert np.isnan(found.scores[found.probabilities.index.get_loc("s50"), 4])  # no other positive


def test_a_label_that_the_views_do_not_tell_is_not_judged() -> None:
    """Without this, every positive entry of a rare label would be among the first."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 3))
    y = np.column_stack([x[:, 0] > 0, rng.random(150) < 0.06]).astype(float)
    with pytest.warns(ViewgapWarning, match="not judged.*label1"):
        found = viewgap.complete_labels({"a": x}, y, "label_frequency")
    assert not found.judged.any()
    found = viewgap.complete_labels({"a": x}, y, RIDGE)
    assert found.judged.tolist() == [True, False]


def test_samples_without_a_view_are_answered_by_frequency_and_not_judged(data: Any) -> None:
    views = {name: own.copy() for name, own in data[0].items()}
    views["a"].loc["s30"] = np.nan
    views["b"].loc["s30"] = np.nan
    found = viewgap.complete_labels(views, data[1], RIDGE)
    assert found.probabilities.loc["s30"].between(0, 1).all()
    lines = found.entries[found.entries["sample"] == "s30"]
    assert lines["odds_against"].isna().all()


def test_single_missing_values_and_one_table(data: Any) -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(60, 4))
    y = (table[:, :1] > 0).astype(float)
    table[3, 1] = np.nan
    cut = {"a": slice(0, 2), "b": slice(2, 4)}
    filled = viewgap.complete_labels(table, y, RIDGE, views=cut)
    hidden = viewgap.complete_labels(table, y, RIDGE, views=cut, nan="missing_view")
    assert filled.views.observed.all()
    assert hidden.views.observed[3].tolist() == [False, True]
    with pytest.raises(InputError, match="NaN"):
        viewgap.complete_labels(table, y, RIDGE, views=cut, nan="error")


def test_values_under_a_mask_are_never_read(data: Any) -> None:
    rng = np.random.default_rng(2)
    x, mask = rng.normal(size=(60, 3)), rng.random(60) < 0.7
    y = (x[:, :2] > 0).astype(float)
    results = []
    for garbage in (0.0, 1e30):
        own = np.where(mask[:, None], x, garbage)
        views = viewgap.ViewSet({"a": own, "b": x}, np.column_stack([mask, np.ones(60, bool)]))
        results.append(viewgap.complete_labels(views, y, RIDGE))
    assert results[0].probabilities.equals(results[1].probabilities)
    assert results[0].suspicious.equals(results[1].suspicious)


def test_several_methods_and_repeats_are_averaged_by_log_odds(data: Any) -> None:
    methods = [RIDGE, viewgap.LateFusionRidge(features="auto", random_state=0)]
    together = viewgap.complete_labels(*data, methods, cv=KFold(3))
    single = [viewgap.complete_labels(*data, own, cv=KFold(3)) for own in methods]
    odds = np.mean([log_odds(own.probabilities.to_numpy()) for own in single], axis=0)
    np.testing.assert_allclose(together.probabilities, 1 / (1 + np.exp(-odds)), atol=1e-12)
    repeated = viewgap.complete_labels(*data, RIDGE, cv=3, n_repeats=2)
    by_hand = [
        viewgap.complete_labels(*data, RIDGE, cv=BalancedKFold(3, random_state=seed))
        for seed in (0, 1000)
    ]
    odds = np.mean([log_odds(own.probabilities.to_numpy()) for own in by_hand], axis=0)
    np.testing.assert_allclose(repeated.probabilities, 1 / (1 + np.exp(-odds)), atol=1e-12)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": []}, "names no method"),
        ({"method": "nothing"}, "unknown method 'nothing'"),
        ({"n_repeats": 0}, "n_repeats must be 1 or more"),
        ({"n_repeats": 2, "cv": KFold(3)}, "leave it out beside a splitter"),
        ({"cv": 1}, "n_splits must be 2 or more"),
        ({"cv": 500}, "500 folds need at least as many"),
    ],
)
def test_misuse_is_refused(data: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        viewgap.complete_labels(*data, **{"method": RIDGE} | more)


@pytest.mark.parametrize(("name", "value"), [("min_odds", 0), ("min_odds", np.nan), ("most", -1)])
def test_what_is_flagged_has_sensible_limits(found: Any, name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        found.flagged(**{name: value})


def test_pipelines_answer_too(data: Any) -> None:
    from sklearn.preprocessing import StandardScaler

    from viewgap.model_selection import PerView

    model = make_pipeline(PerView(StandardScaler()), RIDGE)
    assert len(viewgap.complete_labels(*data, model).entries) == 360


def test_nothing_given_is_changed(data: Any) -> None:
    views = {name: own.copy() for name, own in data[0].items()}
    y = data[1].copy()
    viewgap.complete_labels(views, y, RIDGE)
    assert y.equals(data[1])
    assert all(views[name].equals(own) for name, own in data[0].items())


def test_counts_in_training_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((20, 3)) < 0.3
    folds = [list(KFold(4, shuffle=True, random_state=seed).split(seen)) for seed in range(2)]
    expected = np.empty((20, 3))
    for i in range(20):
        own = [train for repeat in folds for train, test in repeat if i in test]
        expected[i] = np.min([seen[train].sum(axis=0) for train in own], axis=0)
    np.testing.assert_array_equal(counts_in_training(seen, folds), expected)


def test_separation_is_mann_whitneys_z() -> None:
    from scipy.stats import mannwhitneyu, norm

    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=60), rng.random(60) < 0.3
    p = mannwhitneyu(
        scores[positive],
        scores[~positive],
        alternative="greater",
        method="asymptotic",
        use_continuity=False,
    ).pvalue
    assert separation(scores, positive) == pytest.approx(norm.isf(p))


def test_no_note_is_repeated_by_every_fold(data: Any) -> None:
    y = data[1].assign(never=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ViewgapWarning)
        viewgap.complete_labels(data[0], y, RIDGE)
