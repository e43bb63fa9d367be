"""What views and labels are refused for, where no other test goes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from viewgap.data.labels import SparseLabels, SparseLabelTable
from viewgap.data.validation import (
    apply_nan_policy,
    as_labels,
    as_viewset,
    is_one_array,
    match_views,
)
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewError, ViewgapWarning
from viewgap.metrics import fit_thresholds

A = np.arange(6.0).reshape(3, 2)


def test_a_column_of_ids_needs_tables() -> None:
    with pytest.raises(ViewError, match="id_column='id' needs DataFrames, found ndarray"):
        as_viewset(A, id_column="id")
    frame = pd.DataFrame({"id": ["p", "q", "r"], "x": [1.0, 2, 3]})
    assert as_viewset([frame, frame], id_column="id").names == ("view0", "view1")


def test_labels_of_other_names_are_refused() -> None:
    views = ViewSet({"a": A})
    labels = as_labels(pd.DataFrame(np.eye(3), columns=["x", "y", "z"]), views)
    with pytest.raises(LabelError, match="expected the labels"):
        as_labels(labels, views, names=["x", "y", "w"])


def test_arrays_of_another_width_than_the_fitted_one_are_refused() -> None:
    with pytest.raises(ViewError, match="view 'a': 2 columns, the model was fitted on 3"):
        match_views(ViewSet({"a": A}), ["a"], [3])
    named = ViewSet({"a": pd.DataFrame(A, columns=["x", "y"])})
    with pytest.raises(ViewError, match="view 'a': 2 columns, the model was fitted on 3"):
        match_views(named, ["a"], [3])
    with pytest.raises(ViewError, match="view 'a': 2 columns, the model was fitted on 3"):
        match_views(ViewSet({"a": A}), ["a"], [3], {"a": ("x", "y", "z")})


def test_columns_with_names_on_one_side_only_are_taken_in_order_with_a_warning() -> None:
    with pytest.warns(ViewgapWarning, match=r"views a: only one of the model and this data"):
        matched = match_views(ViewSet({"a": A}), ["a"], [2], {"a": ("x", "y")})
    np.testing.assert_array_equal(matched.rows("a"), A)


def test_absent_columns_are_named_with_those_that_may_be_meant() -> None:
    views = ViewSet({"a": pd.DataFrame(A, columns=["x", "Y"])})
    absent = (
        r"1 of the 2 columns .* are absent: y; not known to the model: Y; "
        "'Y' here and 'y' in the model differ in form only; add them"
    )
    with pytest.raises(ViewError, match=absent):
        match_views(views, ["a"], [2], {"a": ("x", "y")})
    with pytest.raises(ViewError, match=r"2 of the 4 .* are absent: p, q; add them"):
        match_views(views, ["a"], [4], {"a": ("x", "p", "Y", "q")})


def test_absent_columns_that_only_look_the_same_are_told_by_their_code_points() -> None:
    views = ViewSet({"a": pd.DataFrame(A, columns=["x", "e\u0301"])})
    with pytest.raises(ViewError, match=r"'e\\u0301' here and '\\xe9' in the model differ in form"):
        match_views(views, ["a"], [2], {"a": ("x", "\u00e9")})


def test_views_without_rows_are_no_samples() -> None:
    frame = pd.DataFrame(A, index=[f"s{i}" for i in range(len(A))], columns=["x", "y"])
    with pytest.raises(ViewError, match="no samples: none of the views has rows"):
        as_viewset({"a": frame[:0], "b": frame[:0]})
    with pytest.raises(ViewError, match="view 'b' has no rows; if no sample has it, leave it out"):
        as_viewset({"a": frame, "b": frame[:0]})
    with pytest.raises(ViewError, match="view 'a': no samples"):
        as_viewset({"a": frame[:0]})


def test_missing_values_of_other_rows_are_none() -> None:
    values = A.copy()
    values[1, 1] = np.nan
    views = ViewSet({"a": values, "b": A}, nan="mean")
    some = views[[0, 2]]
    assert apply_nan_policy(some, "error") is some
    with pytest.raises(ViewError, match=r"view 'a': 1 NaN values in 1 rows .* row id 1, column 1;"):
        apply_nan_policy(views, "error")


def test_a_sparse_matrix_is_one_table_and_a_dict_of_them_is_not() -> None:
    sparse = scipy.sparse.dok_array(A)
    assert is_one_array(sparse)
    assert not is_one_array({"a": sparse})
    with pytest.raises(ViewError, match=r"expected several views, found one dok_array of shape"):
        as_viewset(sparse)


def test_a_fallback_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingError, match="fallback must be a finite number"):
        fit_thresholds(np.eye(3), np.eye(3), fallback=np.nan)


def test_sparse_labels_of_a_file_are_aligned_by_id() -> None:
    labels = SparseLabels.from_sparse(scipy.sparse.csr_array(np.eye(3)), ["x", "y", "z"])
    views = ViewSet({"a": A}, sample_ids=["p", "q", "r"])
    found = as_labels(SparseLabelTable(labels, ["q", "p", "r"]), views)
    assert found.names == ("x", "y", "z")
    np.testing.assert_array_equal(found.values, np.eye(3)[[1, 0, 2]])
    with pytest.raises(LabelError, match=r"1 rows of labels belong to no sample .* 's'"):
        as_labels(SparseLabelTable(labels, ["q", "p", "s"]), views)


def test_labels_without_a_positive_have_the_fallback() -> None:
    assert fit_thresholds(np.zeros((3, 2)), np.eye(3, 2), fallback=0.25).tolist() == [0.25, 0.25]


def test_columns_of_a_dataset_follow_one_another(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.random.default_rng(0).normal(size=(6, 5))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        table = file.create_dataset("table", data=values)
        given: dict[str, tuple[Any, slice]] = {
            "first": ([0, 1, 2], slice(0, 3)),
            "last": ([3, 4], slice(3, 5)),
            "by_slice": (slice(1, 4, 1), slice(1, 4)),
        }
        for name, (columns, expected) in given.items():
            read = as_viewset(table, views={name: columns}).rows(name)
            np.testing.assert_allclose(read, values[:, expected], rtol=1e-6)
        for columns in ([0, 2], [2, 1], slice(0, 4, 2)):
            with pytest.raises(ViewError, match="view 'a': the columns of an HDF5 dataset must"):
                as_viewset(table, views={"a": columns})


def test_columns_count_from_the_end_as_far_as_there_are_some() -> None:
    values = np.random.default_rng(0).normal(size=(6, 3))
    found = as_viewset(values, views={"a": [-3, -1]}).rows("a")
    np.testing.assert_allclose(found, values[:, [0, 2]], rtol=1e-6)
    for column in (-4, 3):
        with pytest.raises(ViewError, match="asked of a table with 3 columns"):
            as_viewset(values, views={"a": [column]})


def test_names_of_columns_asked_of_an_array_tell_how_a_pipeline_keeps_them() -> None:
    advice = r"found x, y; .* set_output\(transform='pandas'\) keeps the names"
    with pytest.raises(ViewError, match=advice):
        as_viewset(A, views={"a": ["x", "y"]})


def test_one_row_or_one_column_is_asked_for_where_values_have_one_dimension() -> None:
    both = r"reshape\(-1, 1\) makes one column of it, reshape\(1, -1\) one sample"
    with pytest.raises(ViewError, match=both):
        ViewSet({"a": A[0]})
