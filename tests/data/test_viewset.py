"""ViewSet: what it holds, what indexing gives, and that values under the mask stay there."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from viewgap.data.rows import values as values_module
from viewgap.data.rows.values import row_numbers
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError, ViewgapDeprecationWarning

DTYPES = ["bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64"]


def two_views(seed: int = 0, n: int = 6) -> ViewSet:
    rng = np.random.default_rng(seed)
    observed = rng.random((n, 2)) < 0.6
    return ViewSet(
        {"a": rng.normal(size=(n, 3)), "b": rng.integers(0, 9, size=(n, 2))}, observed=observed
    )


def naive_rows(
    array: Any, observed: Any, column: int, rows: list[int], dtype: Any
) -> list[list[Any]]:
    out = []
    for row in rows:
        if observed[row][column]:
            out.append([np.dtype(dtype).type(cell) for cell in array[row]])
        else:
            out.append([np.dtype(dtype).type(0)] * len(array[row]))
    return out


@st.composite
def view_cases(draw: st.DrawFn) -> tuple[dict[str, np.ndarray], np.ndarray, list[int]]:
    n = draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    views = {
        f"v{i}": (rng.random((n, draw(st.integers(1, 4)))) * 5).astype(dtype)
        for i, dtype in enumerate(draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3)))
    }
    rows = draw(st.lists(st.integers(-n, n - 1), max_size=9))
    return views, rng.random((n, len(views))) < 0.5, rows


@given(view_cases(), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_rows_equal_a_naive_loop(case: Any, dtype: Any, as_sparse: bool) -> None:
    views, observed, rows = case
    given_views = {
        name: sparse.csr_array(array) if as_sparse and array.dtype != np.float16 else array
        for name, array in views.items()
    }
    held = ViewSet(given_views, observed=observed)
    for j, (name, array) in enumerate(views.items()):
        found = held.rows(name, rows, dtype=dtype)
        assert found.dtype == dtype
        assert found.shape == (len(rows), array.shape[1])
        assert found.tolist() == naive_rows(array, observed, j, rows, dtype)
        # The same through an indexed set, whole and in part.
        indexed = held[rows]
        assert np.array_equal(indexed.rows(name, dtype=dtype), found)
        assert np.array_equal(indexed.rows(name, slice(0, 2), dtype=dtype), found[:2])


@given(view_cases())
def test_indexing_twice_is_indexing_once(case: Any) -> None:
    views, observed, rows = case
    held = ViewSet(views, observed=observed)
    twice, once = held[rows][::-1], held[rows[::-1]]
    assert np.array_equal(twice.observed, once.observed)
    assert np.array_equal(twice.sample_ids, once.sample_ids)
    assert np.array_equal(twice.to_array(), once.to_array(), equal_nan=True)


def test_old_names_of_missing_values_work_with_a_warning() -> None:
    views = ViewSet({"a": [[1.0, float("nan")], [2.0, 3.0]]})
    with pytest.warns(ViewgapDeprecationWarning, match="n_missing_values"):
        assert views.missing_cells == {"a": 1}
    with pytest.warns(ViewgapDeprecationWarning, match="count_missing_values"):
        assert views.count_missing_cells("a").tolist() == [1, 0]


def test_names_sizes_and_repr() -> None:
    views = ViewSet(
        {"a": np.ones((4, 3)), "b": np.ones((4, 2))}, observed=[[1, 0]] * 2 + [[1, 1]] * 2
    )
    assert views.names == ("a", "b")
    assert views.dims == (3, 2)
    assert len(views) == 4
    assert views.shape == (4, 5)
    assert views.n_views == 2
    assert views.sample_ids.tolist() == [0, 1, 2, 3]
    assert not views.has_ids
    assert repr(views) == "ViewSet(4 samples; a: 3, b: 2; 25.0% of the entries missing)"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, -2), [5, 3, 1]),
        ([4, 0, 0], [4, 0, 0]),
        (np.array([-1, 2]), [5, 2]),
        ((0, 3), [0, 3]),
        (np.array([True, False, True, False, False, True]), [0, 2, 5]),
        ([], []),
        (3, [3]),
        (np.int64(-2), [4]),
        ((np.array([1, 2]), ...), [1, 2]),
    ],
)
def test_every_way_to_choose_rows(rows: Any, expected: list[int]) -> None:
    views = two_views()
    chosen = views[rows]
    assert chosen.sample_ids.tolist() == expected
    assert np.array_equal(chosen.observed, views.observed[expected])
    assert np.array_equal(chosen.to_array(), views.to_array()[expected], equal_nan=True)


@pytest.mark.parametrize(
    "rows", [6, -7, [0, 6], [True, False], [[0, 1]], [0.5], ["a"], np.array(2.0)]
)
def test_rows_that_are_not_there(rows: Any) -> None:
    with pytest.raises(IndexError):
        two_views()[rows]


def test_row_numbers_do_not_change_what_they_are_given() -> None:
    rows = np.array([-1, 0])
    assert row_numbers(rows, 3).tolist() == [2, 0]
    assert rows.tolist() == [-1, 0]


def test_iteration_ends() -> None:
    assert [len(row) for row in two_views(n=3)] == [1, 1, 1]  # type: ignore[attr-defined]


def test_stored_shares_memory_and_is_read_only() -> None:
    array = np.arange(12, dtype=np.uint8).reshape(4, 3)
    matrix = sparse.csr_matrix(np.eye(4))
    views = ViewSet({"a": array, "s": matrix})
    assert views.stored("a").dtype == np.uint8
    assert np.shares_memory(views.stored("a"), array)
    assert np.shares_memory(views.stored("s").data, matrix.data)
    assert views.stored("s").format == "csr"
    with pytest.raises(ValueError, match="read-only"):
        views.stored("a")[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        views.stored("s").data[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        views.observed[0, 0] = False
    with pytest.raises(ValueError, match="read-only"):
        views.sample_ids[0] = 7
    assert array.flags.writeable
    assert matrix.data.flags.writeable


def test_rows_gives_new_memory() -> None:
    array = np.ones((3, 2), dtype=np.float32)
    ViewSet({"a": array}).rows("a")[:] = 5
    assert (array == 1).all()


def test_a_huge_memmap_is_not_read_by_indexing(tmp_path: Path) -> None:
    # 16 GiB of holes: reading it whole would neither fit nor end.
    mapped = np.memmap(tmp_path / "huge.bin", dtype=np.uint8, mode="w+", shape=(2**22, 2**12))
    mapped[-1, -1] = 9
    views = ViewSet({"a": mapped})
    assert isinstance(views.stored("a"), np.memmap)
    assert views[-3:].rows("a")[-1, -1] == 9
    assert views[2:][[0, -1]].rows("a").sum() == 9


def test_to_array_has_nan_where_missing() -> None:
    views = ViewSet(
        {"a": [[1, 2], [3, 4]], "b": [[5], [6]]}, observed=[[True, False], [True, True]]
    )
    found = views.to_array()
    assert found.dtype == np.float64
    assert np.array_equal(found, np.array([[1, 2, np.nan], [3, 4, 6]]), equal_nan=True)
    assert np.array_equal(np.asarray(views), found, equal_nan=True)
    assert np.asarray(views, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        views.__array__(copy=False)


def test_nan_rows_are_missing_beside_a_mask() -> None:
    array = np.array([[np.nan, np.nan], [1, 2], [3, 4]])
    views = ViewSet({"a": array}, observed=[[True], [False], [True]])
    assert views.observed[:, 0].tolist() == [False, False, True]


def test_nan_rows_are_found_in_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 3 * 2 * 8)
    array = np.arange(40.0).reshape(20, 2)
    array[[0, 2, 3, 19]] = np.nan
    views = ViewSet({"a": array})
    assert np.flatnonzero(~views.observed[:, 0]).tolist() == [0, 2, 3, 19]
    assert np.array_equal(views.rows("a"), np.nan_to_num(array))


def test_with_observed_only_takes_away() -> None:
    views = two_views()
    mask = np.random.default_rng(1).random(views.observed.shape) < 0.5
    less = views.with_observed(mask)
    assert np.array_equal(less.observed, views.observed & mask)
    assert np.shares_memory(less.stored("a"), views.stored("a"))
    assert np.array_equal(
        views.with_observed(mask)[2:].observed, views[2:].with_observed(mask[2:]).observed
    )


@pytest.mark.parametrize(
    "mask", [np.ones((6, 3)), np.ones(6), np.full((6, 2), 0.5), [["x", "y"]] * 6]
)
def test_wrong_masks(mask: Any) -> None:
    with pytest.raises(ViewError, match="observed"):
        two_views().with_observed(mask)
    with pytest.raises(ViewError, match="observed"):
        ViewSet({"a": np.ones((6, 1)), "b": np.ones((6, 1))}, observed=mask)


def test_a_mask_given_by_the_user_is_copied() -> None:
    mask = np.ones((2, 1), dtype=bool)
    views = ViewSet({"a": [[1.0], [2.0]]}, observed=mask)
    mask[:] = False
    assert views.observed.all()


def test_reorder_and_select() -> None:
    views = two_views()
    turned = views.reorder(["b", "a"])
    assert turned.names == ("b", "a")
    assert np.array_equal(turned.observed, views.observed[:, ::-1])
    assert np.array_equal(turned[1:].rows("a"), views.rows("a")[1:])
    assert views.select(["b"]).shape == (6, 2)
    with pytest.raises(ViewError, match="each view once"):
        views.reorder(["a"])
    with pytest.raises(ViewError, match="no view named 'c'"):
        views.select(["c"])
    with pytest.raises(ViewError, match="no view named 'c'"):
        views.rows("c")


def test_a_missing_view_takes_no_memory() -> None:
    views = two_views()[[1, 2, 3]].with_missing_view("c", 10**7)
    assert views.shape == (3, 5 + 10**7)
    assert not views.observed[:, 2].any()
    assert not views.with_missing_view("c", 4).rows("c").any()


def test_pickle_takes_only_the_rows_of_the_set() -> None:
    views = ViewSet({"a": np.ones((1000, 50)), "s": sparse.csr_array(np.eye(1000))})[[3, 4]]
    data = pickle.dumps(views)
    assert len(data) < 5000
    for again in (pickle.loads(data), copy.deepcopy(views), copy.copy(views)):
        assert again.sample_ids.tolist() == [3, 4]
        assert np.array_equal(again.to_array(), views.to_array())
        assert not again.stored("a").flags.writeable


def test_ids() -> None:
    views = ViewSet({"a": [[1.0], [2.0]]}, sample_ids=["x", "y"])
    assert views.has_ids
    assert views[[1]].sample_ids.tolist() == ["y"]
    assert views[[1]].has_ids
    with pytest.raises(ViewError, match="2 ids"):
        ViewSet({"a": [[1.0], [2.0]]}, sample_ids=["x"])
