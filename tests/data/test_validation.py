"""Validation of views: every accepted container, matching by name, and clear refusals."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from data_files import same
from viewgap.data.validation import apply_nan_policy, as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError, ViewgapWarning

A = np.arange(6.0).reshape(3, 2)
B = np.arange(3.0).reshape(3, 1)
NAN = np.nan


def test_a_viewset_is_returned_as_it_is() -> None:
    views = ViewSet({"a": A})
    assert as_viewset(views) is views
    assert as_viewset(views, views={"x": [0]}) is views


def test_lists_and_dicts() -> None:
    assert as_viewset([A, B]).names == ("view0", "view1")
    assert as_viewset((A, sparse.coo_matrix(B))).dims == (2, 1)
    assert as_viewset({"x": A.tolist(), 7: B}).names == ("x", "7")
    assert same(as_viewset({"x": A, "y": B}), [[0, 1, 0], [2, 3, 1], [4, 5, 2]])


def test_none_rows_are_missing() -> None:
    views = as_viewset([[[1, 2], None, (3, 4)], B])
    assert same(views, [[1, 2, 0], [NAN, NAN, 1], [3, 4, 2]])
    assert views.stored("view0").dtype.kind == "i"


def test_none_views_have_no_width_yet() -> None:
    views = as_viewset({"x": None, "y": B, "z": [None, None, None]})
    assert views.dims == (0, 1, 0)
    assert views.observed.tolist() == [[False, True, False]] * 3
    with pytest.raises(ViewError, match="number of samples is unknown"):
        as_viewset({"x": None})


def test_one_table_is_cut_by_columns() -> None:
    table = np.arange(12.0).reshape(3, 4)
    table[1, 2:] = NAN
    views = as_viewset(table, views={"x": slice(0, 2), "y": [2, 3]})
    assert same(views, [[0, 1, 2, 3], [4, 5, NAN, NAN], [8, 9, 10, 11]])
    assert np.shares_memory(views.stored("x"), table)
    assert np.shares_memory(views.stored("y"), table)
    assert as_viewset(table, views={"y": [-1], "x": [0, 2]}, nan="missing_view").dims == (1, 2)
    assert as_viewset(sparse.csr_array(np.eye(4)), views={"x": range(3), "y": [3]}).dims == (3, 1)
    assert as_viewset(table.tolist(), views={"x": [0, 1]}).dims == (2,)
    assert as_viewset(
        table, views={"x": np.array([True, False, True, False])}, nan="missing_view"
    ).dims == (2,)


def test_one_frame_is_cut_by_columns() -> None:
    frame = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=list("pqrs"), index=[5, 6, 7])
    views = as_viewset(frame, views={"x": ["s", "p"], "y": slice("q", "r"), "z": "q"})
    assert same(views, [[3, 0, 1, 2, 1], [7, 4, 5, 6, 5], [11, 8, 9, 10, 9]])
    assert views.sample_ids.tolist() == [5, 6, 7]
    assert as_viewset(frame, views={"x": [0, 1], "y": slice(2, 4)}).dims == (2, 2)
    with pytest.raises(ViewError, match=r"'x'.*not in the table: t"):
        as_viewset(frame, views={"x": ["p", "t"]})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([4], "4 columns"),
        ([-5], "4 columns"),
        (["p"], "slice or numbers"),
        ([], "slice or numbers|no columns"),
    ],
)
def test_columns_that_are_not_there(columns: Any, message: str) -> None:
    with pytest.raises(ViewError, match=message):
        as_viewset(np.ones((3, 4)), views={"x": columns})


def test_frames_are_aligned_by_index() -> None:
    first = pd.DataFrame({"p": [1, 2]}, index=["i", "j"])
    second = pd.DataFrame({"q": [3.0, 4.0], "r": [5.0, 6.0]}, index=["k", "i"])
    views = as_viewset({"x": first, "y": second})
    assert views.sample_ids.tolist() == ["i", "j", "k"]
    assert views.has_ids
    assert same(views, [[1, 4, 6], [2, NAN, NAN], [NAN, 3, 5]])
    assert views.stored("x").dtype == np.int64


def test_arrays_beside_frames() -> None:
    first = pd.DataFrame({"p": [1, 2, 3]}, index=["i", "j", "k"])
    second = pd.DataFrame({"q": [4]}, index=["j"])
    views = as_viewset({"x": first, "y": second, "z": B, "w": None})
    assert same(views, [[1, NAN, 0], [2, 4, 1], [3, NAN, 2]])
    with pytest.raises(ViewError, match=r"'z': 2 rows without ids"):
        as_viewset({"x": first, "z": B[:2]})
    other = pd.DataFrame({"q": [4, 5]}, index=["k", "l"])
    with pytest.raises(ViewError, match="without ids"):
        as_viewset({"x": first, "y": other, "z": np.ones((4, 1))})
    with pytest.raises(ViewError, match="3 samples are not among sample_ids"):
        ViewSet({"x": first}, sample_ids=[1, 2, 3])
    assert ViewSet({"x": first, "y": second}, observed=[[0, 1]] * 3).observed.sum() == 1
    with pytest.raises(ViewError, match="rows of the mask are not defined"):
        ViewSet({"x": first[:2], "y": first[1:]}, observed=[[0, 1]] * 3)


def test_frames_without_a_common_id() -> None:
    first = pd.DataFrame({"p": [1]}, index=[1])
    second = pd.DataFrame({"p": [1]}, index=["1"])
    with pytest.raises(ViewError, match=r"'x' has no sample id .* 1 here, '1' in view 'y'"):
        as_viewset({"x": first, "y": second})


def test_columns_of_text_are_refused_with_their_first_value() -> None:
    frame = pd.DataFrame({"p": [1.0, 2.0], "site": [None, "left"]}, index=["i", "j"])
    with pytest.raises(ViewError, match=r"view 'x': column 'site' .*'left' for sample 'j'.*encode"):
        as_viewset({"x": frame})


def test_kinds_of_index() -> None:
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    days = pd.date_range("2020-01-01", periods=2)
    for index in (pairs, days, pd.Index(["u", "v"], dtype="string")):
        first = pd.DataFrame({"p": [1, 2]}, index=index)
        views = as_viewset({"x": first, "y": first[::-1]})
        assert same(views, [[1, 1], [2, 2]])
    with pytest.raises(ViewError, match="ids are missing, first that of row 1"):
        as_viewset({"x": pd.DataFrame({"p": [1, 2]}, index=["a", None])})


def test_kinds_of_columns() -> None:
    frame = pd.DataFrame({"p": [True, False], "q": [1.5, 2.5]})
    assert same(as_viewset({"x": frame}), [[1, 1.5], [0, 2.5]])
    nullable = pd.DataFrame({"p": pd.array([1, None], dtype="Int64")})
    assert same(as_viewset({"x": nullable}), [[1], [NAN]])
    columns: list[Any] = [
        ["u", "v"],
        [object(), 1],
        pd.date_range("2020", periods=2),
        pd.Categorical(["a", "b"]),
    ]
    for column in columns:
        with pytest.raises(ViewError, match="'x': column 'text' has dtype"):
            as_viewset({"x": frame.assign(text=column)})


def test_sparse_views_are_aligned_too() -> None:
    whole = sparse.csr_array(np.array([[0, 1.0], [2, 0]]))
    data = SimpleNamespace(X=whole, obs_names=pd.Index(["b", "a"]), var_names=pd.Index(["p", "q"]))
    plain = SimpleNamespace(
        X=A, obs_names=pd.Index(["a", "c", "b"]), var_names=pd.Index(["p", "q"])
    )
    mudata = SimpleNamespace(mod={"x": plain, "y": data})
    views = as_viewset(mudata)
    assert views.sample_ids.tolist() == ["a", "c", "b"]
    assert same(views, [[0, 1, 2, 0], [2, 3, NAN, NAN], [4, 5, 0, 1]])
    assert sparse.issparse(views.stored("y"))


def test_refusals() -> None:
    with pytest.raises(ViewError, match=r"found one ndarray of shape \(3, 2\).*views="):
        as_viewset(A)
    with pytest.raises(ViewError, match="found one DataFrame"):
        as_viewset(pd.DataFrame(A))
    with pytest.raises(ViewError, match="at least one view"):
        as_viewset([])
    with pytest.raises(ViewError, match="names no view"):
        as_viewset(A, views={})
    with pytest.raises(ViewError, match="masked array"):
        as_viewset([np.ma.masked_equal(A, 1)])
    with pytest.raises(ViewError, match="cannot become an array"):
        as_viewset([A, _Stubborn()])
    with pytest.raises(ViewError, match="empty name"):
        as_viewset({"": A})
    with pytest.raises(SettingError, match="nan must be"):
        as_viewset([A], nan="ignore")
    with pytest.raises(ViewError, match=r"expected \{name: values\}, found list"):
        ViewSet([A])  # type: ignore[arg-type]


class _Stubborn:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("on another device")


def test_ragged_rows() -> None:
    with pytest.raises(ViewError, match="'view0': rows of different shapes"):
        as_viewset([[[1, 2], [3]]])


def test_match_views_orders_by_name() -> None:
    views = as_viewset({"y": B, "x": A})
    matched = match_views(views, ["x", "y"], [2, 1])
    assert matched.names == ("x", "y")
    assert same(matched, [[0, 1, 0], [2, 3, 1], [4, 5, 2]])


def test_match_views_fills_what_is_absent() -> None:
    with pytest.warns(ViewgapWarning, match="treated as missing: x, z"):
        matched = match_views(as_viewset({"y": B})[1:], ["x", "y", "z"], [2, 1, 3])
    assert matched.dims == (2, 1, 3)
    assert matched.observed.tolist() == [[False, True, False]] * 2
    assert matched.rows("y").tolist() == [[1], [2]]
    # None was said on purpose: no warning (the suite turns warnings into errors).
    assert match_views(as_viewset({"x": None, "y": B}), ["x", "y"], [2, 1]).dims == (2, 1)


def test_match_views_refuses_what_the_model_does_not_know() -> None:
    with pytest.raises(ViewError, match="view 'z' was not there when the model was fitted"):
        match_views(as_viewset({"x": A, "z": B}), ["x"], [2])
    with pytest.raises(ViewError, match="view 'x': 2 columns, the model was fitted on 3"):
        match_views(as_viewset({"x": A}), ["x"], [3])


@pytest.mark.parametrize("kind", [sparse.dok_array, sparse.csr_matrix])
def test_one_sparse_table_is_cut_by_columns(kind: Any) -> None:
    views = as_viewset(kind(A), views={"x": [1], "y": [0]})
    assert same(views, [[1, 0], [3, 2], [5, 4]])


def test_nan_under_the_mask_is_no_error() -> None:
    holes = A.astype(float)
    holes[1] = np.nan
    views = ViewSet({"x": holes, "y": B}, observed=np.array([[1, 1], [0, 1], [1, 1]], dtype=bool))
    assert apply_nan_policy(views, "error") is views


def permutation_of(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.permutations(names)


@given(permutation_of(["a", "b", "c", "d"]))
def test_any_order_gives_the_same_views(order: list[str]) -> None:
    arrays: Mapping[str, Any] = {k: np.full((2, i + 1), float(i)) for i, k in enumerate("abcd")}
    fitted = as_viewset(arrays)
    matched = match_views(as_viewset({k: arrays[k] for k in order}), fitted.names, fitted.dims)
    assert np.array_equal(matched.to_array(), fitted.to_array())
