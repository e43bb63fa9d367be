"""Ranks by counting and ranks by sorting are the same whole numbers."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewgap.metrics import _ranks
from viewgap.metrics._inputs import LabelEntries, check_entries


def random_entries(seed: int, levels: int, missing: float) -> LabelEntries:
    """Scores of a few `levels` are tied."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((30, 7)) < rng.random((30, 1))).astype(np.float64)
    Y[rng.random(Y.shape) < missing] = np.nan
    return check_entries(Y, rng.integers(0, levels, size=Y.shape) / levels)


def assert_same(found: _ranks.PositiveRanks, expected: _ranks.PositiveRanks) -> None:
    for field in fields(found):
        own, other = getattr(found, field.name), getattr(expected, field.name)
        np.testing.assert_array_equal(own, other, err_msg=field.name)
        assert own.dtype == other.dtype, field.name


@given(st.integers(0, 200), st.sampled_from([1, 2, 5, 10_000]), st.sampled_from([0.0, 0.4, 1.0]))
@settings(max_examples=60, deadline=None)
def test_counting_and_sorting_agree(seed: int, levels: int, missing: float) -> None:
    entries = random_entries(seed, levels, missing)
    assert_same(_ranks._by_counting(entries), _ranks._by_sorting(entries))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1)])
def test_nothing_to_rank(shape: tuple[int, int]) -> None:
    entries = LabelEntries(np.zeros(shape, dtype=bool), np.zeros(shape), None)
    assert_same(_ranks._by_counting(entries), _ranks._by_sorting(entries))


def test_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = random_entries(0, 3, 0.2)
    expected = _ranks._by_sorting(entries)
    monkeypatch.setattr(_ranks, "_COMPARED", 20)
    assert_same(_ranks._by_counting(entries), expected)


@pytest.mark.parametrize("most", [0, 10**9])
def test_either_way_is_taken(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranks, "_FEW_POSITIVES", most)
    taken = []
    for name in ("_by_counting", "_by_sorting"):
        way = getattr(_ranks, name)
        monkeypatch.setattr(_ranks, name, lambda e, n=name, w=way: taken.append(n) or w(e))
    _ranks.rank_positives(random_entries(1, 5, 0.0))
    assert taken == ["_by_counting" if most else "_by_sorting"]
