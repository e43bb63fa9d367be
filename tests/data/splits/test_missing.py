"""The missing-data protocol: exact rates, at least one view, ceil of the kept labels."""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viewgap.data.splits import amputate, label_mask, view_mask, view_mask_over_gaps
from viewgap.data.splits.missing import ceil, floor
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewgapWarning

RATES = st.integers(0, 99).map(lambda hundredths: hundredths / 100)


@given(st.integers(1, 60), st.integers(1, 7), RATES, st.integers(0, 1000))
@example(10, 2, 0.9, 0)
@example(7, 3, 0.99, 0)
@example(5, 1, 0.5, 0)
def test_view_mask_meets_the_rate(n: int, m: int, rate: float, seed: int) -> None:
    missing = math.floor(n * Fraction(round(rate * 100), 100))
    reachable = m * missing <= n * (m - 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mask = view_mask(n, m, rate, np.random.default_rng(seed))
    assert mask.shape == (n, m)
    assert mask.dtype == np.bool_
    assert mask.any(axis=1).all()
    assert bool(caught) == (not reachable)
    if reachable:
        assert ((~mask).sum(axis=0) == missing).all()
    else:  # as close as can be: every sample keeps one view, dealt out evenly
        assert (mask.sum(axis=1) == 1).all()
        assert np.ptp(mask.sum(axis=0)) <= 1


def test_view_mask_follows_the_protocol() -> None:
    """Step by step with the same generator, where the protocol's last draw is possible."""
    n, m, rate = 100, 6, 0.5
    rng = np.random.default_rng(3)
    expected = np.ones((n, m), dtype=bool)
    for view in range(m - 1):
        for row in rng.permutation(n)[:50]:
            expected[row, view] = False
    others = [row for row in range(n) if expected[row, : m - 1].any()]
    for row in rng.choice(others, 50, replace=False):
        expected[row, m - 1] = False
    assert np.array_equal(view_mask(n, m, rate, np.random.default_rng(3)), expected)


def test_number_of_views_at_one_half() -> None:
    """The distribution that the protocol gives for six views at a rate of one half."""
    mask = view_mask(20_000, 6, 0.5, np.random.default_rng(0))
    shares = np.bincount(mask.sum(axis=1), minlength=7)[1:] / 20_000
    assert np.allclose(shares, [0.113, 0.234, 0.312, 0.239, 0.086, 0.016], atol=0.012)


def test_one_view_loses_nothing() -> None:
    with pytest.warns(ViewgapWarning, match="cannot be met: with 1 views"):
        assert view_mask(10, 1, 0.5, 0).all()
    assert view_mask(10, 1, 0.0, 0).all()


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_rates_out_of_range(rate: float) -> None:
    with pytest.raises(SettingError, match="view rate"):
        view_mask(10, 3, rate, 0)
    if rate != 1.0:
        with pytest.raises(SettingError, match="label rate"):
            label_mask(np.ones((2, 1)), [0], rate, 0)
    with pytest.raises(SettingError, match="n = 0"):
        view_mask(0, 3, 0.5, 0)


@given(st.integers(1, 40), st.integers(1, 5), RATES, st.integers(0, 1000))
def test_label_mask_keeps_the_ceil_per_class(n: int, c: int, rate: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice([0.0, 1.0, np.nan], size=(n, c), p=[0.5, 0.4, 0.1])
    train = rng.permutation(n)[: max(1, n // 2)]
    mask = label_mask(labels, train, rate, rng)
    outside = np.setdiff1d(np.arange(n), train)
    assert not mask[outside].any()
    assert not mask[np.isnan(labels)].any()
    kept = 1 - Fraction(round(rate * 100), 100)
    for j in range(c):
        for value in (0, 1):
            members = [row for row in train if labels[row, j] == value]
            assert mask[members, j].sum() == math.ceil(len(members) * kept)


def test_label_mask_of_small_classes() -> None:
    labels = np.array([[1, 1], [0, 1], [0, 1], [0, 0]])
    mask = label_mask(labels, np.arange(4), 0.5, 0)
    assert mask[0, 0]  # the only positive stays
    assert mask[:3, 1].sum() == 2  # of three positives two stay
    assert not label_mask(labels, np.arange(4), 1.0, 0).any()
    assert label_mask(labels, np.array([True, True, False, False]), 0.0, 0).sum() == 4
    with pytest.raises(LabelError, match=r"shape \(4,\)"):
        label_mask(labels[:, 0], [0], 0.5, 0)


def test_rounding_of_rates() -> None:
    assert floor(100 * 0.29) == 29
    assert ceil(10 * (1 - 0.7)) == 3
    assert ceil(10 * 0.3000001) == 4
    assert floor(9.9999) == 9


@given(st.integers(1, 30), st.integers(2, 5), RATES, RATES, st.integers(0, 1000))
def test_amputate_keeps_gaps_and_a_view(
    n: int, m: int, rate: float, gaps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    observed = rng.random((n, m)) >= gaps
    views = ViewSet({f"v{j}": np.ones((n, 1)) for j in range(m)}, observed)
    labels = rng.choice([0.0, 1.0, np.nan], size=(n, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)
        less, kept = amputate(views, labels, view_rate=rate, label_rate=0.5, seed=seed)
    assert not (less.observed & ~observed).any()
    assert np.array_equal(less.observed.any(axis=1), observed.any(axis=1))
    assert kept.dtype == np.float64
    seen = ~np.isnan(kept)
    assert np.array_equal(kept[seen], labels[seen])
    assert np.isnan(kept[np.isnan(labels)]).all()


def test_amputate_is_the_protocol_on_complete_data() -> None:
    arrays = {f"v{j}": np.ones((40, 2)) for j in range(4)}
    labels = np.random.default_rng(0).integers(0, 2, size=(40, 5))
    less, kept = amputate(arrays, labels, view_rate=0.3, label_rate=0.7, seed=5)
    rng = np.random.default_rng(5)
    assert np.array_equal(less.observed, view_mask(40, 4, 0.3, rng))
    assert np.array_equal(~np.isnan(kept), label_mask(labels, np.arange(40), 0.7, rng))
    again, _ = amputate(arrays, labels, view_rate=0.3, label_rate=0.7, seed=5)
    assert np.array_equal(again.observed, less.observed)


def test_global_random_state_is_left_alone() -> None:
    before: Any = np.random.get_state()  # noqa: NPY002
    view_mask_over_gaps(np.ones((9, 3), dtype=bool), 0.5, 1)
    after: Any = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]
