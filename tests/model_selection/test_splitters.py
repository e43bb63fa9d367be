"""Folds: every row once, groups whole, labels and patterns of missing views balanced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import check_cv

from viewgap.data.splits import (
    balanced_parts,
    cross_fit_parts,
    cross_validation_fold,
    group_numbers,
)
from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, LabelError, SettingError
from viewgap.model_selection import BalancedKFold


def incomplete(n: int, seed: int) -> tuple[ViewSet, np.ndarray]:
    """Three views, four labels of which the last is rare; many gaps in both."""
    rng = np.random.default_rng(seed)
    observed = rng.random((n, 3)) < 0.6
    observed[~observed.any(axis=1), 0] = True
    labels = (rng.random((n, 4)) < [0.5, 0.3, 0.2, 0.1]).astype(float)
    labels[rng.random((n, 4)) < 0.3] = np.nan
    views = {name: rng.normal(size=(n, 2)) for name in "abc"}
    return ViewSet(views, observed), labels


def imbalance(views: ViewSet, labels: np.ndarray, parts: np.ndarray, n_parts: int) -> float:
    """Mean squared difference of what a part has from its share, by a naive loop."""
    codes = views.observed @ [1, 2, 4]
    columns = [codes == code for code in np.unique(codes)]
    columns += [labels[:, j] == value for j in range(labels.shape[1]) for value in (0, 1)]
    total = 0.0
    for column in columns:
        for part in range(n_parts):
            total += (column[parts == part].sum() - column.sum() / n_parts) ** 2
    return total / len(columns) / n_parts


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(4, 60),
    n_splits=st.integers(2, 4),
    n_repeats=st.integers(1, 2),
    seed=st.integers(0, 9),
)
def test_every_row_is_tested_once_in_each_repetition(
    n: int, n_splits: int, n_repeats: int, seed: int
) -> None:
    views, labels = incomplete(n, seed)
    folds = BalancedKFold(n_splits, n_repeats=n_repeats, random_state=seed)
    found = list(folds.split(views, labels))
    assert len(found) == folds.get_n_splits() == n_splits * n_repeats
    for train, test in found:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
    for repeat in range(n_repeats):
        own = [test for _, test in found[repeat * n_splits : (repeat + 1) * n_splits]]
        assert np.array_equal(np.sort(np.concatenate(own)), np.arange(n))
        assert max(map(len, own)) - min(map(len, own)) <= 1


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_splits=st.integers(2, 4), seed=st.integers(0, 9))
def test_groups_are_never_split_and_no_fold_is_empty(
    data: st.DataObject, n_splits: int, seed: int
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=n_splits, max_size=15))
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    views, labels = incomplete(len(groups), seed)
    parts = balanced_parts(views, labels, n_splits, np.random.default_rng(seed), groups)
    assert set(parts) == set(range(n_splits))
    assert all(len(set(parts[groups == group])) == 1 for group in set(groups))
    # No part is larger than its share by more than the largest group.
    assert np.bincount(parts).max() <= -(-len(groups) // n_splits) + max(sizes)


def test_rows_alone_are_dealt_as_for_a_cross_fit() -> None:
    views, labels = incomplete(50, 0)
    plain = cross_fit_parts(views, labels, 5, np.random.default_rng(1))
    for groups in (None, [f"p{i}" for i in range(50)]):
        found = balanced_parts(views, labels, 5, np.random.default_rng(1), groups)
        assert np.array_equal(found, plain)


@pytest.mark.parametrize("group_size", [1, 2])
def test_folds_are_more_alike_than_random_ones(group_size: int) -> None:
    balanced, random = [], []
    for seed in range(10):
        views, labels = incomplete(120, seed)
        groups = np.repeat(np.arange(120 // group_size), group_size)
        rng = np.random.default_rng(seed)
        parts = balanced_parts(views, labels, 5, rng, groups)
        dealt = rng.permutation(np.arange(groups.max() + 1) % 5)[groups]
        balanced.append(imbalance(views, labels, parts, 5))
        random.append(imbalance(views, labels, dealt, 5))
    assert np.mean(balanced) < 0.7 * np.mean(random)  # found: 0.38 for both


def test_a_seed_gives_the_same_folds_and_another_seed_others() -> None:
    views, labels = incomplete(40, 0)

    def tests(seed: int) -> list[list[int]]:
        return [
            test.tolist() for _, test in BalancedKFold(4, random_state=seed).split(views, labels)
        ]

    assert tests(0) == tests(0) != tests(1)


@pytest.mark.parametrize("y", [None, np.array(["ill", "well", None] * 10, dtype=object)])
def test_labels_may_be_absent_or_one_column_of_words(y: Any) -> None:
    views, _ = incomplete(30, 0)
    assert len(list(BalancedKFold(3).split(views, y))) == 3


def test_an_array_is_balanced_by_its_views() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 4))
    table[:8, :2] = np.nan
    columns = {"a": slice(0, 2), "b": slice(2, 4)}
    folds = BalancedKFold(4, views=columns)
    assert [np.isnan(table[test, 0]).sum() for _, test in folds.split(table)] == [2] * 4
    assert len(list(BalancedKFold(4).split(table))) == 4


def test_labels_in_another_order_are_refused() -> None:
    ids = [f"p{i}" for i in range(12)]
    frame = pd.DataFrame(np.arange(24.0).reshape(12, 2), ids)
    views = ViewSet({"a": frame, "b": frame + 1})
    labels = pd.DataFrame({"x": [0, 1] * 6}, ids)
    assert len(list(BalancedKFold(2).split(views, labels))) == 2
    with pytest.raises(LabelError, match="selects rows by number"):
        list(BalancedKFold(2).split(views, labels[::-1]))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2], "one value per sample"),
        ([1.0, np.nan, 2.0, 2.0], "1 samples have no group"),
        (["a", "", "b", "b"], "1 samples have no group"),
        ([None, "a", "b", None], "2 samples have no group"),
    ],
)
def test_rows_without_a_group_are_refused(groups: Any, words: str) -> None:
    values = np.array(groups, dtype=object) if None in groups else groups
    with pytest.raises(InputError, match=words):
        group_numbers(values, 4)


def test_impossible_numbers_of_folds_are_refused() -> None:
    views, labels = incomplete(6, 0)
    with pytest.raises(SettingError, match="7 folds need at least as many samples, found 6"):
        list(BalancedKFold(7).split(views, labels))
    with pytest.raises(SettingError, match="3 folds need at least as many groups, found 2"):
        list(BalancedKFold(3).split(views, labels, [0, 0, 0, 1, 1, 1]))
    with pytest.raises(SettingError, match="random_state must be an int"):
        BalancedKFold(random_state=None)  # type: ignore[arg-type]
    for wrong in (1, 2.5):
        with pytest.raises(SettingError, match="n_splits must be 2 or more"):
            BalancedKFold(wrong)  # type: ignore[arg-type]


def test_scikit_learn_takes_the_splitter() -> None:
    folds = BalancedKFold(3)
    assert check_cv(folds) is folds
    assert "n_splits=3" in repr(folds)


def test_a_fold_of_data_keeps_the_gaps_and_leaves_out_what_says_nothing() -> None:
    views, labels = incomplete(40, 2)
    labels[5] = np.nan
    views = views.with_observed(np.repeat(np.arange(40)[:, None] != 7, 3, axis=1))
    folds = [cross_validation_fold(views, labels, k, 4) for k in range(4)]
    assert sorted(np.concatenate([fold.test for fold in folds])) == sorted({*range(40)} - {5, 7})
    for fold in folds:
        assert not set(fold.train) & set(fold.test)
        assert len(fold.validation) == 0
        split = fold.split(views, labels)
        assert np.array_equal(split.train[0].observed, views.observed[fold.train])
        assert np.array_equal(split.train[1], labels[fold.train], equal_nan=True)
        assert np.array_equal(split.test[1], labels[fold.test], equal_nan=True)
    again = cross_validation_fold(views, labels, 4, 4)
    assert not np.array_equal(again.test, folds[0].test)  # a second repetition


def test_a_fold_hides_more_where_asked() -> None:
    views, labels = incomplete(40, 2)
    fold = cross_validation_fold(views, labels, 0, 4, view_rate=0.5, label_rate=0.5)
    split = fold.split(views, labels)
    assert split.train[0].observed.sum() < views.observed[fold.train].sum()
    assert np.isnan(split.train[1]).sum() > np.isnan(labels[fold.train]).sum()
    assert np.array_equal(split.test[1], labels[fold.test], equal_nan=True)
