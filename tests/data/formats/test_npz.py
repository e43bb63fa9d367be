"""Archives that name their views, columns and samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.formats import read_data, read_npz, read_views
from viewgap.data.validation import match_views
from viewgap.errors import DataFileError, ViewgapWarning

N = 5
FIRST = np.arange(15, dtype=np.float32).reshape(N, 3)
SECOND = -np.arange(10, dtype=np.float32).reshape(N, 2)
IDS = np.array([f"H{i:03d}" for i in range(N)])
LABELS = np.array([[0, 1], [1, 0], [1, 1], [np.nan, 0], [0, 0]], dtype=np.float32)


def write(folder: Path, **arrays: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **{key: np.asarray(array) for key, array in arrays.items()})  # type: ignore[arg-type]
    return path


def test_names_of_everything(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        view_names=["drugs", "seahorse"],
        view0=FIRST,
        feature_names0=["d1", "d2", "d3"],
        view1=SECOND,
        feature_names1=["s1", "s2"],
        sample_ids=IDS,
        labels=LABELS,
        label_names=["del11q", "del13q"],
        view_mask=[[True, True]] * 4 + [[True, False]],
    )
    raw = read_npz(path)
    assert raw.views.names == ("drugs", "seahorse")
    assert raw.views.feature_names == {"drugs": ("d1", "d2", "d3"), "seahorse": ("s1", "s2")}
    assert raw.views.sample_ids.tolist() == IDS.tolist()
    assert raw.views.observed.sum(axis=0).tolist() == [5, 4]
    assert raw.views.stored("drugs").dtype == np.float32
    assert np.array_equal(raw.views.stored("drugs"), FIRST)
    assert raw.label_names == ("del11q", "del13q")
    np.testing.assert_array_equal(raw.labels, LABELS)  # type: ignore[arg-type]
    assert read_views(path).names == ("drugs", "seahorse")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["drugs", "genes"], "'genes' would become 'drugs', and there is another array"),
        (["other", "genes"], "'drugs' would become 'genes', and there is another array"),
        (["genes", "drugs"], None),
        (["one", "two"], None),
    ],
)
def test_names_of_views_that_are_those_of_other_arrays(
    names: list[str], told: str | None, tmp_path: Path
) -> None:
    # As new names in the order of the arrays, the first ones would exchange the two views.
    path = write(tmp_path, genes=FIRST, drugs=-FIRST, view_names=names)
    if told is None:
        views = read_npz(path).views
        assert views.names == tuple(names)
        assert np.array_equal(views.stored(names[0]), FIRST)
    else:
        with pytest.raises(DataFileError, match=told):
            read_npz(path)


def test_columns_by_the_name_of_the_view(tmp_path: Path) -> None:
    columns = np.array([b"d1", b"d2", b"d3"])
    path = write(tmp_path, drugs=FIRST, drugs_feature_names=columns, other=SECOND)
    views = read_npz(path).views
    assert views.feature_names == {"drugs": ("d1", "d2", "d3"), "other": None}
    assert views.row_order_known


def test_names_of_columns_by_number_and_by_name_of_the_view(tmp_path: Path) -> None:
    columns = np.array(["d1", "d2", "d3"])
    arrays = {"1": FIRST, "0": -FIRST, "feature_names0": columns}
    views = read_npz(write(tmp_path, **arrays)).views
    assert views.feature_names == {"1": ("d1", "d2", "d3"), "0": None}  # of the first array
    two = {"drugs": FIRST, "feature_names0": columns, "drugs_feature_names": columns[::-1]}
    with pytest.raises(DataFileError, match="view 'drugs' has two arrays of column names"):
        read_npz(write(tmp_path, **two))


def test_sparse_views_beside_named_columns(tmp_path: Path) -> None:
    matrix = sparse.csr_array(FIRST)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    path = write(
        tmp_path,
        **{f"text_{key}": part for key, part in parts.items()},
        text_shape=matrix.shape,
        text_feature_names=["a", "b", "c"],
        other=SECOND,
        other_feature_names=["d", "e"],
        story_ids=IDS,
    )
    views = read_npz(path).views
    assert views.sample_ids.tolist() == IDS.tolist()
    assert np.array_equal(views.rows("text"), FIRST)
    assert views.feature_names == {"text": ("a", "b", "c"), "other": ("d", "e")}


@pytest.mark.parametrize("ids", [None, IDS])
def test_columns_of_a_sparse_view_are_matched_by_name(ids: Any, tmp_path: Path) -> None:
    def archive(columns: list[int]) -> Path:
        matrix = sparse.csr_array(FIRST[:, columns])
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        arrays = {f"text_{key}": part for key, part in parts.items()}
        arrays |= {} if ids is None else {"sample_ids": ids}
        names = np.array(["a", "b", "c"])[columns]
        return write(tmp_path, **arrays, text_shape=matrix.shape, text_feature_names=names)

    one = read_npz(archive([0, 1, 2])).views
    other = match_views(read_npz(archive([2, 0, 1])).views, one.names, one.dims, one.feature_names)
    assert np.array_equal(other.rows("text"), FIRST)
    assert other.row_order_known


def test_flags_of_the_samples_are_no_views(tmp_path: Path) -> None:
    path = write(tmp_path, a=FIRST, is_test=np.arange(N) > 2, site=["x"] * N)
    with pytest.warns(ViewgapWarning, match=r"mine\.npz: arrays not read: is_test, site"):
        assert read_data(path).views.names == ("a",)


def test_ids_of_another_name_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, a=FIRST, ids=["x"] * N)
    with pytest.warns(ViewgapWarning, match="if 'ids' holds the sample ids, name it sample_ids"):
        read_data(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"view_names": ["a", "b"], "view0": FIRST}, "2 view names for 1 views"),
        ({"view_names": ["a", "a"], "v": FIRST, "w": SECOND}, "must be unique"),
        ({"a": FIRST, "feature_names0": ["p"]}, r"shape \(5, 3\), but there are 1 names"),
        ({"a": FIRST, "feature_names7": ["p"] * 3}, "'7', which is no view"),
        ({"a": FIRST, "feature_names0": list("pqr"), "x_ids": IDS[:2]}, "2 sample ids"),
        (
            {"a": FIRST, "labels": 3 * LABELS, "label_names": ["p", "q"]},
            r"3\.0 in row 0, label 'q'",
        ),
        ({"a": FIRST, "labels": 3 * LABELS, "x_ids": IDS}, r"3\.0 in sample 'H000', label 'label1"),
    ],
)
def test_names_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataFileError, match=message) as caught:
        read_npz(write(tmp_path, **arrays))
    assert "mine.npz" in str(caught.value)


@pytest.mark.parametrize("key", ["label_names", "view_names", "sample_ids", "feature_names0"])
@pytest.mark.parametrize("point", [0xD800, 0x110000, 0xFFFFFFFF])
def test_text_that_is_none(tmp_path: Path, key: str, point: int) -> None:
    names = {"label_names": 2, "view_names": 1, "sample_ids": N, "feature_names0": 3}
    points = np.arange(65, 65 + names[key], dtype=np.uint32)
    points[0] = point
    arrays = {"view0": FIRST, "labels": LABELS, key: points.view("<U1")}
    with pytest.raises(DataFileError, match=r"mine\.npz.*(no valid text|damaged)"):
        read_npz(write(tmp_path, **arrays))


def test_names_of_arrays_that_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path, view0=FIRST)
    assert read_npz(path).views.names == ("view0",)
    too_many = {f"v{i}": FIRST for i in range(6000)}
    with pytest.raises(DataFileError, match="views, more than the 1,000"):
        read_npz(write(tmp_path, **too_many))


def test_sparse_parts_that_go_back_and_forth(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"s_data": np.zeros(0), "s_indices": np.zeros(0, "i8")}
    path = write(tmp_path, **empty, s_indptr=[0, 9, 0], s_shape=[2, 3])
    with pytest.raises(DataFileError, match=r"sparse view 's'.*non-decreasing"):
        read_npz(path)
