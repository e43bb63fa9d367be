"""Rows are aligned by id where ids are given; names and ids that occur twice are refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError


@given(st.integers(0, 10**6), st.integers(2, 12), st.booleans())
def test_shuffling_a_view_with_its_ids_changes_nothing(seed: int, n: int, text: bool) -> None:
    rng = np.random.default_rng(seed)
    ids: Any = [f"s{i}" for i in range(n)] if text else rng.permutation(1000)[:n]
    frames = {
        "a": pd.DataFrame(rng.normal(size=(n, 2)), index=ids),
        "b": pd.DataFrame(rng.integers(0, 9, size=(n, 3)), index=ids),
    }
    labels = pd.DataFrame(rng.integers(0, 2, size=(n, 2)), index=ids)
    first = as_viewset(frames)
    order = rng.permutation(n)
    second = as_viewset(frames | {"b": frames["b"].iloc[order]})
    assert second.sample_ids.tolist() == first.sample_ids.tolist()
    assert np.array_equal(second.observed, first.observed)
    assert second.to_array().tobytes() == first.to_array().tobytes()
    shuffled = as_labels(labels.iloc[order], second)
    assert np.array_equal(shuffled.values, as_labels(labels, first).values)


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_leaving_rows_out_makes_them_missing(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    frames = {k: pd.DataFrame(rng.normal(size=(n, 2)), index=range(100, 100 + n)) for k in "ab"}
    kept = rng.random(n) < 0.5
    kept[0] = True
    views = as_viewset(frames | {"b": frames["b"][kept]})
    assert np.array_equal(views.observed[:, 1], kept)
    assert np.array_equal(views.rows("b", kept, np.float64), frames["b"][kept].to_numpy())
    assert not views.rows("b", ~kept).any()


def test_without_ids_lengths_must_agree() -> None:
    with pytest.raises(ViewError, match="same number of rows, found a: 3, b: 2; give DataFrames"):
        as_viewset({"a": np.ones((3, 1)), "b": np.ones((2, 1))})


ONE = np.ones((3, 1))


def test_view_names_that_occur_twice() -> None:
    with pytest.raises(ViewError, match="view names must be unique; 1 occur more than once: 1"):
        as_viewset({1: ONE, "1": ONE})


def test_sample_ids_that_occur_twice() -> None:
    with pytest.raises(ViewError, match="sample_ids must be unique; 1 occur more than once: x"):
        ViewSet({"a": ONE}, sample_ids=["x", "y", "x"])
    frame = pd.DataFrame(ONE, index=["p", "p", "q"])
    with pytest.raises(ViewError, match=r"view 'a': sample ids must be unique.*: p"):
        as_viewset({"a": frame})
    many = pd.DataFrame(np.ones((20, 1)), index=list(range(10)) * 2)
    with pytest.raises(ViewError, match=r"10 occur more than once: 0, 1, 2, 3, 4, \.\.\."):
        as_viewset({"a": many})


def test_label_names_that_occur_twice() -> None:
    views = as_viewset([ONE])
    with pytest.raises(LabelError, match=r"label names must be unique.*: cat"):
        as_labels(pd.DataFrame(np.ones((3, 2)), columns=["cat", "cat"]), views)
    with pytest.raises(LabelError, match=r"label names must be unique.*: cat"):
        as_labels(np.ones((3, 2)), views, names=["cat", "cat"])
