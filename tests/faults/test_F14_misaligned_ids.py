"""F14: rows are aligned by id where ids are given; without ids the lengths must agree."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import ViewError


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
