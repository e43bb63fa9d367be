"""Labels of files that are too large for a matrix: lists, sparse arrays, with and without ids."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from viewgap.data import (
    RawData,
    SparseLabels,
    SparseLabelTable,
    as_labels,
    read_data,
    split_label_lists,
)
from viewgap.data.formats.npz import describe
from viewgap.data.labels import sparse_labels
from viewgap.errors import LabelError, ViewgapWarning

IDS = [f"s{i}" for i in range(6)]
LISTS = ["sea;sky", "sky", None, "[]", "sun", "sea;sun;sky"]


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sparse_labels, "MOST_DENSE", 5)
    return monkeypatch


def same(found: RawData, expected: RawData) -> None:
    assert isinstance(found.labels, SparseLabels)
    assert isinstance(expected.labels, np.ndarray)
    assert found.label_names == expected.label_names
    rows = np.arange(len(expected.labels))
    np.testing.assert_array_equal(found.labels.rows_as_float(rows), expected.labels)
    np.testing.assert_array_equal(found.views.sample_ids, expected.views.sample_ids)


def write_tables(folder: Path) -> None:
    """Three tables in different orders; a sample without labels, labels without a sample."""
    values = pd.DataFrame({"x": np.arange(6) + 0.5}, index=pd.Index(IDS, name="id"))
    values.iloc[::-1].to_csv(folder / "a.csv")
    values.iloc[1:].to_csv(folder / "b.csv")
    lists = pd.DataFrame({"tags": LISTS[1:]}, index=pd.Index(IDS[1:], name="id"))
    lists.loc["nobody"] = "sky"
    lists.to_csv(folder / "labels.csv")


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
def test_lists_of_labels_in_a_folder(tmp_path: Path, small_limit: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    found = read_data(tmp_path, label_separator=";")
    small_limit.undo()
    same(found, read_data(tmp_path, label_separator=";"))


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
def test_lists_of_labels_beside_arrays_without_ids(
    tmp_path: Path, small_limit: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.save(folder / "a.npy", np.arange(12.0).reshape(6, 2))
    order = [3, 1, 0, 5, 4, 2]
    lists = pd.DataFrame({"tags": LISTS}, index=pd.Index(range(6), name="id")).iloc[order]
    lists.to_csv(tmp_path / "tags.csv")
    options = {"labels": tmp_path / "tags.csv", "label_separator": ";"}
    found = read_data(folder, **options)
    small_limit.undo()
    same(found, read_data(folder, **options))


def make_sparse() -> sparse.csr_array:
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((6, 4), density=0.4, format="csr", rng=rng)
    matrix.data[:] = 1
    matrix.data[2] = np.nan
    return matrix


def test_sparse_labels_of_an_archive(tmp_path: Path, small_limit: pytest.MonkeyPatch) -> None:
    matrix = make_sparse()
    parts = {f"labels_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    parts["labels_shape"] = np.array(matrix.shape)
    path = tmp_path / "data.npz"
    np.savez(path, a=np.ones((6, 2)), label_names=np.array(list("abcd")), **parts)
    found = read_data(path)
    assert describe(path)["cardinality"] == (matrix.data == 1).sum() / 6
    small_limit.undo()
    expected = read_data(path)
    same(found, expected)
    assert expected.views.names == ("a",)
    np.testing.assert_array_equal(expected.labels, matrix.toarray())


@pytest.mark.parametrize("with_ids", [False, True])
def test_sparse_labels_of_a_folder_of_arrays(
    tmp_path: Path, small_limit: pytest.MonkeyPatch, with_ids: bool
) -> None:
    np.save(tmp_path / "a.npy", np.ones((6, 2)))
    sparse.save_npz(tmp_path / "labels.npz", make_sparse())
    if with_ids:
        (tmp_path / "a.ids.txt").write_text("\n".join(IDS))
        (tmp_path / "labels.ids.txt").write_text("\n".join(IDS[::-1]))
    found = read_data(tmp_path)
    small_limit.undo()
    same(found, read_data(tmp_path))


def test_a_table_is_aligned_as_a_frame_is(small_limit: pytest.MonkeyPatch) -> None:
    import viewgap

    tags = pd.DataFrame({"tags": LISTS}, index=IDS)
    table = split_label_lists(tags, ";")
    assert isinstance(table, SparseLabelTable)
    assert "6 x 3, 7 positives" in repr(table)
    small_limit.undo()
    frame = split_label_lists(tags, ";")
    views = viewgap.ViewSet({"a": pd.DataFrame({"x": np.ones(5)}, ["s9", "s5", "s0", "s3", "s2"])})
    names = ["sun", "sea", "sky"]
    for wrong in (table, frame):
        with pytest.raises(LabelError, match="2 rows of labels belong to no sample"):
            as_labels(wrong, views)
    keep = [sample in views.sample_ids for sample in IDS]
    with pytest.warns(ViewgapWarning, match=r"1 samples have no row of labels .*s9") as caught:
        found = as_labels(table[keep], views, names)
    assert caught[0].filename == __file__
    with pytest.warns(ViewgapWarning) as caught:
        expected = as_labels(frame[keep], views, names)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(found.as_float(), expected.as_float())
    assert found.names == expected.names == tuple(names)
    with pytest.raises(LabelError, match="the label names differ"):
        as_labels(table[keep], views, ["sun", "sea", "rain"])
