"""Folds: sizes, masks, and what reaches training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.splits import Fold, cross_fit_parts, label_mask, make_fold, view_mask
from viewgap.data.splits.splits import split_sizes
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewError


def data(n: int = 40, m: int = 3, c: int = 4, seed: int = 0) -> tuple[ViewSet, np.ndarray]:
    rng = np.random.default_rng(seed)
    views = ViewSet({f"v{j}": rng.normal(size=(n, j + 1)) for j in range(m)})
    return views, rng.integers(0, 2, size=(n, c)).astype(float)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (4999, (3500, 750, 749)),
        (9963, (6975, 1495, 1493)),
        (20770, (14539, 3116, 3115)),
        (19627, (13739, 2945, 2943)),
        (25000, (17500, 3750, 3750)),
    ],
)
def test_sizes_of_the_benchmark_sets(n: int, sizes: tuple[int, int, int]) -> None:
    assert split_sizes(n) == sizes


@given(st.integers(10, 500), st.sampled_from([0.3, 0.5, 0.7, 0.8]))
def test_sizes_cover_everything(n: int, share: float) -> None:
    sizes = split_sizes(n, share)
    assert sum(sizes) == n
    assert min(sizes) >= 1
    assert 0 <= sizes[1] - sizes[2] <= 3


@pytest.mark.parametrize(("n", "share"), [(3, 0.7), (1, 0.5), (10, 0.0), (10, 1.0), (10, 0.95)])
def test_sizes_that_cannot_be(n: int, share: float) -> None:
    with pytest.raises(SettingError):
        split_sizes(n, share)


@given(st.integers(0, 1000))
def test_a_fold_hides_what_it_must(seed: int) -> None:
    views, labels = data(seed=seed)
    fold = make_fold(views, labels, view_rate=0.5, label_rate=0.3, seed=seed)
    assert sorted([*fold.train, *fold.validation, *fold.test]) == list(range(40))
    assert not fold.label_mask[fold.validation].any()
    assert not fold.label_mask[fold.test].any()
    assert (fold.view_mask.sum(axis=0) == 20).all()
    split = fold.split(views, labels)
    for (part, seen), rows in zip(split, (fold.train, fold.validation, fold.test), strict=True):
        assert part.sample_ids.tolist() == rows.tolist()
        assert np.array_equal(part.observed, fold.view_mask[rows])
        assert seen.shape == (len(rows), 4)
    assert np.array_equal(np.isnan(split.train[1]), ~fold.label_mask[fold.train])
    assert np.array_equal(split.validation[1], labels[fold.validation])
    assert np.array_equal(split.test[1], labels[fold.test])


def test_draws_come_in_the_order_of_the_protocol() -> None:
    views, labels = data()
    fold = make_fold(views, labels, view_rate=0.4, label_rate=0.2, train_share=0.5, seed=9)
    rng = np.random.default_rng(9)
    assert np.array_equal(fold.view_mask, view_mask(40, 3, 0.4, rng))
    order = rng.permutation(40)
    assert np.array_equal(fold.train, order[:20])
    assert np.array_equal(fold.validation, order[20:30])
    assert np.array_equal(fold.label_mask, label_mask(labels, order[:20], 0.2, rng))
    assert fold.name == 9


def test_gaps_stay_and_every_sample_keeps_a_view() -> None:
    views, labels = data()
    gaps = np.random.default_rng(1).random((40, 3)) < 0.5
    gaps[:, 0] |= ~gaps.any(axis=1)
    split = make_fold(views.with_observed(gaps), labels, seed=2).split(
        views.with_observed(gaps), labels
    )
    for part, _ in split:
        assert part.observed.any(axis=1).all()
        assert not (part.observed & ~gaps[part.sample_ids]).any()


def test_data_of_another_shape_is_refused() -> None:
    views, labels = data()
    with pytest.raises(LabelError, match="40 samples, 39 rows"):
        make_fold(views, labels[:39])
    fold = make_fold(views, labels)
    with pytest.raises(SettingError, match=r"labels of shape \(40, 4\)"):
        fold.split(views, labels[:, :2])
    with pytest.raises(ViewError, match="observed"):
        fold.split(views.select(["v0"]), labels)


def test_labels_unknown_from_the_start_stay_unknown() -> None:
    views, labels = data()
    labels[::3, 0] = np.nan
    fold = make_fold(views, labels)
    assert isinstance(fold, Fold)
    for (_, seen), rows in zip(
        fold.split(views, labels), (fold.train, fold.validation, fold.test), strict=True
    ):
        assert np.isnan(seen[np.isnan(labels[rows])]).all()


# ---------------------------------------------------------------------- parts of a cross-fit


def parts_of(views: ViewSet, labels: object, n_parts: int = 5, seed: int = 0) -> np.ndarray:
    return cross_fit_parts(views, labels, n_parts, np.random.default_rng(seed))


@given(st.integers(1, 60), st.integers(2, 7), st.integers(0, 1000))
def test_parts_have_one_size_whatever_is_missing(n: int, n_parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    views, labels = data(n=n, seed=seed)
    views = views.with_observed(rng.random((n, 3)) < 0.6)
    labels[rng.random(labels.shape) < 0.4] = np.nan
    parts = parts_of(views, labels, n_parts, seed)
    sizes = np.bincount(parts, minlength=min(n, n_parts))
    assert sizes.size == min(n, n_parts)
    assert np.ptp(sizes) <= 1
    assert np.array_equal(parts, parts_of(views, labels, n_parts, seed))


@given(st.lists(st.integers(0, 5), min_size=10, max_size=80), st.integers(2, 6))
def test_disjoint_labels_are_dealt_evenly(classes: list[int], n_parts: int) -> None:
    """One label per row: no two parts differ by more than one row of any label."""
    labels = np.eye(6)[classes]
    parts = parts_of(ViewSet({"a": np.ones((len(classes), 1))}), labels, n_parts)
    counts = [labels[parts == part].sum(axis=0) for part in range(n_parts)]
    # A label of more than half of the rows is dealt by its negatives.
    rarer = np.where(2 * labels.sum(axis=0) <= len(labels), counts, 0)
    assert np.ptp(rarer, axis=0).max() <= 1


@given(st.integers(0, 200))
def test_rare_labels_and_views_reach_every_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    views, labels = data(n=200, seed=seed)
    observed = np.ones((200, 3), dtype=bool)
    observed[:, 1] = rng.permutation(200) < 10
    labels[:, 0] = rng.permutation(200) < 5
    labels[:, 1] = rng.permutation(200) >= 5  # few negatives
    labels[:, 2] = np.where(rng.permutation(200) < 10, labels[:, 2], np.nan)
    parts = parts_of(views.with_observed(observed), labels)
    for chosen in (observed[:, 1], labels[:, 0] == 1, labels[:, 1] == 0):
        assert np.bincount(parts[chosen], minlength=5).max() <= chosen.sum() // 5 + 1


def test_one_part_is_refused() -> None:
    with pytest.raises(SettingError, match="n_parts must be 2 or more"):
        parts_of(*data(), n_parts=1)
