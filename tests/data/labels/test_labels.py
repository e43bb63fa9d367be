"""Labels: accepted forms, alignment by id, and clear refusals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from viewgap.data.labels import Labels
from viewgap.data.rows import values as values_module
from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import LabelError, ViewgapWarning

NAN = np.nan
VIEWS = as_viewset([np.ones((3, 2))])
Y = np.array([[1, 0], [NAN, 1], [0, NAN]])


def frame_views(ids: list[Any]) -> Any:
    return as_viewset({"x": pd.DataFrame({"p": np.arange(len(ids))}, index=ids)})


@given(
    hnp.arrays(
        float,
        st.tuples(st.integers(1, 6), st.integers(1, 4)),
        elements=st.sampled_from([0, 1, NAN]),
    )
)
def test_every_form_gives_the_same_labels(matrix: Any) -> None:
    views = as_viewset([np.ones((len(matrix), 1))])
    with_none = [[None if np.isnan(cell) else int(cell) for cell in row] for row in matrix]
    forms = [
        matrix,
        matrix.astype(np.float16),
        np.asfortranarray(matrix),
        matrix.tolist(),
        with_none,
        np.array(with_none, dtype=object),
        pd.DataFrame(matrix),
        pd.DataFrame(matrix).astype("Int64"),
        pd.DataFrame(matrix).astype("boolean"),
        sparse.csr_array(matrix),
        sparse.coo_matrix(matrix),
    ]
    for form in forms:
        labels = as_labels(form, views)
        assert np.array_equal(labels.as_float(), matrix, equal_nan=True)
        assert labels.values.dtype == np.uint8
        assert np.array_equal(labels.values, np.nan_to_num(matrix))
        assert np.array_equal(labels.observed, ~np.isnan(matrix))
        assert as_labels(labels, views) is labels


def test_chunks_see_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 16)
    assert np.array_equal(as_labels(Y, VIEWS).as_float(), Y, equal_nan=True)
    with pytest.raises(LabelError, match="found 7 in row 2, column 1"):
        as_labels([[0, 1], [0, 1], [0, 7]], VIEWS)


def test_sizes_and_frequencies() -> None:
    labels = as_labels(Y, VIEWS)
    assert len(labels) == 3
    assert labels.n_labels == 2
    assert labels.shape == (3, 2)
    assert labels.names == ("label0", "label1")
    assert labels.frequency().tolist() == [0.5, 0.5]
    never = as_labels([[1, NAN], [1, NAN], [0, NAN]], VIEWS).frequency()
    assert never[0] == pytest.approx(2 / 3)
    assert np.isnan(never[1])
    with pytest.raises(ValueError, match="read-only"):
        labels.values[0, 0] = 0


@pytest.mark.parametrize(
    "rows", [[2, 0], slice(1, None), np.array([True, False, True]), [], np.array([-1])]
)
def test_rows(rows: Any) -> None:
    expected = Y[np.array(rows, dtype=int) if isinstance(rows, list) else rows]
    assert np.array_equal(as_labels(Y, VIEWS)[rows].as_float(), expected, equal_nan=True)


def test_one_row() -> None:
    assert as_labels(Y, VIEWS)[1].shape == (1, 2)
    assert as_labels(Y, VIEWS)[[1], ...].shape == (1, 2)


def test_values_are_zero_where_unobserved() -> None:
    labels = Labels(np.ones((2, 1), dtype=np.uint8), np.array([[True], [False]]), ("a",))
    assert labels.values.tolist() == [[1], [0]]
    with pytest.raises(LabelError, match="do not fit together"):
        Labels(np.ones((2, 1), dtype=np.uint8), np.ones((2, 2), dtype=bool), ("a",))


def test_frames_are_aligned_by_id() -> None:
    views = frame_views(["p", "q", "r"])
    frame = pd.DataFrame({"cat": [0, 1, NAN], "dog": [1, 0, 1]}, index=["r", "p", "q"])
    labels = as_labels(frame, views)
    assert labels.names == ("cat", "dog")
    assert np.array_equal(labels.as_float(), np.array([[1, 0], [NAN, 1], [0, 1]]), equal_nan=True)
    assert np.array_equal(
        as_labels(frame[["dog", "cat"]], views, labels.names).as_float(),
        labels.as_float(),
        equal_nan=True,
    )
    # Without ids in the views, rows count.
    assert as_labels(frame.fillna(0), VIEWS).values[:, 1].tolist() == [1, 0, 1]


def test_samples_without_a_row_of_labels() -> None:
    views = frame_views(["p", "q", "r"])
    for values in ([1, 0], [True, False]):
        with pytest.warns(ViewgapWarning, match="1 samples have no row of labels .first id: 'q'"):
            labels = as_labels(pd.DataFrame({"cat": values}, index=["r", "p"]), views)
        assert np.array_equal(labels.as_float(), np.array([[0], [NAN], [1]]), equal_nan=True)


def test_rows_of_labels_without_a_sample() -> None:
    views = frame_views(["p", "q"])
    with pytest.raises(LabelError, match=r"1 rows of labels belong to no sample .* 'z'"):
        as_labels(pd.DataFrame({"cat": [1, 0, 1]}, index=["p", "q", "z"]), views)
    with pytest.raises(LabelError, match="no id in common"):
        as_labels(pd.DataFrame({"cat": [1, 0]}), views)
    with pytest.raises(LabelError, match="must be unique"):
        as_labels(pd.DataFrame({"cat": [1, 0]}, index=["p", "p"]), views)


def test_bootstrapped_rows_keep_their_labels() -> None:
    views = frame_views(["p", "q"])
    frame = pd.DataFrame({"cat": [1, 0]}, index=["p", "q"])
    assert as_labels(frame.iloc[[0, 0, 1]], views[[0, 0, 1]]).values[:, 0].tolist() == [1, 1, 0]
    assert as_labels(frame, views[[1, 0, 1]]).values[:, 0].tolist() == [0, 1, 0]


def test_names() -> None:
    assert as_labels(Y, VIEWS, names=["a", "b"]).names == ("a", "b")
    with pytest.raises(LabelError, match="expected 3 labels, found 2 columns"):
        as_labels(Y, VIEWS, names=["a", "b", "c"])
    with pytest.raises(LabelError, match="differ from the expected ones: b, c"):
        as_labels(pd.DataFrame(Y, columns=["a", "b"]), VIEWS, names=["a", "c"])
    with pytest.raises(LabelError, match="expected the labels c, d"):
        as_labels(as_labels(Y, VIEWS, names=["a", "b"]), VIEWS, names=["c", "d"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1, 0, 1], "reshape"),
        (pd.Series([1, 0, 1]), "reshape"),
        (np.ones((3, 1, 1)), "one row per sample"),
        (np.ma.masked_equal(np.array([[1], [0], [1]]), 1), "masked array"),
        ([["cat"], ["dog", "cat"], []], "MultiLabelBinarizer"),
        (np.ones((3, 0)), "at least one"),
        (np.ones((2, 1)), "3 samples, 2 rows"),
        ([["1"], ["2"], ["1"]], "found 2 in row 1, column 0"),
        (np.array([["x"], [0], [1]], dtype=object), "row 0, column 0: found 'x'"),
        (np.array([["1"], [0], [[]]], dtype=object), r"row 2, column 0: found \[\]"),
        (np.array([[{}], [0], [1]], dtype=object), "must be 0, 1 or NaN"),
        (np.array([[1j], [0], [1]]), "complex"),
        (pd.DataFrame({"a": ["x", "y", "z"]}), "sample 0, label 'a': found 'x'"),
        (pd.DataFrame({"a": pd.Categorical(["x", "y", "z"])}), "sample 0, label 'a': found 'x'"),
    ],
)
def test_refusals(wrong: Any, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        as_labels(wrong, VIEWS)
