"""Arrays with ids and names beside them, and sparse matrices of scipy, one file per view."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.formats import read_data
from viewgap.data.formats.base import LIMIT_VARIABLE
from viewgap.data.rows.values import LazyRows
from viewgap.errors import DataFileError, LabelError, ViewError

VALUES = np.arange(12.0).reshape(4, 3)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def test_sparse_views_stay_sparse_and_arrays_in_their_files(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(VALUES))
    np.save(tmp_path / "b.npy", VALUES[:3])
    write(tmp_path, "a.ids.txt", "w\nx\ny\nz\n")
    write(tmp_path, "b.ids.txt", "z\r\nx\r\nw\r\n")
    views = read_data(tmp_path).views
    assert views.is_sparse("a")
    assert isinstance(views.stored("b"), LazyRows)
    assert views.sample_ids.tolist() == ["w", "x", "y", "z"]
    np.testing.assert_array_equal(views.rows("b"), [VALUES[2], VALUES[1], [0, 0, 0], VALUES[0]])
    assert views.observed[:, 1].tolist() == [True, True, False, True]


def test_sparse_matrices_without_ids_meet_by_row(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(VALUES))
    sparse.save_npz(tmp_path / "b.npz", sparse.csc_array(VALUES))
    write(tmp_path, "labels.csv", "row,y\n0,1\n1,0\n2,1\n3,\n")
    raw = read_data(tmp_path)
    assert np.array_equal(raw.views.rows("a"), raw.views.rows("b"))
    np.testing.assert_array_equal(raw.labels, [[1], [0], [1], [np.nan]])
    sparse.save_npz(tmp_path / "b.npz", sparse.csc_array(VALUES[:3]))
    with pytest.raises(ViewError, match="same number of rows"):
        read_data(tmp_path)


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"a.ids.txt": "w\nx\n"}, DataFileError, "expected 4 lines.*found 2"),
        ({"a.ids.txt": "w\nx\nx\nz\n"}, DataFileError, "all different.*found 4, 3 different"),
        ({"a.ids.txt": "w\nx\n\nz\n"}, DataFileError, "none blank"),
        ({"a.columns.txt": "i\nj\nk\n"}, DataFileError, r"names of columns.*a\.ids\.txt"),
        ({"a.ids.txt": "w\nx\ny\nz\n"}, DataFileError, "view 'b' has no sample ids"),
        ({"labels.csv": "id,y\nw,1\n"}, LabelError, "the data has no sample ids"),
        ({"genes.csv": "id,y\nw,1\n"}, DataFileError, r"\(a\.npz\) beside tables"),
    ],
)
def test_folders_that_are_refused(
    tmp_path: Path, files: dict[str, str], error: type[Exception], message: str
) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(VALUES))
    np.save(tmp_path / "b.npy", VALUES)
    for name, text in files.items():
        write(tmp_path, name, text)
    with pytest.raises(error, match=message):
        read_data(tmp_path)


def test_labels_without_ids_beside_views_with_ids(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.save(tmp_path / "labels.npy", np.eye(4))
    write(tmp_path, "a.ids.txt", "w\nx\ny\nz\n")
    with pytest.raises(DataFileError, match=r"the labels have none.*labels\.ids\.txt"):
        read_data(tmp_path)
    write(tmp_path, "labels.csv", "id,y\nw,1\n")
    with pytest.raises(DataFileError, match=r"several files of labels: labels\.npy, labels\.csv"):
        read_data(tmp_path)


def test_matrices_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.coo_matrix(VALUES))
    with pytest.raises(DataFileError, match="format 'coo'; expected csr or csc"):
        read_data(tmp_path)
    sparse.save_npz(path, sparse.csr_array(VALUES))
    with pytest.raises(DataFileError, match="one sparse matrix; put one such file per view"):
        read_data(path)
    parts = dict(np.load(path))
    np.savez(path, **parts | {"indices": parts["indices"] + 100})
    with pytest.raises(DataFileError, match=r"damaged.*sparse view 'a'"):
        read_data(tmp_path)
    np.savez(path, **parts | {"shape": np.array([4, 2**40])})
    with pytest.raises(DataFileError, match=LIMIT_VARIABLE):
        read_data(tmp_path)
